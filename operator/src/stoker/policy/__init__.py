"""Policies: what is wrong with one, which one is in force, and what it says of a job."""
