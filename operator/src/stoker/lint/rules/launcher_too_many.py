"""The launcher starts more processes than there are GPUs.

## What it flags

The rule flags a launcher that is given more processes for a node than it can see GPUs, if each process uses the GPU
of its local rank: `torchrun --nproc_per_node=8` on 4 GPUs, or on 8 GPUs of which `CUDA_VISIBLE_DEVICES=0,1` shows
two. It also flags more processes than the given hosts accept: `horovodrun -np 8 -H localhost:4`.

It only warns

- for Python programs under mpirun, whose ranks need not use a GPU each, and only if no other launcher or program is
  in sight, for which they may prepare data;
- if another launch of the job fits the GPUs: the larger one may prepare data without them;
- if an unknown word may hold options such as `--backend gloo`.

## Why it costs GPU time

NCCL refuses two ranks on one device, and the surplus rank finds no device at all. The job fails after it has waited
for its GPUs, its image and its data, and fails again at each restart.

## When it stays silent

- The number cannot be resolved, or one of its possible values fits.
- The processes share devices or use none: the gloo or MPI backend, an option for CPUs, a `CUDA_VISIBLE_DEVICES` that
  hides every GPU, or CUDA's multi-process service.
- The job has no GPUs, or its GPUs are MIG slices or shared.
- mpirun is allowed to start more processes than the hosts have slots (`--oversubscribe`), or starts a program that is
  not written in Python.
- The command runs only after a failure.

## Change

Start as many processes as there are GPUs, or request more GPUs.

## References

- NVIDIA NCCL documentation, "Using multiple NCCL communicators": one rank per device
- PyTorch documentation, "torchrun (Elastic Launch)": `LOCAL_RANK` selects the device
"""

from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import renumbered, together, without_variable
from stoker.lint.launch.plan import Count, Launch, Launcher, LaunchPlan
from stoker.lint.launch.queries import (
    COUNTING_LAUNCHERS,
    PER_DEVICE_LAUNCHERS,
    counted,
    given_count,
    is_learning,
    on_each,
    origin_line,
    quoted,
    rests_on_unset,
    spread,
    started_by,
    texts,
    unread_options,
    with_number,
)
from stoker.lint.submission import Submission

SHARED_OR_NONE = ("gloo", "no_cuda", "no-cuda", "use_cpu", "use-cpu", "device=cpu", "device cpu", "--cpu", "mps")
"""Words in a launch that say that its processes share GPUs or use none."""


LARGEST_NODE = 16
"""GPUs of a node: an advice to request more than the largest machines have (16, NVIDIA DGX-2) would be wrong."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report each launch whose smallest possible count is above the number of devices that it sees."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.counts_devices or _multi_process_service(plan):
        return
    for launch in plan.launches:
        if _exceeds_slots(launch, submission):
            yield _beyond_slots(submission, launch)
            continue
        count, devices = launch.processes_per_node, _visible(launch, submission)
        if (
            launch.launcher not in COUNTING_LAUNCHERS
            or not is_learning(launch)
            or launch.invocation.after_failure
            or count.minimum is None
            or count.minimum <= devices
            or (launch.devices is not None and launch.devices.count == 0)
            or _shares_or_needs_none(launch)
            or (launch.launcher in {Launcher.MPIRUN, Launcher.HOROVODRUN} and submission.nodes > 1)
            or (
                launch.launcher is Launcher.ACCELERATE and launch.nodes.possible is None and _may_have_peers(submission)
            )
            or (not submission.environment_known and rests_on_unset(plan.script, given_count(launch)))
        ):
            continue
        if launch.launcher is Launcher.MPIRUN and any(one.launcher is not Launcher.MPIRUN for one in plan.launches):
            continue
        certain = (
            launch.launcher in PER_DEVICE_LAUNCHERS
            and launch.one_device_per_process
            and launch.invocation.certain
            and not unread_options(launch)
            and plan.script.complete
            and not any(_fits(other, submission) for other in plan.launches)
        )
        given, line = given_count(launch), origin_line(given_count(launch))
        least = "" if count.value is not None else "at least "
        subject = quoted(given) or started_by(launch)
        shared = spread(launch, given, submission.nodes)
        total = shared == submission.nodes > 1 and given.value is not None
        number = given.value if total and given.value is not None else count.minimum
        room = f"{submission.gpus} GPUs" if total else _room(submission, devices)
        yield Problem(
            detail=f"{subject} starts {least}{counted(number, 'process')} on {room}.",
            evidence=f"{started_by(launch)} starts {counted(count.minimum, 'process')}{on_each(submission.nodes)},"
            f" {submission.paths.gpus_per_node} is {submission.gpus_per_node}"
            f"{f'; the number is from line {line}' if line else ''}.",
            fix=_fix(submission, given, count.minimum, devices, shared),
            confidence=submission.surely if certain else Confidence.LIKELY,
            location=submission.locate_count(launch, given),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=_change(submission, launch, given, submission.gpus_per_node * shared),
        )


def _may_have_peers(submission: Submission) -> bool:
    """Whether other pods may take some of the processes of the total."""
    return submission.nodes > 1 or not submission.nodes_known


def _exceeds_slots(launch: Launch, submission: Submission) -> bool:
    """Whether the given hosts accept fewer processes, and the launcher refuses to start more on them."""
    total, slots = launch.total.value, launch.slots
    words = " ".join(word.text or "" for word in launch.invocation.argv).lower()
    return (
        launch.launcher in {Launcher.MPIRUN, Launcher.HOROVODRUN}
        and submission.nodes == 1
        and slots.value is not None
        and total is not None
        and total > slots.value
        and str(slots.words[0]).startswith("-H")
        and "oversubscribe" not in words
        and not any("oversubscribe" in name for name in launch.invocation.environment)
        and not launch.invocation.after_failure
        and is_learning(launch)
    )


def _beyond_slots(submission: Submission, launch: Launch) -> Problem:
    hosts, total = " ".join(map(str, launch.slots.words)), launch.total.value or 0
    taken = launch.slots.value or 0
    return Problem(
        detail=f'{quoted(launch.total)} starts {counted(total, "process")}, but "{hosts}" takes {taken}.',
        evidence=f"{started_by(launch)} refuses to start more; {submission.paths.gpus_per_node} is"
        f" {submission.gpus_per_node}.",
        fix=f"Make both the number of GPUs, {submission.gpus_per_node}.",
        confidence=Confidence.LIKELY,
        location=submission.locate_count(launch, launch.slots),
        sources=(Source.SCRIPT, Source.MANIFEST),
    )


def _visible(launch: Launch, submission: Submission) -> int:
    """How many devices the launch sees: the node's, or those that CUDA_VISIBLE_DEVICES leaves of them."""
    devices = launch.devices
    if devices is None or devices.count is None or launch.launcher is Launcher.DEEPSPEED:
        return submission.gpus_per_node
    return min(devices.count, submission.gpus_per_node)


def _fits(launch: Launch, submission: Submission) -> bool:
    """Whether a launch starts processes that all find a GPU."""
    count = launch.processes_per_node.minimum
    return launch.launcher in COUNTING_LAUNCHERS and count is not None and count <= _visible(launch, submission)


def _fix(submission: Submission, given: Count, processes: int, devices: int, shared: int) -> str:
    def start(each: int) -> str:
        changed = with_number(given, each * shared, submission.environment_fields)
        return f"start {each}{on_each(submission.nodes)}" if changed is None else f"change it to {changed}"

    gpus, field = submission.gpus_per_node, submission.paths.gpus_per_node
    if devices == gpus:
        more = f", or set {field}: {processes}" if processes <= LARGEST_NODE else ""
        change = f"{start(devices)}{more}"
    else:
        all_gpus = "" if processes == gpus else f" and {start(gpus)}"
        injected = (
            given.variable is not None and not given.words and given.variable not in submission.environment_fields
        )
        fewer = "" if injected else f"{start(devices)} and "
        change = f"remove CUDA_VISIBLE_DEVICES{all_gpus}, or {fewer}set {field}: {devices}"
    return f"{change[0].upper()}{change[1:]}."


def _change(submission: Submission, launch: Launch, given: Count, number: int) -> Change | None:
    """As many processes as there are GPUs, with all GPUs visible to them."""
    if submission.leaders and given is launch.total:
        return None
    change = renumbered(submission, launch, given, number)
    if launch.devices is None or _visible(launch, submission) == submission.gpus_per_node:
        return change
    shown = without_variable(submission, "CUDA_VISIBLE_DEVICES", [launch.devices.word], safe=False)
    return shown if number in (given.possible or ()) else together(change, shown)


def _room(submission: Submission, devices: int) -> str:
    if devices < submission.gpus_per_node:
        return f"the {counted(devices, 'GPU')} that CUDA_VISIBLE_DEVICES leaves of {submission.gpus_per_node}"
    each = " of each node" if submission.nodes > 1 else ""
    return f"{counted(devices, 'GPU')}{each}"


def _shares_or_needs_none(launch: Launch) -> bool:
    arguments = " ".join([*texts(launch), *(word.text or "" for word in launch.invocation.argv)]).lower()
    return any(word in arguments for word in SHARED_OR_NONE) or any(
        _says_so(name.upper(), (word.text or "").lower()) for name, word in launch.invocation.environment.items()
    )


def _says_so(name: str, value: str) -> bool:
    """Whether a variable says that processes share GPUs or use none: `DIST_BACKEND=gloo`, `USE_CPU=1`."""
    if name in {"ACCELERATE_USE_CPU", "USE_CPU"}:
        return value in {"1", "true", "yes", "on", "y", "t"}
    return (name.endswith("BACKEND") and value in {"gloo", "mpi"}) or (name == "JAX_PLATFORMS" and value == "cpu")


def _multi_process_service(plan: LaunchPlan) -> bool:
    return any((command.invocation.name or "").startswith("nvidia-cuda-mps") for command in plan.commands) or any(
        "CUDA_MPS_PIPE_DIRECTORY" in launch.invocation.environment for launch in plan.launches
    )


RULE: Rule[Submission] = Rule(
    id="A102",
    name="launcher-too-many",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="The launcher starts more processes than there are GPUs.",
    fix="Start one process for each GPU, or request more GPUs.",
    check=check,
    action=Action.DENY,
)
