"""What rules look at: a submission, its shell script, launch plan and image reference, and series."""
