"""What the operator says of jobs: their status, their events, its metrics."""
