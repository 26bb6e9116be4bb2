"""Classes of jobs that no reclaim may touch."""
