"""Whether programs run one after another on fewer GPUs than the job holds."""

from dataclasses import dataclass, field

import numpy as np

from stoker.diagnosis.series.examination import Device, Examination, once
from stoker.diagnosis.series.idle_devices import HELD_MEMORY_PERCENT
from stoker.diagnosis.series.requests import acts_as_service
from stoker.diagnosis.series.stages import runs
from stoker.telemetry.grid import BoolArray

LEAST_TURN_SECONDS = 300.0
"""Seconds of work on one GPU that make a turn. Chosen because the stages of a pipeline, and phases of one program,
follow one another within seconds or a minute or two.
"""
PAUSE_SECONDS = 120.0
"""A shorter pause lies within a turn: a checkpoint or a validation."""
LEAST_TURNS = 3
"""Turns. Chosen because two may be two stages of one program."""
AT_ONCE_PERCENTILE = 95.0
"""Of the number of GPUs at work in a step: at the ends of turns two may share a step."""
LEAST_PROGRAMS = 3
"""Programs one after another, by how often the memory was given back and taken again. Chosen because a second one may
be a restart after a failure.
"""
GIVEN_BACK = 0.6
"""Share of its usual memory under which a GPU has given its model back. Chosen over a half, because a step's mean may
hold half of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """GPUs that work in turns.

    devices: those that do. number: how many turns. at_once: GPUs at work at the same time, at most. waiting: the time
    in which a GPU idles while others work, one row a device. memory_known: it was seen that the waiting GPUs hold no
    model.
    """

    devices: tuple[Device, ...]
    number: int
    at_once: int
    waiting: BoolArray = field(compare=False)
    memory_known: bool


@once
def turns(exam: Examination) -> Turns | None:
    """The turns of a job's GPUs; None where they work together, where a waiting GPU keeps a model, where too little of
    them is known, or where it is one and the same GPU that works.
    """
    facts = exam.facts
    if acts_as_service(exam) or facts.gpus < 2 or not exam.whole_gpus or not exam.covered or not exam.any_busy.any():
        return None
    at_once = int(np.percentile(exam.busy.sum(axis=0)[exam.any_busy], AT_ONCE_PERCENTILE))
    if at_once >= facts.gpus:
        return None
    numbers = [_turns(exam, device) for device in exam.devices]
    worked = tuple(device for device, number in zip(exam.devices, numbers, strict=True) if number)
    if len(worked) <= at_once or sum(numbers) < LEAST_TURNS * at_once:
        return None
    waiting = exam.idle & exam.any_busy
    held = [_held(device, waiting[row]) for row, device in enumerate(exam.devices)]
    if any(share is not None and share > HELD_MEMORY_PERCENT for share in held):
        return None
    return Turns(
        devices=worked,
        number=sum(numbers),
        at_once=at_once,
        waiting=waiting,
        memory_known=all(share is not None for share in held),
    )


def programs(exam: Examination, device: Device) -> int:
    """How many programs a GPU has had one after another, by its memory: each gives it back, and the next one takes it
    again. 1 where memory is not sampled.
    """
    memory = device.memory_mib[np.isfinite(device.memory_mib)]
    held = device.memory_mib[device.busy & np.isfinite(device.memory_mib)]
    if not len(held):
        return 1
    bound = float(memory.min()) + GIVEN_BACK * float(np.median(held) - memory.min())
    return max(len(runs(memory > bound)), 1)


def _turns(exam: Examination, device: Device) -> int:
    """The stretches of work on a GPU that are long enough for a turn."""
    joined: list[tuple[int, int]] = []
    for first, last in runs(device.busy):
        if joined and (first - joined[-1][1]) * exam.step < PAUSE_SECONDS:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return sum((last - first) * exam.step >= LEAST_TURN_SECONDS for first, last in joined)


def _held(device: Device, waiting: BoolArray) -> float | None:
    """Percent of its memory that a GPU usually holds while it waits; None where unknown, 0 if it never waits."""
    known = device.memory[waiting & np.isfinite(device.memory)]
    if len(known):
        return float(np.median(known))
    return None if waiting.any() else 0.0
