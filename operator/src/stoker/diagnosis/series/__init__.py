"""What diagnosis rules look at: one job's series, and what is asked of them by more than one rule."""
