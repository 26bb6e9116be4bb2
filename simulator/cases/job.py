"""What the job as a whole gets wrong: interactive, never released, started on the wrong GPUs, or needing none."""

from collections.abc import Sequence
from dataclasses import replace

from simulator.case import COMMON, Cast, Draw, begin, case, cast, hours
from simulator.hardware import V100
from simulator.job import Story
from simulator.networks import BERT_LARGE, TABULAR
from simulator.timeline import Pattern, PodUse
from simulator.training import Exchange, Training
from stoker.findings.vocabulary import Category, Framework

ASLEEP = PodUse(cpu=0.004, memory=6e9, net_rx=400.0, net_tx=300.0)
"""A program in sleep(): what is left are the runtime's own timers."""


@case("notebook", Category.INTERACTIVE_JOB)
def notebook(draw: Draw) -> Cast:
    """Somebody thinks, types, and runs a cell now and then; the kernel keeps its memory."""
    training = draw.tuned(networks=COMMON, layouts=[(1, 1), (1, 2), (1, 4)])
    alone = replace(training, ranks=1, exchange=Exchange.NONE)
    story = Story(draw.rng, alone, used=("lead",))
    story.cpu_only(draw.scale(60, 900), "thinking", PodUse(cpu=0.03, memory=0.4e9, net_rx=3e3, net_tx=6e3))
    regime, total = story.regime(), hours(draw, 3, 9)
    typing = PodUse(cpu=draw.between(0.01, 0.05), memory=3e9, net_rx=4e3, net_tx=9e3)
    while story.seconds < total:
        for _ in range(int(draw.rng.geometric(0.4))):
            story.train(regime, draw.scale(2, 45))
            story.wait(draw.scale(10, 120), "thinking", pod=typing)
        story.wait(draw.scale(240, 4200), "thinking", pod=typing)
    known = draw.chance(0.5)
    return cast(
        draw,
        story,
        nodes=1,
        per_node=training.ranks_per_pod,
        roles=_only(1),
        rest="unused",
        finished=False,
        facts={"interactive_entry": known},
    )


@case("debugging", Category.INTERACTIVE_JOB)
def debugging(draw: Draw) -> Cast:
    """A shell on four GPUs: the script is started, fails after minutes, is edited, and started again."""
    training = draw.tuned(gpus=[V100], networks=[BERT_LARGE], layouts=[(1, 4)])
    story = Story(draw.rng, training)
    shell = PodUse(cpu=0.01, memory=0.2e9, net_rx=3e3, net_tx=5e3)
    story.cpu_only(draw.scale(120, 900), "thinking", shell)
    regime, total = story.regime(), draw.between(3.2, 6) * 3600
    while story.seconds < total:
        story.boot(draw.scale(8, 25))
        story.load_model(draw.scale(4, 15))
        story.train(regime, draw.scale(4, 60))
        story.cpu_only(draw.scale(300, 3600), "thinking", shell)
    return cast(draw, story, finished=False, facts={"interactive_entry": draw.chance(0.7)})


@case("frequent-cells", Category.INTERACTIVE_JOB)
def frequent_cells(draw: Draw) -> Cast:
    """A notebook in full use: cells of seconds to minutes with thought between, and another model now and then."""
    return _session(draw, restarts=0.12, cells=(4, 200), thoughts=(60, 1500))


@case("frequent-runs", Category.INTERACTIVE_JOB)
def frequent_runs(draw: Draw) -> Cast:
    """A developer in the pod: edit, run for a minute or two, look, edit; each run is a process of its own."""
    return _session(draw, restarts=1.0, cells=(8, 180), thoughts=(60, 1800))


def _session(draw: Draw, *, restarts: float, cells: tuple[float, float], thoughts: tuple[float, float]) -> Cast:
    """Work by hand for hours; `restarts` is the share of the runs before which the process begins anew."""
    training = replace(draw.tuned(layouts=[(1, 1)]), ranks=1, exchange=Exchange.NONE)
    story, total = Story(draw.rng, training, used=("lead",)), hours(draw, 2.5, 8)
    shell = PodUse(cpu=draw.between(0.02, 0.15), memory=0.5e9, net_rx=4e3, net_tx=9e3)
    story.cpu_only(draw.scale(60, 600), "thinking", shell)
    model, regime = training, story.regime()
    fresh = True
    while story.seconds < total:
        if fresh:
            story.boot(draw.scale(8, 40))
            model = replace(training, batch=max(1, int(training.batch * draw.scale(0.2, 1.0))))
            regime = story.regime(model)
        story.train(regime, draw.scale(*cells))
        fresh = draw.chance(restarts)
        thought = draw.scale(*thoughts)
        if fresh:
            story.cpu_only(thought, "thinking", shell)
        else:
            held = model.resting()
            story.wait(thought, "thinking", pod=shell, lead=held)
    return cast(draw, story, nodes=1, per_node=1, roles=_only(1), rest="unused", finished=False)


def _then_asleep(draw: Draw, training: Training, pod: PodUse, least: float = 20) -> Cast:
    story = begin(draw, training)
    story.train(story.regime(), hours(draw, 0.7, 3))
    story.checkpoint(training.network.parameters * 4e6, 4e8, remote=True)
    story.wait(60 * draw.scale(least, 240), "asleep", pod=pod)
    return cast(draw, story, finished=False)


@case("sleep-after-training", Category.UNRELEASED_JOB)
def sleep_after_training(draw: Draw) -> Cast:
    """The script ends in a sleep, and the training process lives on in it with its memory."""
    return _then_asleep(draw, draw.tuned(), ASLEEP)


@case("endless-tail", Category.UNRELEASED_JOB)
def endless_tail(draw: Draw) -> Cast:
    """Training's process has ended and given its memory back; the shell waits in `tail -f`."""
    training = draw.tuned()
    story = begin(draw, training)
    story.train(story.regime(), hours(draw, 0.7, 3))
    story.cpu_only(60 * draw.scale(25, 240), "asleep", replace(ASLEEP, memory=0.3e9))
    return cast(draw, story, finished=False)


@case("waiting-thread", Category.UNRELEASED_JOB)
def waiting_thread(draw: Draw) -> Cast:
    """A logger's thread polls a server for ever, so that the interpreter never exits."""
    return _then_asleep(draw, draw.tuned(), replace(ASLEEP, cpu=0.015, net_rx=1.5e3, net_tx=2.5e3))


@case("sleeping-workers", Category.UNRELEASED_JOB)
def sleeping_workers(draw: Draw) -> Cast:
    """Training is over and several processes of a framework live on, each with its own timers and polling threads."""
    training = draw.tuned(layouts=[(1, 4), (1, 8), (2, 4)])
    resting = draw.between(0.08, 0.2) * training.ranks_per_pod
    return _then_asleep(draw, training, replace(ASLEEP, cpu=resting, net_rx=2e3, net_tx=2e3), least=60)


@case("analytics", Category.NON_DL_JOB)
def analytics(draw: Draw) -> Cast:
    """Tables are joined and summed on the CPUs; nothing ever opens a GPU."""
    return _cpu_job(draw, draw.between(0.5, 1.0), reads=draw.scale(5e6, 9e7))


@case("trees", Category.NON_DL_JOB)
def trees(draw: Draw) -> Cast:
    """Boosted trees or a grid search, on all cores."""
    return _cpu_job(draw, draw.between(0.8, 1.0), reads=0.0)


def _cpu_job(draw: Draw, load: float, reads: float) -> Cast:
    training = draw.tuned(networks=[TABULAR], layouts=[(1, 1), (1, 2), (1, 4), (1, 8)])
    story = Story(draw.rng, training, used=())
    story.boot(draw.scale(10, 60))
    total, limit = hours(draw, 1, 5), training.cpu_limit
    while story.seconds < total:
        cores = limit * load * draw.between(0.85, 1.0)
        pod = PodUse(
            cpu=cores,
            memory=30e9,
            net_rx=reads + 2e3,
            net_tx=3e3,
            disk_read=reads / 2,
            throttled=max(0.0, load - 0.8) * 3 if training.limited else 0.0,
            cpu_pressure=max(0.0, load - 0.6),
        )
        story.cpu_only(draw.scale(200, 1500), "computing-on-cpus", pod)
        story.cpu_only(draw.scale(10, 90), "computing-on-cpus", replace(pod, cpu=1.0, throttled=0.0, cpu_pressure=0.0))
    framework = draw.pick([None, Framework.OTHER])
    return cast(draw, story, rest="unused", facts={"framework": framework})


@case("processes-too-few", Category.GPU_OVERSUBSCRIPTION)
def processes_too_few(draw: Draw) -> Cast:
    """The launcher starts half as many processes as the pod has GPUs, or fewer, on every node."""
    nodes, per_node = draw.pick([(1, 4), (1, 8), (1, 8), (2, 8), (4, 8)])
    used = draw.pick([2, 4]) if per_node == 8 else 2
    training = draw.tuned(layouts=[(nodes, used)])
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    roles = {(rank, slot): "peers" for rank in range(nodes) for slot in range(used)} | {(0, 0): "lead"}
    facts = {"processes_per_node": used} if draw.chance(0.5) else {}
    return cast(draw, story, nodes=nodes, per_node=per_node, roles=roles, rest="unused", facts=facts)


@case("trials-one-by-one", Category.GPU_OVERSUBSCRIPTION)
def trials_one_by_one(draw: Draw) -> Cast:
    """A tuner on several GPUs runs its trials one after the other, each a process of its own on the first GPU."""
    per_node = draw.pick([2, 4, 8])
    story = Story(draw.rng, draw.tuned(layouts=[(1, 1)]), used=("lead",))
    _trials(draw, story, [story.regime()])
    return cast(draw, story, nodes=1, per_node=per_node, rest="unused", roles=_only(1))


@case("trials-in-turn", Category.GPU_OVERSUBSCRIPTION)
def trials_in_turn(draw: Draw) -> Cast:
    """The same, and each trial takes the GPU after the last one's."""
    story = Story(draw.rng, draw.tuned(layouts=[(1, 1)]), used=("lead",))
    _trials(draw, story, [story.regime(used=(role,)) for role in ("lead", "peers")])
    return cast(draw, story, nodes=1, per_node=draw.pick([4, 8]), rest="unused", roles=_only(2))


def _trials(draw: Draw, story: Story, regimes: Sequence[Sequence[Pattern]]) -> None:
    total, number = hours(draw, 2, 8), 0
    between = PodUse(cpu=0.5, memory=0.6e9, net_rx=2e3, net_tx=2e3)
    while story.seconds < total or number < 5:
        story.boot(draw.scale(8, 30))
        story.train(regimes[number % len(regimes)], 60 * draw.scale(10, 40))
        story.cpu_only(draw.scale(20, 60), "switching", between)
        number += 1


@case("cpu-fallback", Category.API_MISUSE)
def cpu_fallback(draw: Draw) -> Cast:
    """A runtime makes a context, runs a trial on the GPU for some seconds, and then falls back to CPUs for hours."""
    training = draw.tuned(layouts=[(1, 1)])
    story = Story(draw.rng, training, used=("lead",))
    story.boot(draw.scale(10, 60))
    small = training.gpu_use(engine=0.1)
    context = replace(small, memory=draw.between(300, 700))
    pod = PodUse(cpu=1.0, memory=3e9)
    story.wait(draw.between(5, 20), "loading", pod=pod, lead=context)
    busy = replace(pod, cpu=training.cpu_limit * draw.between(0.5, 0.95), memory=8e9, net_rx=draw.scale(2e3, 2e6))
    rest = replace(context, power=training.gpu.context, engine=0.0)
    story.wait(hours(draw, 1.5, 8), "computing-on-cpus", pod=busy, lead=rest)
    roles = {(0, 0): "lead"}
    return cast(
        draw,
        story,
        nodes=1,
        per_node=draw.pick([2, 4]),
        rest="unused",
        roles=roles,
        facts={"framework": training.network.framework},
    )


@case("devices-hidden", Category.API_MISUSE)
def devices_hidden(draw: Draw) -> Cast:
    """CUDA_VISIBLE_DEVICES is empty: a framework for GPUs trains on the CPUs, for hours."""
    training = draw.tuned(layouts=[(1, 1), (1, 2), (1, 4)])
    story = Story(draw.rng, training, used=())
    story.boot(draw.scale(10, 60))
    limit = training.cpu_limit
    pod = PodUse(
        cpu=limit * draw.between(0.6, 0.98),
        memory=20e9,
        net_rx=2e3,
        net_tx=2e3,
        disk_read=draw.scale(1e5, 3e6),
        throttled=0.4 if training.limited else 0.0,
        cpu_pressure=0.4,
    )
    story.cpu_only(hours(draw, 2, 8), "computing-on-cpus", pod)
    return cast(draw, story, rest="unused", facts={"framework": training.network.framework})


@case("one-device-of-several", Category.API_MISUSE)
def one_device_of_several(draw: Draw) -> Cast:
    """A single process trains on the first GPU; nobody told it of the others."""
    per_node = draw.pick([2, 2, 4, 8])
    training = draw.tuned(layouts=[(1, 1)])
    story = begin(draw, training, used=("lead",))
    story.train(story.regime(), hours(draw))
    return cast(draw, story, nodes=1, per_node=per_node, rest="unused", roles=_only(1))


def _only(number: int) -> dict[tuple[int, int], str]:
    return {(0, slot): "lead" if slot == 0 else "peers" for slot in range(number)}
