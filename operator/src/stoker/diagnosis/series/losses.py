"""The GPU time that one cause inside training takes, from the drops and from the level of the job."""

from dataclasses import dataclass, field
from datetime import datetime

from stoker.diagnosis.series.effort import working
from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.input_wait import InputWait, input_wait
from stoker.diagnosis.series.interruption import Interruption, interruption
from stoker.findings.finding import Recoverable, WeighedCause
from stoker.findings.vocabulary import Category, Confidence, Source
from stoker.findings.wording import gpu_hours, interval, percent
from stoker.telemetry.grid import BoolArray

OVERDUE_PERIODS = 2.0
"""So long after the last drop they are still taken to go on."""
SURENESS = (Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What one category costs a job: drops of its kind, a low level of its making, or both."""

    mask: BoolArray = field(compare=False)
    since: datetime
    until: datetime | None
    explains: BoolArray = field(compare=False)
    hours: float
    detail: str
    evidence: str
    confidence: Confidence
    alternatives: tuple[Category, ...]
    weighed: tuple[WeighedCause, ...]
    drops: Interruption | None
    level: InputWait | None

    def claim(self, *, fix: str | None = None, recoverable: Recoverable | None = None) -> Claim:
        """The claim on the GPU time."""
        logged = self.drops is not None and self.drops.mark is not None
        return Claim(
            detail=self.detail,
            evidence=self.evidence,
            fix=fix,
            confidence=self.confidence,
            sources=(Source.METRICS, Source.LOGS) if logged else (Source.METRICS,),
            since=self.since,
            until=self.until,
            recoverable=recoverable,
            alternatives=self.alternatives,
            weighed=self.weighed,
            explains=self.explains,
        )


def loss(exam: Examination, category: Category) -> Loss | None:
    """What the cause takes of the job's GPU time; None where the series name it for nothing."""
    drops, level = interruption(exam), input_wait(exam)
    return combined(
        exam,
        drops if drops is not None and drops.category is category else None,
        level if level is not None and level.category is category else None,
    )


def undecided(exam: Examination) -> Loss | None:
    """What is taken by causes that the series leave open; None where they name them, or nothing speaks for any."""
    drops, level = interruption(exam), input_wait(exam)
    named = drops.category if drops is not None else None
    open_ = level is not None and level.category is None and level.alternatives and named not in level.alternatives
    return combined(
        exam,
        drops if drops is not None and named is None and exam.is_low else None,
        level if open_ else None,
    )


def stalled_hours(exam: Examination, drops: Interruption) -> float:
    """The GPU-hours that the drops took from the GPUs that have work: those that do none lose nothing by them."""
    gpus = min(len(working(exam)), exam.facts.gpus)  # a former pod's GPUs are its successor's
    return sum(drops.drops.lost) * gpus / 3600


def goes_on(exam: Examination, drops: Interruption) -> bool:
    """The job's stage reaches to its end, and the next drop is not overdue."""
    last = drops.drops.spans[-1][1]
    since = (len(exam.life) - last) * exam.step
    return bool(exam.training[-1]) and since <= OVERDUE_PERIODS * drops.drops.period


def at_work(exam: Examination) -> str:
    """The GPUs that training is said to use, as people say them."""
    return "GPU" if len(working(exam)) == len(exam.devices) else "GPU that works"


def combined(exam: Examination, drops: Interruption | None, level: InputWait | None) -> Loss | None:
    """The loss by drops and by a level together."""
    if drops is None and level is None:
        return None
    mask = exam.steps(0, 0)
    details: list[str] = []
    evidence: list[str] = []
    confidences: list[Confidence] = []
    alternatives: tuple[Category, ...] = ()
    if drops is not None:
        mask = mask | drops.drops.low
        stand = "stand still" if drops.drops.floor < 5 else "lose work"
        details.append(f"The GPUs {stand} for {percent(100 * drops.drops.share)} of the active time")
        alone = len(drops.devices) < len(exam.present)
        who = f", of {exam.names(drops.devices)} alone while the others spin" if alone else ""
        evidence.append(f"{drops.pattern}{who}; {drops.evidence}")
        confidences.append(drops.confidence)
        alternatives += drops.alternatives
    if level is not None:
        mask = mask | level.stage
        details.append(f"Training uses {percent(level.level)} of each {at_work(exam)}")
        named = level.alternatives if level.category is None else (level.category,)
        said = [one.evidence for one in level.weighed if one.evidence and one.category in named]
        evidence.append(", ".join(said))
        confidences.append(level.confidence)
        alternatives += level.alternatives
    since, until = exam.span(mask)
    if drops is not None and goes_on(exam, drops):
        until = exam.until(len(exam.life))
    workers = [exam.devices[row] for row in working(exam)]
    latest = {pod.name for pod in exam.facts.pods}
    present = [device for device in workers if device.pod.name in latest] or exam.present
    explains = exam.explains(mask, workers)
    hours = exam.idle_hours(explains)
    return Loss(
        mask=mask,
        since=since,
        until=until,
        explains=explains,
        hours=hours,
        detail=f"{', and '.join(details)}; {gpu_hours(hours)} idle.",
        evidence="; ".join(part for part in (f"{interval(since, until)}, {exam.names(present)}", *evidence) if part),
        confidence=min(confidences, key=SURENESS.index),
        alternatives=tuple(dict.fromkeys(alternatives)),
        weighed=(drops.weighed if drops is not None else ()) or (level.weighed if level is not None else ()),
        drops=drops,
        level=level,
    )
