"""Rules over a submitted manifest and its script."""
