"""Slow and healthy jobs of the simulator, side by side in one cluster, and what the operator says of each."""
