"""What a gate is: one condition of a reclaim. All that is said of a gate stands on the gate: its name, its demand, what
it reads, and what `stoker replay` assumes of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Flag, StrEnum, auto

from stoker.reclaim.case import Case
from stoker.reclaim.hold import GateHold


class Reads(Flag):
    """What a gate reads beyond the job's objects, their status and its metrics."""

    JOB = 0
    POLICY = auto()
    """A policy's settings, beside those by which the job is found reclaimable."""
    CLUSTER = auto()
    """What only the controller may read or look for in the cluster; what the job's objects show counts as well."""
    PROCESS = auto()
    """What the process knows that carries the reclaim out, and nobody else."""


class GateGroup(StrEnum):
    """The questions that the gates answer, in their order. The first four ask what is so (FACTS), the others what is to
    follow from it.
    """

    TOUCH = "Is it eligible?"
    IDLE = "Are all its GPUs idle?"
    LENGTH = "Idle for long enough, and not in use?"
    NEED = "Is there a cause to reclaim them?"
    CONSENT = "Does the policy allow it?"
    WARNING = "Is its owner warned?"
    DUE = "Is it due?"
    ACTION = "Is it confirmed right before the action?"


Check = Callable[[Case], GateHold | None]
FACTS = frozenset({GateGroup.TOUCH, GateGroup.IDLE, GateGroup.LENGTH, GateGroup.NEED})


def _always(_: Case) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition of a reclaim: its name, the group that it belongs to, what must be so, and the check.

    `demand` is printed behind a box that is ticked or not, with the reason behind it where it is not: a phrase that
    reads right either way ("owner warned"), never a sentence that the box would deny.

    A check is total and pure, and holds back whatever it can't judge. `asked` says of which jobs the question makes
    sense; of others an earlier gate holds, so that it is of interest only to who explains them all. `reads` says who
    can answer it, `replay` what `stoker replay` assumes where that was not recorded (empty: what was recorded decides),
    `held_back` why GPUs that were idle were left alone by it, `ended` how it ended a warning, each as a replay says it.
    """

    name: str
    group: GateGroup
    demand: str
    check: Check
    asked: Callable[[Case], bool] = _always
    reads: Reads = Reads.JOB
    replay: str
    held_back: str = ""
    ended: str = ""


RECORDED = ""
"""What a replay assumes of a gate whose answer was recorded: nothing."""


class GateList:
    """The gates of a module, in the order in which they stand there."""

    def __init__(self) -> None:
        self._gates: list[Gate] = []

    def __iter__(self) -> Iterator[Gate]:
        return iter(self._gates)

    def gate(
        self,
        name: str,
        group: GateGroup,
        demand: str,
        *,
        replay: str,
        asked: Callable[[Case], bool] = _always,
        reads: Reads = Reads.JOB,
        held_back: str = "",
        ended: str = "",
    ) -> Callable[[Check], Gate]:
        """Makes a check the next gate, under whose name others refer to it. `replay` has no default: whoever adds a
        gate says what `stoker replay` assumes where the past does not tell.
        """

        def add(check: Check) -> Gate:
            gate = Gate(
                name=name,
                group=group,
                demand=demand,
                check=check,
                asked=asked,
                reads=reads,
                replay=replay,
                held_back=held_back,
                ended=ended,
            )
            self._gates.append(gate)
            return gate

        return add
