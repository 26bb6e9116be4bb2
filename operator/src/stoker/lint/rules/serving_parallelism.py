"""An inference server uses fewer GPUs than its pod has.

## What it flags

The rule flags vLLM, SGLang, LMDeploy or Text Generation Inference with parallel sizes whose product is smaller than
the GPUs of a pod. A server uses tensor x pipeline x data parallel GPUs (vLLM: x prefill context parallel), and one
GPU by default: `vllm serve MODEL` on 8 GPUs leaves 7 idle. It also flags a product that is larger than the GPUs of
the only pod, with which the server does not start.

## Why it costs GPU time

The server never uses the other GPUs as long as it runs.

## When it stays silent

- Several servers run, or another program runs beside the server: they may share the GPUs.
- A size cannot be resolved, or comes from a configuration file (`--config`).
- The server is part of a larger deployment: one rank or engine (`--data-parallel-rank`, `--base-gpu-id`,
  `external_launcher`), a Ray cluster, or a number of nodes other than the job's.
- The server runs on CPUs, the command is a client (`vllm bench serve`), or the GPUs are MIG slices or shared.

## Change

Serve more requests with more copies of the model (`--data-parallel-size`), spread the model over all GPUs
(`--tensor-parallel-size`, `--num-shard`), or request only as many GPUs as the server uses.

## References

- vLLM documentation, "Parallelism and Scaling" and "Data Parallel Deployment"
- LMDeploy documentation, "OpenAI Compatible Server": `--tp`
- SGLang documentation, "Server Arguments": `--tp-size`, `--dp-size`, `--enable-dp-attention`
- Text Generation Inference documentation, "text-generation-launcher arguments": `--num-shard`
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.launch.plan import Launch, Launcher, LaunchPlan
from stoker.lint.launch.queries import RAY, is_alone, normalized, side_by_side, texts
from stoker.lint.submission import Submission

TENSOR, DATA = (
    {
        Launcher.VLLM: "--tensor-parallel-size",
        Launcher.SGLANG: "--tp-size",
        Launcher.LMDEPLOY: "--tp",
        Launcher.TGI: "--num-shard",
    },
    {Launcher.VLLM: "--data-parallel-size", Launcher.SGLANG: "--dp-size"},
)
"""The options that spread a model over GPUs, and that copy it."""

PART_OF_MORE = (
    "--base-gpu-id",
    "--data-parallel-rank",
    "--disaggregation-mode",
    "--kv-transfer-config",
    "--proxy-url",
    "external_launcher",
)
"""Words of one engine among several."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the only server of the job if its sizes leave GPUs unused."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 2 or not submission.counts_devices or side_by_side(plan):
        return
    servers = [launch for launch in plan.launches if launch.launcher in TENSOR]
    if len(servers) != 1 or any(launch.launcher is Launcher.RAY for launch in plan.launches):
        return
    launch = servers[0]
    used, gpus = launch.processes_per_node.maximum, _visible(launch, submission)
    if not used or gpus is None or not _is_whole_server(plan, launch, submission):
        return
    least = launch.processes_per_node.minimum or 0
    if least > gpus and submission.nodes == 1 and not _over_ray(launch):
        yield _too_large(submission, launch, least, gpus)
    if used >= gpus:
        return
    each = " of each node" if submission.nodes > 1 else ""
    sizes = [f"{kind} parallel {count.value}" for kind, count in launch.parallelism.items() if count.value]
    words = [word for count in launch.parallelism.values() for word in count.words]
    most = "" if launch.processes_per_node.value is not None else "at most "
    field = submission.paths.gpus_per_node
    yield Problem(
        detail=f"{launch.launcher} serves on {most}{used} of the {gpus} GPUs{each}.",
        evidence=f"Its sizes are {', '.join(sizes)}; {field} is {submission.gpus_per_node}."
        if sizes
        else f"{_unsized(launch)}; {field} is {submission.gpus_per_node}.",
        fix=f"{_larger(launch, used, gpus)}, or set {field}: {used}.",
        confidence=submission.surely if not most and is_alone(plan, launch) else Confidence.LIKELY,
        location=submission.locate(launch.invocation, words or launch.invocation.argv[:1]),
        sources=(Source.SCRIPT, Source.MANIFEST),
    )


def _too_large(submission: Submission, launch: Launch, needed: int, gpus: int) -> Problem:
    """Report a server whose sizes multiply to more than the GPUs that there are: it does not start."""
    words = [word for count in launch.parallelism.values() for word in count.words]
    field = submission.paths.gpus_per_node
    return Problem(
        detail=f"{launch.launcher} is told to use {needed} GPUs, but the pod has {gpus}: it does not start.",
        evidence=f"Its parallel sizes multiply to {needed}; {field} is {submission.gpus_per_node}.",
        fix=f"Choose sizes that multiply to {gpus}, or set {field}: {needed}.",
        confidence=Confidence.LIKELY,
        location=submission.locate(launch.invocation, words),
        sources=(Source.SCRIPT, Source.MANIFEST),
        alternatives=(Category.API_MISUSE,),
    )


def _visible(launch: Launch, submission: Submission) -> int | None:
    """How many GPUs the server sees on each node; None where that is unknown."""
    if launch.devices is None:
        return submission.gpus_per_node
    count = launch.devices.count
    return None if count is None else min(count, submission.gpus_per_node)


def _is_whole_server(plan: LaunchPlan, launch: Launch, submission: Submission) -> bool:
    """Whether the launch is a complete server that uses the GPUs of every pod."""
    words = texts(launch)
    told = launch.nodes.possible
    return not (
        launch.invocation.after_failure
        or launch.invocation.captured
        or launch.invocation.rank_dependent
        or any(word.text == "bench" for word in launch.invocation.argv[:4])
        or (submission.may_have_peers and (_over_ray(launch) or _joins_ray(plan)))
        or (told is not None and told not in ({1}, {submission.nodes}))
        or any(part in word for word in words for part in PART_OF_MORE)
        or any(normalized(word).endswith("device=cpu") for word in words)
        or ("--device" in words and "cpu" in words)
    )


def _over_ray(launch: Launch) -> bool:
    """Whether the server uses GPUs of Ray, in whichever pods these are."""
    return any(word == "ray" or word.endswith("=ray") for word in texts(launch))


def _joins_ray(plan: LaunchPlan) -> bool:
    """Whether a command makes the pod a part of a Ray cluster: vLLM then takes the GPUs of the others by itself."""
    return any(RAY.search(str(word)) for command in plan.commands for word in command.invocation.argv)


def _unsized(launch: Launch) -> str:
    """Why a server without sizes uses one GPU; TGI alone uses all of them by default."""
    if launch.launcher is Launcher.TGI:
        return "It is told not to shard the model"
    return "It is told no parallel sizes, and its default is 1"


def _larger(launch: Launch, used: int, gpus: int) -> str:
    """The options that use all GPUs."""
    tensor, data = TENSOR[launch.launcher], DATA.get(launch.launcher)
    copies, rest = divmod(gpus, used)
    sizes = launch.parallelism
    factor = sizes["data"].value if "data" in sizes else 1
    change = []
    shared = "--enable-dp-attention" in texts(launch)
    if data is not None and not rest and factor is not None and not shared and launch.nodes.possible is not None:
        change.append(f"{data} {copies * factor}")
    width = sizes["tensor"].value if "tensor" in sizes else 1
    if width is not None and not rest:
        change.append(f"{tensor} {copies * width}")
    return f"Use {' or '.join(change)}" if change else "Choose sizes that multiply to the GPUs"


RULE: Rule[Submission] = Rule(
    id="A111",
    name="serving-parallelism",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.WARNING,
    summary="An inference server's parallel sizes leave GPUs unused.",
    fix="Raise the server's data or tensor parallel size, or request fewer GPUs.",
    check=check,
)
