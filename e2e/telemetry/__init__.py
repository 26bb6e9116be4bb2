"""What simulated GPUs tell: scenarios, the exporter that plays them, their back-filled past, and faults on the way."""
