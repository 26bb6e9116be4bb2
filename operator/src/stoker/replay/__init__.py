"""What a policy would have done over the recorded past; pure but for the examiner that it is given."""

from stoker.replay.assumptions import Inputs
from stoker.replay.candidates import first_idle, last_held, windows
from stoker.replay.constraints import SimulatedConstraints, name_of
from stoker.replay.examining import Examined, Examiner, SeriesExaminer
from stoker.replay.simulation import Assumed, JobOutcome, SimulatedReclaim, SimulatedWarning, Simulation
from stoker.replay.summary import Figures, HeldBack, Part, PolicyInForce, ReplaySummary, summarize

__all__ = [
    "Assumed",
    "Examined",
    "Examiner",
    "Figures",
    "SimulatedWarning",
    "HeldBack",
    "Inputs",
    "JobOutcome",
    "Part",
    "PolicyInForce",
    "SimulatedReclaim",
    "SeriesExaminer",
    "Simulation",
    "ReplaySummary",
    "SimulatedConstraints",
    "first_idle",
    "last_held",
    "name_of",
    "summarize",
    "windows",
]
