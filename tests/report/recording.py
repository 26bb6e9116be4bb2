"""Records for tests: a week of a cluster, made by hand."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from stoker.findings.vocabulary import Category, Stage
from stoker.telemetry.usage import Cause, JobIdentity, JobRecord, Period, UsageRecord

START = datetime(2026, 11, 14, tzinfo=UTC)
WEEK = Period(start=START, end=START + timedelta(days=7))


def cause(category: Category, rule: str) -> Cause:
    return Cause(category=category, rule=rule)


def usage_record(jobs: Sequence[JobRecord], *, parts: int = 28, **changes: object) -> UsageRecord:
    """A record of the week and of the week before, watched and recorded throughout unless `changes` say otherwise."""
    every = (*WEEK.before.split(parts), *WEEK.split(parts))
    whole = (1.0,) * len(every)
    fields: dict[str, object] = {
        "period": WEEK,
        "parts": every,
        "jobs": tuple(jobs),
        "watched": whole,
        "recorded": whole,
        "resolution": timedelta(minutes=2),
    }
    return UsageRecord(**{**fields, **changes})  # type: ignore[arg-type]  # the changes are a test's


def job_record(
    name: str,
    *,
    gpus: int,
    start: int,
    end: int,
    utilization: float,
    coverage: float = 1.0,
    causes: Mapping[Cause, float] | None = None,
    stages: Mapping[Stage, float] | None = None,
    owner: str = "",
    team: str = "",
    namespace: str = "research",
    product: str = "NVIDIA-A100-SXM4-80GB",
    parts: int = 56,
    hours_a_part: float = 6.0,
    recorded: bool = True,
) -> JobRecord:
    """A job that holds its GPUs in the parts start..end (exclusive), at one utilization, 0..1.

    causes and stages: their final idle GPU-hours, which grow evenly over the job's life.
    """
    alive = [start <= part < end for part in range(parts)]
    held = tuple(gpus * hours_a_part if one else 0.0 for one in alive)
    sampled = tuple(hours * coverage for hours in held)

    def grown(final: float) -> tuple[float | None, ...]:
        grows = (final * (part + 1 - start) / (end - start) if one else None for part, one in enumerate(alive))
        return (None, *grows)

    identity = JobIdentity(
        uid=f"uid-{name}" if recorded else None,
        namespace=namespace,
        name=name,
        job_type="Training",
        owner=owner,
        team=team,
        product=product,
        priority="",
        gpus=gpus,
    )
    return JobRecord(
        identity=identity,
        held=held if recorded else (0.0,) * parts,
        sampled=sampled,
        used=tuple(hours * utilization for hours in sampled),
        causes={key: grown(value) for key, value in (causes or {}).items()},
        stages={key: grown(value) for key, value in (stages or {}).items()},
        first_seen=start if recorded else None,
    )


SMALL_BATCH = cause(Category.IMPROPER_BATCH_SIZE, "small-batch")
UNRELEASED = cause(Category.UNRELEASED_JOB, "unreleased-job")
TOO_FEW = cause(Category.GPU_OVERSUBSCRIPTION, "gpus-unused")
CHECKPOINT = cause(Category.MODEL_CHECKPOINTING, "checkpoints")
INTERACTIVE = cause(Category.INTERACTIVE_JOB, "interactive-job")
