"""What the metrics say, on a real Prometheus."""
