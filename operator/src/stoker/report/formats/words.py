"""How a report says figures, times and causes; the same words on the page and on the terminal."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from stoker.findings.vocabulary import Category, Stage
from stoker.report import Balance, hours, percent
from stoker.telemetry.usage import Period

SMALL_CHANGE = 0.005
"""A change of a share by less than half a percentage point is called no change."""

CAUSES = {
    Category.INTERACTIVE_JOB: "a person at a prompt",
    Category.GPU_OVERSUBSCRIPTION: "more GPUs than are used",
    Category.UNRELEASED_JOB: "kept after the work was done",
    Category.NON_DL_JOB: "not a deep-learning job",
    Category.IMPROPER_BATCH_SIZE: "batch too small",
    Category.INSUFFICIENT_GPU_MEMORY: "GPU memory too small",
    Category.MODEL_CHECKPOINTING: "waits for checkpoints",
    Category.INEFFICIENT_HOST_GPU_TRANSFER: "slow copies to the GPU",
    Category.DATA_PREPROCESSING: "waits for preprocessing",
    Category.REMOTE_DATA_READ: "waits for remote data",
    Category.EXTERNAL_DATA_USAGE: "downloads data at its start",
    Category.INTERMEDIATE_RESULT_UPLOAD: "waits for uploads",
    Category.DATA_EXCHANGE: "waits for other GPUs",
    Category.LONG_LIBRARY_INSTALLATION: "installs at its start",
    Category.API_MISUSE: "program does not use all GPUs",
    Category.STALLED: "hangs",
    Category.DUPLICATE_TRAINING: "trains the same model twice",
    Category.STRAGGLER: "one slow rank delays the others",
    Category.STARTUP_HOLD: "holds GPUs before it can start",
}
"""A cause in plain words."""


def spoken(category: Category) -> str:
    """A cause's name as words: `ImproperBatchSize` as `Improper batch size`."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", category.value)
    text = " ".join(word if word.isupper() else word.lower() for word in words)
    return text[0].upper() + text[1:]


def stage(name: Stage) -> str:
    """A stage in plain words."""
    return {Stage.INITIALIZATION: "Start", Stage.ACTIVE: "Training or evaluation", Stage.TAIL: "End"}.get(
        name, name.value
    )


def when(period: Period) -> str:
    """`Sat 14 Nov 2026, 00:00 to Sat 21 Nov 2026, 00:00 UTC`."""
    start, end = period.start, period.end
    last = f"{end:%H:%M}" if start.date() == end.date() else day_time(end)
    return f"{day_time(start)} to {last} UTC"


def day_time(time: datetime) -> str:
    """`Sat 14 Nov 2026, 00:00`."""
    return f"{time:%a} {time.day} {time:%b %Y}, {time:%H:%M}"


def span(length: timedelta) -> str:
    """`7 days`, `36 hours`, `90 minutes`."""
    minutes = round(length.total_seconds() / 60)
    if minutes % 1440 == 0 and minutes >= 1440:
        number, unit = minutes // 1440, "day"
    elif minutes % 60 == 0:
        number, unit = minutes // 60, "hour"
    else:
        number, unit = minutes, "minute"
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def change(now: float, before: float | None) -> str:
    """How a figure moved: `+12 %`, `-3 %`, `new`, `as before`; empty where there is nothing to compare with."""
    if before is None or (before <= 0 and now <= 0):
        return ""
    if before <= 0:
        return "new"
    moved = now / before - 1
    if abs(moved) < SMALL_CHANGE:
        return "as before"
    if moved > 9:
        return f"x{now / before:.0f}"
    sign = "+" if moved > 0 else "\N{MINUS SIGN}"
    return f"{sign}{100 * abs(moved):.0f} %"


def scope(namespaces: Sequence[str]) -> str:
    """What the report is of."""
    if not namespaces:
        return "all namespaces"
    return f"namespace {namespaces[0]}" if len(namespaces) == 1 else f"namespaces {', '.join(namespaces)}"


def headline(total: Balance) -> str:
    """The one sentence to remember."""
    if total.requested <= 0:
        return "No GPU was held by a job"
    if total.used_share is None:
        return f"The use of {hours(total.requested)} GPU-hours is unknown"
    return f"{share(total.lost, total.requested)} of {hours(total.requested)} GPU-hours were lost"


def share(part: float, whole: float) -> str:
    """`33 %`; empty of nothing."""
    return percent(part / whole) if whole > 0 else ""


__all__ = ["CAUSES", "change", "day_time", "headline", "scope", "share", "span", "spoken", "stage", "when"]
