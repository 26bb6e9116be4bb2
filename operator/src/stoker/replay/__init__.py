"""What a policy would have done over the recorded past; pure but for the examiner that it is given."""

from stoker.replay.candidates import first_rest
from stoker.replay.examining import Examiner, SeriesExaminer
from stoker.replay.simulation import Assumed, GivenWarning, JobOutcome, Reclaim, Simulation
from stoker.replay.surroundings import Surroundings, name_of

__all__ = [
    "Assumed",
    "Examiner",
    "GivenWarning",
    "JobOutcome",
    "Reclaim",
    "SeriesExaminer",
    "Simulation",
    "Surroundings",
    "first_rest",
    "name_of",
]
