"""What one job's examination costs: `python -m benchmarks.examination`."""
