"""What `stoker diagnose` and `stoker explain` read of a cluster or of recordings, and how they print it."""
