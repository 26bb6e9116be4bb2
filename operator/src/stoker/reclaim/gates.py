"""The conditions of a reclaim, one gate each, in the order in which they are checked.

The first gate that holds a job back decides what is done (`planning.plan`); all of them together explain the job
(`explanation.explain`, which `stoker explain` prints). Tables of docs/reclaim.md and docs/replay.md are generated from
here. A new gate stands in fact_gates.py or action_gates.py, at its place in the order.
"""

from stoker.reclaim.action_gates import ACTION_GATES
from stoker.reclaim.case import Case
from stoker.reclaim.fact_gates import FACT_GATES
from stoker.reclaim.gate import Gate
from stoker.reclaim.hold import GateHold

GATES: tuple[Gate, ...] = (*FACT_GATES, *ACTION_GATES)
"""A job that passes all of them is suspended or deleted."""


def first_hold(case: Case) -> tuple[Gate, GateHold] | None:
    """The first gate that holds the job back; None for one that is due."""
    return next(((gate, hold) for gate in GATES if (hold := gate.check(case)) is not None), None)
