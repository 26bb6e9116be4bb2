"""Data loader workers have only 64 MiB of shared memory.

## What it flags

The rule flags a program with data loader workers (`--num_workers 8`) in a container whose `/dev/shm` is the container
runtime's default of 64 MiB, or a memory volume with a limit of at most that.

## Why it costs GPU time

PyTorch's workers pass each batch through shared memory. When it is full, the worker dies with a bus error, and the
job with it, after it has waited for its GPUs and read part of an epoch. To avoid the error, people often set the
number of workers to 0, and then the GPUs wait for each batch.

## When it stays silent

- `/dev/shm` is a memory volume, which a DLJob has by default, or a directory of the node, or the pod uses the node's
  IPC namespace (`hostIPC`).
- No number of workers is given, it is 0, or it cannot be resolved.
- The sharing strategy is `file_system`, or the program uses TensorFlow or JAX, which read with threads.
- The job has no GPUs.

## Change

Mount an `emptyDir` with `medium: Memory` at `/dev/shm`. Its content counts as memory of the container.

## References

- PyTorch documentation, "Multiprocessing best practices" and "torch.utils.data": shared memory
- Kubernetes documentation, "Volumes": `emptyDir` and its medium
"""

from collections.abc import Iterator

from stoker.findings.finding import Change, Location, Problem
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Maturity, Severity, Source
from stoker.lint.fixes.propose import in_field, together
from stoker.lint.kinds.pod import SHARED_MEMORY, VolumeKind
from stoker.lint.launch.plan import Launch
from stoker.lint.launch.queries import loader_workers, texts
from stoker.lint.submission import Submission

MIB = 2**20


def check(submission: Submission, *, largest_small_mebibytes: float) -> Iterator[Problem]:
    """Report the first launch whose workers have too little shared memory."""
    plan, memory = submission.plan, submission.pod.shared_memory
    if plan is None or submission.gpus_per_node < 1 or submission.framework in {Framework.TENSORFLOW, Framework.JAX}:
        return
    if memory.size is None or memory.size > largest_small_mebibytes * MIB:
        return
    if memory.kind not in {None, VolumeKind.MEMORY} or submission.pod.host_ipc:
        return
    for launch in plan.launches:
        workers = loader_workers(plan, launch)
        if workers is None or not workers.minimum or launch.invocation.captured or _shares_by_files(launch):
            continue
        size = f"{memory.size / MIB:.3g} MiB"
        field = memory.field_path or submission.paths.volume_mounts
        yield Problem(
            detail=f'"{workers.text}" hands its batches over in {SHARED_MEMORY}, which has {size} here.',
            evidence=f"{memory.field_path}.emptyDir.sizeLimit limits it."
            if memory.kind is not None
            else f"Nothing is mounted there: {size} is the container runtime's default.",
            fix=f"Leave {memory.field_path}.emptyDir.sizeLimit out, or raise it to gigabytes."
            if memory.kind is not None
            else f"Mount a volume with emptyDir: {{medium: Memory}} at {SHARED_MEMORY}.",
            confidence=Confidence.LIKELY,
            location=Location(field_path=field),
            sources=(Source.MANIFEST, Source.SCRIPT),
            change=_change(submission),
        )
        return


def _shares_by_files(launch: Launch) -> bool:
    environment = launch.invocation.environment.values()
    return any("file_system" in text for text in (*texts(launch), *(word.text or "" for word in environment)))


def _change(submission: Submission) -> Change | None:
    memory = submission.pod.shared_memory
    if memory.kind is not None:
        return in_field(f"{memory.field_path}.emptyDir.sizeLimit", None, safe=True) if memory.field_path else None
    if not submission.paths.volumes:
        return None
    volume = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    return together(
        in_field(f"{submission.paths.volumes}[]", volume, safe=True),
        in_field(f"{submission.paths.volume_mounts}[]", {"name": "shm", "mountPath": SHARED_MEMORY}, safe=True),
    )


RULE: Rule[Submission] = Rule(
    id="A701",
    name="shm-small",
    category=Category.DATA_PREPROCESSING,
    severity=Severity.WARNING,
    summary="Data loader workers have 64 MiB of shared memory.",
    fix="Mount a volume with emptyDir: {medium: Memory} at /dev/shm.",
    check=check,
    parameters=(
        Parameter(
            name="largestSmallMebibytes",
            default=64,
            description="The largest size of /dev/shm, in MiB, that is reported.",
            minimum=0,
            maximum=1_048_576,
        ),
    ),
    maturity=Maturity.PREVIEW,
)
