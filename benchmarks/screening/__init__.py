"""What a look at the whole cluster costs: `python -m benchmarks.screening`."""
