"""Several pods train the same model, each on its own.

## What it flags

The rule flags a job with several pods in which each pod works alone: they use about the same resources, exchange
nothing, and are not in step. They are not in step if one works for ten minutes before another has used its GPUs at
all, or if their drops (epochs, validations) or their saves, each of a model of the same size, come at different
times.

## Why it costs GPU time

Without a rendezvous each pod is a job of its own: rank 0 of 1, with the whole data set and its own checkpoints, which
often overwrite one another. All pods but one repeat the work of the first. Usually the launcher got no `--nnodes` and
`--rdzv-endpoint`, or the program never calls `init_process_group`.

## When it stays silent

- The job has one pod, or any GPU has too few samples.
- Pods exchange 5 MB/s or more.
- The pods are in step, or too little happens to decide. RDMA traffic is not counted anywhere, so a quiet network
  alone proves nothing.
- The pods do different work: a parameter server, actors and learners, trials of a search with different sizes.
- The job has worked for less than half an hour, or is an evaluation, serving or interactive job.

Without network samples of the pods the finding is only possible. Trials of one search look alike: if the job is meant
to be a search, ignore the finding.

## Change

Start the launcher on each pod with the number of nodes and a common rendezvous
(`torchrun --nnodes=... --rdzv-endpoint=...`; the operator injects PET_NNODES, PET_RDZV_ENDPOINT and MASTER_ADDR), or
run one pod.

## References

- PyTorch, torchrun: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.effort import WORK_SIGNALS, effort, mean_of
from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.percentiles import percentile
from stoker.diagnosis.series.stages import runs
from stoker.diagnosis.series.traffic import exchanged, flows, sent
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.findings.wording import count, interval, minutes, percent, size
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, PodSignal

LEAST_SECONDS = 1800.0
"""Seconds of work on each pod before the rule decides. Chosen because half an hour holds several epochs or saves."""
WORKING_PERCENT = 20.0
"""Percent of utilization from which a GPU trains. Chosen because loading a model shows less."""
ALIKE = 0.2
"""Share of their mean by which pods may differ. Chosen because pods that train the same model differ by less."""
EXCHANGE_BYTES = 5e6
"""bytes/s that two pods send and receive alike. Chosen because heartbeats and logs stay below, and gradients over
Ethernet do not.
"""
AHEAD_SECONDS = 600.0
"""Seconds of work before a peer has used a GPU. Chosen because no rank of a common training gets past its rendezvous
alone.
"""
USUAL_PERCENTILE = 90.0
"""Percentile of a pod's effort that counts as usual. Chosen because drops fill less than half of the time."""
DROP_SHARE = 0.7
"""Share of a pod's usual effort below which it is in a drop. Chosen because the end of an epoch or a validation shows
less.
"""
LEAST_DROPS = 5
"""Drops of each pod that are compared. Chosen because five hardly miss those of the other pods by chance."""
SAVED_BYTES = 40e6
"""Bytes from which a write may be a model: 10 million parameters in fp32."""
USUAL_FACTOR = 10.0
"""Times the usual amount of a step from which a write is a save. Chosen because logs are smaller."""
LEAST_SAVES = 3
"""Saves of each pod that are compared. Chosen because two may differ by chance."""
SAVE_STEPS = 10
"""Samples between two saves of one pod. Chosen so that one save is not counted twice."""
NEAR_STEPS = 2
"""Samples within which ranks that save together begin. Chosen because a save may begin between two samples."""
ALONE_SHARE = 0.3
"""Share of the saves at which no other pod saves. Chosen because ranks of a common training save within two samples of
one another each time.
"""
SAME_SIZE = 0.3
"""Deviation of the sizes of saves, as a share of their mean. Chosen because a save may lie across two samples."""
MOST_CHANCE = 0.3
"""Share of the time that events and the samples beside them may fill. Chosen because events that fill more meet by
chance.
"""
IN_STEP = 0.5
"""How far events coincide, from 0 (chance) to 1 (ranks that wait for one another). Chosen as the middle."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report pods that do the same work but do not work together."""
    facts = exam.facts
    if facts.job_type is not JobType.TRAINING or facts.nodes < 2 or not exam.covered or not exam.whole_gpus:
        return
    pods = _pods(exam)
    if len(pods) < facts.nodes:
        return
    working = {name: np.nan_to_num(values) >= WORKING_PERCENT for name, values in pods.items()}
    if any(mask.sum() * exam.step < LEAST_SECONDS for mask in working.values()) or not _alike(pods, working):
        return
    between = [float(np.nanmean(values)) for _, values in exchanged(exam) if np.isfinite(values).any()]
    if any(level >= EXCHANGE_BYTES for level in between):
        return
    apart = _ahead(exam, working) or _out_of_step(exam, pods) or _saves_alone(exam)
    if apart is None:
        return
    known = len(between) == facts.nodes
    places = np.flatnonzero(np.any(list(working.values()), axis=0))
    since, until = exam.time(int(places[0])), exam.until(int(places[-1]) + 1)
    hours = sum(float(mask.sum()) for mask in working.values()) * facts.gpus_per_node * exam.step / 3600
    level = float(np.mean([np.mean(pods[name][mask]) for name, mask in working.items()]))
    yield Claim(
        detail=(
            f"{count(facts.nodes, 'pod')} train side by side, not together: each at {percent(level)} of its GPUs, "
            f"and {apart}."
        ),
        evidence=(
            f"{interval(since, until)}; {'no samples of the network' if not known else 'no exchange between the pods'}"
        ),
        confidence=Confidence.LIKELY if known else Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(
            min=0.0, max=hours * (facts.nodes - 1) / facts.nodes, basis="the GPU time of all pods but one"
        ),
        explains=exam.explains(exam.steps(0, 0)),
    )


def _pods(exam: Examination) -> dict[str, FloatArray]:
    """The mean effort of each pod's GPUs, in percent."""
    rows = effort(exam)
    found: dict[str, FloatArray] = {}
    for pod in exam.facts.pods:
        own = [row for device, row in zip(exam.devices, rows, strict=True) if device.pod.name == pod.name]
        if own:
            found[pod.name] = mean_of(np.array(own))
    return found


def _alike(pods: dict[str, FloatArray], working: dict[str, BoolArray]) -> bool:
    levels = np.array([values[working[name]].mean() for name, values in pods.items()])
    return bool(np.abs(levels - levels.mean()).max() <= ALIKE * levels.mean())


def _ahead(exam: Examination, working: dict[str, BoolArray]) -> str | None:
    """The evidence that one pod worked before another had used its GPUs; None without."""
    first = dict.fromkeys(working, len(exam.series.times))
    for device in exam.devices:
        if device.pod.name in first and device.busy.any():
            first[device.pod.name] = min(first[device.pod.name], int(device.busy.argmax()))
    last = max(working, key=lambda name: first[name])
    seconds, pod = max((float(work[: first[last]].sum()) * exam.step, name) for name, work in working.items())
    if seconds < AHEAD_SECONDS:
        return None
    ranks = {one.name: one.rank for one in exam.facts.pods}
    return f"rank {ranks[pod]} had worked for {minutes(seconds)} before rank {ranks[last]} used a GPU"


def _out_of_step(exam: Examination, pods: dict[str, FloatArray]) -> str | None:
    """The evidence that the pods' drops come at different times; None without. Utilization alone cannot show it,
    because a waiting rank polls.
    """
    if not all(any(device.signal(signal) is not None for signal in WORK_SIGNALS) for device in exam.present):
        return None
    common = exam.training & np.all([np.isfinite(values) for values in pods.values()], axis=0)
    if not common.any():
        return None
    drops = [common & (values < DROP_SHARE * percentile(values[common], USUAL_PERCENTILE)) for values in pods.values()]
    number = min(len(runs(drop)) for drop in drops)
    if number < LEAST_DROPS or not _apart(drops, common):
        return None
    return f"{number} drops or more of each come at times of their own"


def _saves_alone(exam: Examination) -> str | None:
    """The evidence that each pod saves a model at different times; None without. Ranks of a common training save at
    the same time, or one of them saves for all.
    """
    for flow in (sent(exam), flows(exam, PodSignal.DISK_WRITE)):
        saves: list[list[int]] = []
        sizes: list[float] = []
        for _, values in flow:
            written = np.where(exam.active, np.nan_to_num(values), 0.0) * exam.step
            bursts = runs(written >= max(SAVED_BYTES / 2, USUAL_FACTOR * float(np.median(written))))
            large = [(burst, float(written[slice(*burst)].sum())) for burst in bursts]
            saves.append([first for (first, _), amount in large if amount >= SAVED_BYTES])
            sizes += [amount for _, amount in large if amount >= SAVED_BYTES]
        if len(saves) < exam.facts.nodes or min(map(len, saves)) < LEAST_SAVES:
            continue
        rare = max(map(len, saves)) * SAVE_STEPS <= exam.active.sum()
        if (
            rare
            and float(np.std(sizes)) <= SAME_SIZE * float(np.mean(sizes))
            and _alone(saves, len(exam.life)) >= ALONE_SHARE
        ):
            return f"each saves {size(float(np.mean(sizes)))} at times of its own"
    return None


def _alone(saves: list[list[int]], steps: int) -> float:
    """The share of saves that no save of the other pod begins near, over all pairs of pods."""
    near = np.zeros(steps, dtype=np.int64)
    for one in saves:
        beside = np.add.outer(one, np.arange(-NEAR_STEPS, NEAR_STEPS + 1))
        near[np.unique(beside[(beside >= 0) & (beside < steps)])] += 1
    begun = [first for one in saves for first in one]
    return float((len(saves) - near[begun]).mean()) / (len(saves) - 1)


def _apart(events: list[BoolArray], within: BoolArray) -> bool:
    """Whether the pods' events coincide hardly more often than by chance. False for frequent events, which coincide
    anyway.
    """
    own = np.array(events)
    near = own | np.roll(own, 1, axis=1) | np.roll(own, -1, axis=1)
    chance = near[:, within].mean(axis=1)
    if chance.max() > MOST_CHANCE:
        return False
    together = own.astype(np.float64) @ near.T / own.sum(axis=1, keepdims=True)  # a row a pod, a column a peer
    meetings = (together - chance) / (1 - chance)
    return float(meetings[~np.eye(len(own), dtype=np.bool_)].mean()) <= IN_STEP


RULE = Rule(
    id="D503",
    name="duplicate-training",
    category=Category.DUPLICATE_TRAINING,
    severity=Severity.WARNING,
    summary="Several pods train the same model, each on its own.",
    fix="Start the launcher with the number of nodes and a common rendezvous, or run one pod.",
    check=check,
)
