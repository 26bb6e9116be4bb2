"""Every node trains the same model on its own.

## What it flags

The rule flags a launcher that is given one node in a job with several nodes: `torchrun --standalone`,
`torchrun --nnodes=1`, or `accelerate launch` without `--num_machines`. A frequent reason is a variable of another
platform that is not set here, such as `--nnodes=${WORLD_SIZE:-1}`. With `--standalone` alone torchrun still reads the
number of nodes from `PET_NNODES`, and waits for the others at a rendezvous that only its own pod can reach.

It only gives advice about a training program that plain `python` starts, if neither script nor manifest mentions
ranks, addresses or nodes. Such a program may still find the other pods by the variables that every pod has.

## Why it costs GPU time

Each pod trains the whole model from the start, with the same data in the same order. The job uses n nodes for the
result of one.

## When it stays silent

- The command or its arguments depend on the rank, or on anything that cannot be resolved: it may be a sweep or a
  sharded inference.
- The program is named after evaluation, inference, sweeps, tuning or serving, or is told to do that alone
  (`--eval-only`), or the job has such a type. Whole words count: `finetune.py` is a training, whatever its
  `--eval-interval`.
- There is a hosts file, or a configuration file that is not in sight.
- Plain `python` starts a program whose name does not say that it trains, or the script mentions ranks, addresses or
  nodes.
- Plain `python` starts a JAX program: JAX finds the pods of an Indexed Job by itself.
- The command runs only after a failure.

## Change

Leave the number of nodes out: `torchrun train.py` reads `PET_NNODES` and the rendezvous from the injected variables.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--standalone`, `--nnodes`
- Hugging Face Accelerate documentation, "Launching your Accelerate scripts": several machines
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, JobType, Severity, Source
from stoker.lint.fixes.propose import in_script, without_word
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.queries import is_alone, quoted, side_by_side
from stoker.lint.launch.work import Work, work_of
from stoker.lint.submission import Submission

BY_VARIABLES = {
    Launcher.LLAMA_FACTORY: "NODE_RANK=${rank}",
    Launcher.XTUNER: "NODE_RANK=${rank} ADDR=$MASTER_ADDR PORT=$MASTER_PORT",
}
"""Launchers that learn of other nodes from NNODES, and what else they then need."""

SINGLE_NODE = frozenset({Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE, *BY_VARIABLES})
"""Launchers that train on one node when they are not told of more."""

NNODES = re.compile(r"--?nnodes\b")

CONNECTS = re.compile(
    r"rank|world|master|node|peer|host|coordinator|rendezvous|rdzv|init_method|dist|cluster|slurm|horovod|ray|mpi|index"
    r"|addr|TF_CONFIG|STOKER_|PET_",
    re.IGNORECASE,
)
"""Words of what pods find one another by, or tell themselves from one another."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch that trains on each node on its own, for certain or as far as the script shows."""
    plan = submission.plan
    if plan is None or submission.nodes < 2 or submission.gpus_per_node < 1 or side_by_side(plan):
        return
    if (
        submission.job_type in {JobType.EVALUATION, JobType.SERVING}
        or ("MASTER_ADDR" in submission.environment and submission.environment["MASTER_ADDR"] is None)
        or not submission.nodes_known
    ):
        return
    for launch in plan.launches:
        if not _alone(launch):
            continue
        yield Problem(
            detail=_detail(submission, launch),
            evidence=f"{submission.nodes_origin}.",
            fix=_fix(submission, launch),
            confidence=Confidence.LIKELY,
            location=submission.locate_count(launch, launch.nodes),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=None if submission.leaders else _change(submission, launch),
        )
        return
    for launch in plan.launches:
        if is_alone(plan, launch) and _unconnected(submission, launch):
            yield Problem(
                detail=f"{launch.program[0]} starts alike in each of the {submission.nodes} pods.",
                evidence=f"{submission.nodes_origin}, and nothing visible sets ranks.",
                fix=f"If it doesn't connect by itself, start it with torchrun{_group(submission)};"
                f" or {submission.set_nodes(1)}.",
                severity=Severity.ADVICE,
                confidence=Confidence.POSSIBLE,
                location=submission.locate(launch.invocation, launch.invocation.argv),
                sources=(Source.SCRIPT, Source.MANIFEST),
            )


def _detail(submission: Submission, launch: Launch) -> str:
    pods = f"each of the {submission.nodes} pods"
    if _waits_alone(launch):
        return f"--standalone has {pods} wait at a rendezvous of its own, where the others never come."
    subject = "--standalone" if launch.standalone else quoted(launch.nodes)
    unsaid = "NNODES" if launch.launcher in BY_VARIABLES else "--num_machines"
    why = f"{subject} makes {launch.launcher} train" if subject else f"{launch.launcher} without {unsaid} trains"
    return f"{why} on one node only, in {pods} separately."


def _waits_alone(launch: Launch) -> bool:
    """Whether torchrun still has several nodes: --standalone only sets the rendezvous."""
    nodes = launch.invocation.environment.get("PET_NNODES")
    return launch.standalone and not _given_nodes(launch) and nodes is not None and nodes.text not in {None, "1"}


def _given_nodes(launch: Launch) -> bool:
    return any(NNODES.match(word.text or "") for word in launch.invocation.argv)


def _unconnected(submission: Submission, launch: Launch) -> bool:
    """Whether plain python starts a training, and neither script nor manifest mentions several nodes."""
    script = submission.script
    written = [*submission.environment_fields, script.source if script is not None else ""]
    written += [text for _, text in submission.argv]
    return (
        launch.launcher is Launcher.PYTHON
        and submission.framework is not Framework.JAX
        and submission.environment_known
        and work_of(launch) is Work.TRAINING
        and not any(CONNECTS.search(text) for text in written)
    )


def _alone(launch: Launch) -> bool:
    """Whether the launch has one node only, and nothing says that the pods do different work."""
    words = (*launch.program, *launch.arguments)
    return (
        launch.launcher in SINGLE_NODE
        and (launch.standalone or launch.nodes.value == 1)
        and not launch.hostfile
        and launch.configuration is None
        and not launch.invocation.rank_dependent
        and not launch.invocation.after_failure
        and all(word.text is not None for word in launch.invocation.argv)
        and work_of(launch) is not Work.INDEPENDENT
        and bool(words)
    )


def _change(submission: Submission, launch: Launch) -> Change | None:
    """The torchrun command without its option for one node, if the injected variables describe all nodes; else None."""
    environment = launch.invocation.environment
    if launch.launcher is not Launcher.TORCHRUN or launch.rendezvous or "PET_RDZV_ENDPOINT" in environment:
        return None
    injected = environment.get("PET_NNODES")
    if injected is None or injected.text != str(submission.nodes):
        return None
    words = [word for word in launch.invocation.argv if word.text == "--standalone"]
    words += [] if launch.nodes.variable else launch.nodes.words
    return in_script(submission, [without_word(submission, word) for word in words], safe=False)


def _fix(submission: Submission, launch: Launch) -> str:
    if launch.launcher in BY_VARIABLES:
        others = BY_VARIABLES[launch.launcher].replace("{rank}", submission.rank or "RANK")
        return f"Set NNODES={submission.nodes} {others} for it; or {submission.set_nodes(1)}."
    if launch.launcher is Launcher.ACCELERATE:
        reads = _group(submission) if submission.injects_group else ""
        return (
            f"Start it with torchrun{reads}, or add --num_machines {submission.nodes} --num_processes {submission.gpus}"
            f" --machine_rank ${submission.rank or 'RANK'} --main_process_ip $MASTER_ADDR"
            " --main_process_port $MASTER_PORT."
        )
    given = " and --nnodes" if _given_nodes(launch) else ""
    option = f"--standalone{given}" if launch.standalone else quoted(launch.nodes).strip('"') or "--nnodes"
    instead = (
        f"Leave {option} out: torchrun reads the {submission.nodes} nodes from PET_NNODES"
        if submission.injects_group
        else f"Start it in place of {option}{_group(submission)}"
    )
    return f"{instead}; or {submission.set_nodes(1)}."


def _group(submission: Submission) -> str:
    """How torchrun finds the other nodes: by its environment, or else by options."""
    if submission.injects_group:
        return ", which reads PET_NNODES and PET_NPROC_PER_NODE as Stoker sets them"
    return (
        f" with --nnodes={submission.nodes} --node_rank=${submission.rank or 'RANK'}"
        " and the --master_addr of the first pod"
    )


RULE: Rule[Submission] = Rule(
    id="A106",
    name="duplicate-nodes",
    category=Category.DUPLICATE_TRAINING,
    severity=Severity.WARNING,
    summary="Each node trains the same model on its own.",
    fix="Leave the number of nodes to the injected variables: torchrun train.py.",
    check=check,
)
