"""All mechanisms: importing this package fills the register."""

from simulator_b.mechanisms import ambiguous, data, exchange, healthy, job, library, mixed, model

__all__ = ["ambiguous", "data", "exchange", "healthy", "job", "library", "mixed", "model"]
