"""Causes that metrics cannot tell apart: what else a finding may be.

A counter says how much a pod receives, not who sends; and how much it writes, not what. `merge` adds such causes to the
alternatives of each finding that nothing but metrics supports.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from stoker.diagnosis.series.examination import Examination
from stoker.diagnosis.series.stages import runs
from stoker.diagnosis.series.traffic import means, peak, received
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, Source
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import PodSignal

RECEIVING_BYTES = 100e3
"""bytes/s of a pod. Chosen because an installation or a copy receives more, and logs and metrics less."""
LOADING_CORES = 2.0
"""Cores for each GPU from which something beside the launching thread computes."""
THIN_BYTES = 15e6
"""bytes/s of a pod: what a public site sends to one client. A store in the same network sends several times as much."""
SILENT_BYTES = 50e3
"""bytes/s under which nothing is sent but heartbeats."""
SILENCE_SECONDS = 60.0
"""Seconds of silence. Chosen because a store answers sooner, and a site that limits its clients lets them wait."""
LEAST_SILENCES = 3
"""Silences. One or two may be a checkpoint or a validation."""
AT_START: Mapping[Category, tuple[Category, ...]] = {
    Category.EXTERNAL_DATA_USAGE: (Category.REMOTE_DATA_READ, Category.LONG_LIBRARY_INSTALLATION),
    Category.DATA_PREPROCESSING: (Category.LONG_LIBRARY_INSTALLATION,),
}
"""Before a GPU is used: files come from a site or a store, and are data or libraries; many busy cores may compile."""
IN_TRAINING: Mapping[Category, tuple[Category, ...]] = {
    Category.MODEL_CHECKPOINTING: (Category.INTERMEDIATE_RESULT_UPLOAD,),
    Category.INTERMEDIATE_RESULT_UPLOAD: (Category.MODEL_CHECKPOINTING,),
}
"""What is sent or written may be a model or results."""


def with_look_alikes(exam: Examination, finding: Finding, explains: BoolArray) -> Finding:
    """The finding with the causes that its metrics fit as well; only possible for data that comes as from a site.

    explains: the GPU time that it claims, one row a device. What the source or a log line says stands. What is only
    possible, and names one cause, gets no weaker one beside it: these leave no cause open.
    """
    if finding.confidence is Confidence.CERTAIN or {*finding.sources} & {Source.SCRIPT, Source.PROGRAM, Source.LOGS}:
        return finding
    mask = np.asarray(explains.any(axis=0), dtype=np.bool_)
    inside = bool((mask & exam.active).sum() > mask.sum() / 2)
    rationed = inside and finding.category is Category.REMOTE_DATA_READ and _is_rationed(exam, mask)
    confidence = Confidence.POSSIBLE if rationed else finding.confidence
    if confidence is Confidence.POSSIBLE and not rationed and not finding.alternatives:
        return finding
    if inside:
        others = [one for named in (finding.category, *finding.alternatives) for one in _in_training(exam, named, mask)]
    else:
        others = [*_at_start(exam, finding.category, mask)]
    alternatives = tuple(one for one in dict.fromkeys((*finding.alternatives, *others)) if one is not finding.category)
    return replace(finding, alternatives=alternatives, confidence=confidence)


def _at_start(exam: Examination, category: Category, mask: BoolArray) -> Iterator[Category]:
    """The look-alikes of a cause before a GPU is used."""
    yield from AT_START.get(category, ())
    if category is Category.LONG_LIBRARY_INSTALLATION:
        yield Category.DATA_PREPROCESSING
        if (exam.pod_peak(PodSignal.NET_RX, mask) or 0.0) >= RECEIVING_BYTES:
            yield from (Category.EXTERNAL_DATA_USAGE, Category.REMOTE_DATA_READ)


def _in_training(exam: Examination, category: Category, mask: BoolArray) -> Iterator[Category]:
    """The look-alikes of a cause in training."""
    yield from IN_TRAINING.get(category, ())
    if category is Category.REMOTE_DATA_READ and (peak(exam, received(exam), mask) or 0.0) >= RECEIVING_BYTES:
        yield Category.EXTERNAL_DATA_USAGE
    if category is Category.IMPROPER_BATCH_SIZE and (_cores(exam, mask) or 0.0) >= LOADING_CORES:
        yield Category.DATA_PREPROCESSING


def _cores(exam: Examination, mask: BoolArray) -> float | None:
    """Busy cores for each GPU, of the pod with the most; None where unknown."""
    gpus = {pod.name: pod.gpus for pod in exam.pods}
    found = exam.pod_means(PodSignal.CPU, mask)
    return None if found is None else max(cores / max(gpus[pod], 1) for pod, cores in found.items())


def _is_rationed(exam: Examination, mask: BoolArray) -> bool:
    """Whether data comes thinly, and again and again not at all for a minute or more, as from a site that limits its
    clients.
    """
    if (peak(exam, received(exam), mask) or THIN_BYTES) >= THIN_BYTES:
        return False
    most = max(means(exam, received(exam), mask).items(), key=lambda pair: pair[1])[0]
    values = dict(received(exam))[most]
    with np.errstate(invalid="ignore"):
        silent = exam.active & (values < SILENT_BYTES) & exam.all_idle
    return sum((stop - start) * exam.step >= SILENCE_SECONDS for start, stop in runs(silent)) >= LEAST_SILENCES
