"""All cases; importing a module enters its own."""

from simulator.case import CASES as CASES
from simulator.cases import ambiguous, data, healthy, job, library, model, pairs, running, serving, unseen

__all__ = ["CASES", "ambiguous", "data", "healthy", "job", "library", "model", "pairs", "running", "serving", "unseen"]
