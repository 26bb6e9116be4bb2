"""What the metrics of a job say: series, the rules over them, idleness, and the causes of low utilization."""
