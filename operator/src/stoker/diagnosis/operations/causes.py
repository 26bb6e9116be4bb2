"""Why the steps of an operation trace are slow: a slow worker, unequal pipeline stages, unequal sequences, or several
of them, each with what its removal would save.

`judge` is what `stoker diagnose --trace` asks. docs/traces.md explains it to users.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from stoker.diagnosis.operations.replay import Replayer
from stoker.diagnosis.operations.work import Factors, Work, divide
from stoker.findings.finding import Recoverable
from stoker.findings.vocabulary import Confidence
from stoker.findings.wording import count, percent, ranges
from stoker.telemetry.operations import OperationTrace

LEAST_COST = 0.05
"""Share by which a cause must lengthen a step that is equal otherwise. Chosen because the replay's own error is up to
2 % on the published traces, and because nobody changes a job for less.
"""
MOST_ERROR = 0.05
"""Share by which the replayed steps may differ from the recorded ones. Chosen as the least cost of a finding: a replay
that is further off cannot show one.
"""
SAME_MICRO_BATCH = 0.8
"""Least correlation of a micro-batch's times. Chosen because noise of a rank gives 0, and the times of unequal
sequences 0.99 in the published trace; unequal sequences of little spread lie between.
"""
STAGE_ABOVE = 1.05
"""Compute time of a stage, against the mean of all, from which it is named as too long; as for ranks."""
LISTED = 8
"""Slow ranks whose place is told; the finding names them all."""


class StragglerCause(StrEnum):
    """What the ranks of a training wait for in each step."""

    SLOW_WORKER = "SlowWorker"
    UNEQUAL_STAGES = "UnequalStages"
    UNEQUAL_SEQUENCES = "UnequalSequences"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFinding:
    """One cause. ranks and stages: whom it concerns; empty where it concerns all.

    recoverable: GPU-hours of the recorded steps, if this cause is removed before the others and if it is removed after
    them, the smaller figure first.
    """

    cause: StragglerCause
    confidence: Confidence
    ranks: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()
    detail: str
    evidence: str
    fix: str
    recoverable: Recoverable


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDiagnosis:
    """What a trace says. step_seconds: mean length of a step as recorded; replayed_seconds: as replayed without a
    change; equal_seconds: as replayed without what the findings name.
    """

    trace: OperationTrace
    step_seconds: float
    replayed_seconds: float
    equal_seconds: float
    findings: tuple[TraceFinding, ...]
    notes: tuple[str, ...]

    @property
    def reliable(self) -> bool:
        """Whether the recorded operations explain the length of the steps."""
        return abs(self.replayed_seconds / self.step_seconds - 1) <= MOST_ERROR

    @property
    def gpu_hours(self) -> float:
        """GPU time of the recorded steps."""
        return self.step_seconds * self.trace.steps * self.trace.gpus / 3600

    @property
    def recoverable_hours(self) -> float:
        """GPU time that would be saved without what the findings name."""
        return max(0.0, 1 - self.equal_seconds / self.replayed_seconds) * self.gpu_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saving:
    """The share of a step that the removal of a cause saves: alone, and after that of the others."""

    alone: float
    last: float


class _Steps:
    """How long a step takes, on average, without some of the causes that the trace shows."""

    def __init__(self, trace: OperationTrace, work: Work) -> None:
        self._replayer = Replayer(trace)
        self._removals = _removals(work)
        self.shown = frozenset(self._removals)

    def without(self, causes: Collection[StragglerCause]) -> float:
        """Mean seconds of a step without these causes."""
        factors: Factors = {}
        for cause in causes:
            for place, factor in self._removals[cause].items():
                factors[place] = factors[place] * factor if place in factors else factor
        return float(self._replayer.step_seconds(factors).mean())


def judge(trace: OperationTrace) -> TraceDiagnosis:
    """Name what makes the trace's steps slow. Raises TraceError for operations that cannot be replayed."""
    work = divide(trace)
    steps = _Steps(trace, work)
    replayed = steps.without(())
    equal = steps.without(steps.shown)
    named = frozenset(cause for cause in steps.shown if steps.without(steps.shown - {cause}) / equal - 1 >= LEAST_COST)
    diagnosis = TraceDiagnosis(
        trace=trace,
        step_seconds=float(trace.step_seconds.mean()),
        replayed_seconds=replayed,
        equal_seconds=steps.without(named),
        findings=(),
        notes=(),
    )
    if not diagnosis.reliable:
        return replace(diagnosis, equal_seconds=replayed, notes=tuple(_notes(diagnosis)))
    findings = []
    for cause in named:
        alone = 1 - steps.without({cause}) / replayed
        last = (steps.without(named - {cause}) - diagnosis.equal_seconds) / replayed
        saving = _Saving(alone=max(0.0, alone), last=max(0.0, last))
        findings.append(_finding(cause, saving, work, diagnosis))
    findings.sort(key=lambda finding: -finding.recoverable.max)
    return replace(diagnosis, findings=tuple(findings), notes=tuple(_notes(diagnosis)))


def _notes(diagnosis: TraceDiagnosis) -> Iterator[str]:
    left_out = diagnosis.trace.left_out
    if left_out:
        verb = "has" if left_out == 1 else "have"
        yield f"{count(left_out, 'step')} {verb} other operations than most steps, and {verb} been left out."
    if diagnosis.trace.replicas == 1:
        yield "With one replica no two ranks have the same work: a slow worker looks like a stage with more work."
    if not diagnosis.reliable:
        explained = percent(100 * diagnosis.replayed_seconds / diagnosis.step_seconds)
        yield (
            f"The recorded operations explain {explained} of a step. The rest lies between them, where ranks load data "
            f"or wait for the host: the trace cannot say what makes the steps slow."
        )


def _removals(work: Work) -> dict[StragglerCause, Factors]:
    """The causes that the trace shows, however little they cost, and the factors that remove each."""
    removals = {}
    if work.slow.any():
        removals[StragglerCause.SLOW_WORKER] = work.without_slow_ranks()
    if (work.stage_shares >= STAGE_ABOVE).any():
        removals[StragglerCause.UNEQUAL_STAGES] = work.without_unequal_stages()
    if all(correlation >= SAME_MICRO_BATCH for correlation in work.alike() if correlation is not None):
        removals[StragglerCause.UNEQUAL_SEQUENCES] = work.without_unequal_sequences()
    return removals


def _finding(cause: StragglerCause, saving: _Saving, work: Work, diagnosis: TraceDiagnosis) -> TraceFinding:
    match cause:
        case StragglerCause.SLOW_WORKER:
            return _slow_worker(saving, work, diagnosis)
        case StragglerCause.UNEQUAL_STAGES:
            return _unequal_stages(saving, work, diagnosis)
        case StragglerCause.UNEQUAL_SEQUENCES:
            return _unequal_sequences(saving, work, diagnosis)


def _slow_worker(saving: _Saving, work: Work, diagnosis: TraceDiagnosis) -> TraceFinding:
    trace, slow = diagnosis.trace, np.argwhere(work.slow)
    ranks = tuple(sorted(trace.ranks[work.slow].tolist()))
    factors = work.slowness[work.slow]
    # A replica whose stages are all slow may as well have had longer sequences.
    whole = [str(replica) for replica in range(trace.replicas) if trace.stages > 1 and work.slow[:, replica].all()]
    if len(ranks) == 1:
        slower = f"Rank {ranks[0]} needs {factors[0]:.2f} times as long as its peers"
    else:
        times = f"{factors.min():.2f} to {factors.max():.2f}"
        slower = f"Ranks {ranges(map(str, ranks))} need {times} times as long as their peers"
    said = [
        f"rank {trace.ranks[stage, replica]}: pipeline stage {stage} of replica {replica}"
        for stage, replica in slow[:LISTED]
    ]
    if trace.ranks_each > 1:
        last = ranks[0] + trace.ranks_each - 1
        said.append(
            f"one rank of each {trace.ranks_each} is recorded, so the slow one may be another of its group, such as "
            f"{ranks[0]}-{last}"
        )
    if whole:
        said.append(f"all stages of replica {', '.join(whole)} are slow, so its sequences may be longer")
    return TraceFinding(
        cause=StragglerCause.SLOW_WORKER,
        confidence=Confidence.POSSIBLE if whole else Confidence.LIKELY,
        ranks=ranks,
        stages=tuple(np.unique(slow[:, 0]).tolist()),
        detail=f"{slower} for the same work, and the other GPUs wait.",
        evidence="; ".join(said),
        fix=(
            "Have the GPUs and the node of each slow rank checked (clocks, cooling, link errors: nvidia-smi -q), and "
            "keep the job off that node until then."
        ),
        recoverable=_recoverable(saving, diagnosis, "a replay in which the slow ranks compute as fast as their peers"),
    )


def _unequal_stages(saving: _Saving, work: Work, diagnosis: TraceDiagnosis) -> TraceFinding:
    trace, shares = diagnosis.trace, work.stage_shares
    long = tuple(np.flatnonzero(shares >= STAGE_ABOVE).tolist())
    more = float(shares[list(long)].mean() / np.delete(shares, long).mean())
    computes = f"stage {long[0]} computes" if len(long) == 1 else f"stages {ranges(map(str, long))} compute"
    each = ", ".join(f"{1000 * seconds:.0f}" for seconds in np.sum(list(work.stage_seconds.values()), axis=0))
    return TraceFinding(
        cause=StragglerCause.UNEQUAL_STAGES,
        # With one replica a slow worker gives the same picture.
        confidence=Confidence.POSSIBLE if trace.replicas == 1 else Confidence.LIKELY,
        ranks=tuple(sorted(trace.ranks[list(long)].ravel().tolist())),
        stages=long,
        detail=(
            f"Pipeline {computes} {more:.2f} times as long for a micro-batch as the other stages, in all replicas, and "
            f"the other GPUs wait."
        ),
        evidence=f"forward and backward of a micro-batch on stages 0 to {trace.stages - 1}: {each} ms",
        fix=(
            "Give these stages fewer layers. The last stage also computes the output layer and the loss: count them as "
            "the layers that they cost."
        ),
        recoverable=_recoverable(saving, diagnosis, "a replay in which all stages have the same work"),
    )


def _unequal_sequences(saving: _Saving, work: Work, diagnosis: TraceDiagnosis) -> TraceFinding:
    directions, on_stages = work.alike()
    low, high = np.percentile(work.sizes, [5, 95])
    stages = "" if on_stages is None else f", of its times on neighbouring stages {on_stages:.2f}"
    return TraceFinding(
        cause=StragglerCause.UNEQUAL_SEQUENCES,
        # With one stage a rank that is slow for moments gives the same picture.
        confidence=Confidence.POSSIBLE if on_stages is None else Confidence.LIKELY,
        detail=(
            f"Micro-batches need {low:.2f} to {high:.2f} times the mean compute time of their step, on whatever rank "
            f"they are: their sequences are unequal, and the GPUs with the shorter ones wait."
        ),
        evidence=(
            f"5th and 95th percentile of the micro-batches; correlation of a micro-batch's forward and backward times "
            f"{directions:.2f}{stages}"
        ),
        fix=(
            "Divide the sequences of a step among micro-batches and replicas by their compute cost, which grows faster "
            "than their length, and not by their number."
        ),
        recoverable=_recoverable(saving, diagnosis, "a replay in which all micro-batches of a step have the same work"),
    )


def _recoverable(saving: _Saving, diagnosis: TraceDiagnosis, basis: str) -> Recoverable:
    low, high = sorted((saving.alone * diagnosis.gpu_hours, saving.last * diagnosis.gpu_hours))
    return Recoverable(min=low, max=high, basis=basis)


__all__ = ["StragglerCause", "TraceDiagnosis", "TraceFinding", "judge"]
