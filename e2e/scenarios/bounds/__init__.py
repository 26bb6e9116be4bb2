"""What the rest of the cluster says to a reclaim: bounds, order, the brake, and who waits for GPUs."""
