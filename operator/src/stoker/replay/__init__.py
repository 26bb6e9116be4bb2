"""What a policy would have done over the recorded past; pure but for the examiner that it is given."""

from stoker.replay.assumptions import Inputs
from stoker.replay.candidates import first_rest, last_held, windows
from stoker.replay.constraints import SimulatedConstraints, name_of
from stoker.replay.examining import Examined, Examiner, SeriesExaminer
from stoker.replay.simulation import Assumed, GivenWarning, JobOutcome, Reclaim, Simulation
from stoker.replay.statement import Figures, HeldBack, Part, PolicyInForce, Statement, state

__all__ = [
    "Assumed",
    "Examined",
    "Examiner",
    "Figures",
    "GivenWarning",
    "HeldBack",
    "Inputs",
    "JobOutcome",
    "Part",
    "PolicyInForce",
    "Reclaim",
    "SeriesExaminer",
    "Simulation",
    "Statement",
    "SimulatedConstraints",
    "first_rest",
    "last_held",
    "name_of",
    "state",
    "windows",
]
