"""From series to causes: pure functions over what the metrics' source has read."""

from stoker.diagnosis.idle import has_worked, idleness, question, works
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.words import to_status

__all__ = ["diagnose", "has_worked", "idleness", "question", "to_status", "works"]
