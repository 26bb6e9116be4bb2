"""What only a job that still runs shows: hangs, strangers, stragglers, and pods that never started."""

from dataclasses import replace

from simulator.case import Cast, Draw, begin, case, cast, hours
from simulator.job import QUIET, Story
from simulator.timeline import PodUse
from stoker.findings.vocabulary import Category


@case("hung-collective", Category.STALLED)
def hung_collective(draw: Draw) -> Cast:
    """One rank never enters a collective; all others spin in it."""
    training = draw.tuned(layouts=[(1, 4), (1, 8), (2, 8), (4, 8)])
    story = begin(draw, training, used=("lead", "peers", "odd"))
    story.train(story.regime(), hours(draw, 0.7, 3))
    spinning = PodUse(cpu=float(training.ranks_per_pod), memory=training.host_memory, net_rx=2e3, net_tx=2e3)
    uses = {"lead": training.spinning(), "peers": training.spinning(), "odd": training.resting()}
    if draw.chance(0.4):
        uses["odd"] = training.spinning()  # in another collective than the rest
    story.hold(60 * draw.scale(30, 240), "hung", uses | {"head": spinning, "tails": spinning})
    nodes = training.ranks // training.ranks_per_pod
    odd = (nodes - 1, training.ranks_per_pod - 1)
    return cast(draw, story, roles={odd: "odd"}, finished=False)


@case("hung-at-start", Category.STALLED)
def hung_at_start(draw: Draw) -> Cast:
    """The first all-reduce never ends: a firewall, or a rank that waits in another call."""
    training = draw.tuned(layouts=[(2, 4), (2, 8), (4, 8)])
    story = begin(draw, training)
    spinning = PodUse(cpu=float(training.ranks_per_pod), memory=training.host_memory, net_rx=2e3, net_tx=2e3)
    story.wait(60 * draw.scale(40, 300), "hung", pod=spinning, lead=training.spinning())
    return cast(draw, story, finished=False)


@case("no-rendezvous", Category.DUPLICATE_TRAINING)
def no_rendezvous(draw: Draw) -> Cast:
    """Each pod trains the whole model by itself, at its own pace; nothing goes between them."""
    nodes, per_node = draw.pick([(2, 1), (2, 4), (4, 1), (2, 8), (4, 8)])
    training = draw.tuned(layouts=[(1, per_node)])
    total, period = hours(draw), draw.between(500, 1500)
    stories = []
    for _ in range(nodes):
        story = begin(draw, training)
        regime = story.regime()
        while story.seconds < total:
            story.train(regime, min(period * draw.between(0.93, 1.07), total - story.seconds))
            if story.seconds < total:
                story.checkpoint(training.network.parameters * 4e6, 1.2e9, remote=False)
        stories.append(story)
    return Cast(stories=stories, nodes=nodes, per_node=per_node)


@case("slow-clock", Category.STRAGGLER)
def slow_clock(draw: Draw) -> Cast:
    """One GPU runs hot and slow; every step its peers are done sooner and spin until it is."""
    training = draw.tuned(layouts=[(1, 4), (1, 8), (2, 8), (4, 8)])
    story = begin(draw, training, used=("lead", "peers", "odd"))
    slow = replace(training, slowdown=draw.scale(1.35, 2.4))
    story.train(story.regime(slow, faster={"lead": training, "peers": training}), hours(draw))
    nodes = training.ranks // training.ranks_per_pod
    odd = (draw.pick(range(nodes)), training.ranks_per_pod - 1)
    return cast(draw, story, roles={odd: "odd"})


@case("faulty-link", Category.STRAGGLER)
def faulty_link(draw: Draw) -> Cast:
    """One GPU's PCIe link sends packets again and again: its copies take many times as long, and all wait."""
    training = draw.tuned(layouts=[(1, 4), (1, 8), (2, 8)], pinned=False)
    heavy = training.compute * draw.scale(0.02, 0.06) * training.gpu.pageable * 1e9 / training.batch
    training = replace(training, network=replace(training.network, device_bytes=heavy))
    story = begin(draw, training, used=("lead", "peers", "odd"))
    hampered = replace(training, gpu=replace(training.gpu, pageable=training.gpu.pageable / draw.scale(20, 60)))
    story.train(story.regime(hampered, faster={"lead": training, "peers": training}), hours(draw))
    odd = (0, training.ranks_per_pod - 1)
    return cast(draw, story, roles={odd: "odd"})


@case("image-pull", Category.STARTUP_HOLD)
def image_pull(draw: Draw) -> Cast:
    """One pod's image does not come; the others have started, and wait for its rank on their CPUs."""
    nodes, per_node = draw.pick([(2, 4), (2, 8), (4, 8)])
    training = draw.tuned(layouts=[(nodes, per_node)])
    story = Story(draw.rng, training)
    story.boot(draw.scale(10, 60))
    story.cpu_only(60 * draw.scale(25, 120), "waiting-for-a-pod", replace(QUIET, cpu=0.02 * per_node))
    reason = draw.pick(["ImagePullBackOff", "ContainerCreating", "PodInitializing"])
    return cast(draw, story, waiting={nodes - 1: reason}, finished=False)


@case("init-container", Category.STARTUP_HOLD)
def init_container(draw: Draw) -> Cast:
    """The GPUs are bound, and an init container copies data for a long time."""
    nodes, per_node = draw.pick([(1, 1), (1, 8), (2, 8)])
    training = draw.tuned(layouts=[(nodes, per_node)])
    story = Story(draw.rng, training)
    held = 60 * draw.scale(25, 180)
    story.cpu_only(held, "waiting-for-init", QUIET)
    waiting = dict.fromkeys(range(nodes), "PodInitializing")
    return cast(draw, story, waiting=waiting, finished=False)
