"""From utilization series to a diagnosis: the screen's arithmetic, stages and findings; pure."""
