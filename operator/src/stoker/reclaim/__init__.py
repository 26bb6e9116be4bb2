"""The decision whether an idle job's GPUs are taken back; pure."""
