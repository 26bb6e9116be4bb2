"""What was measured: series, samples on a grid, activity, recorded usage, and the ports through which they are read."""
