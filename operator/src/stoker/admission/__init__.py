"""The review of a submitted job against a policy; pure."""
