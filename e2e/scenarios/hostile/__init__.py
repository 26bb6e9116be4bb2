"""Hostile objects beside bystanders: what is said of a job, and done to it, does not hang on anybody else's objects."""
