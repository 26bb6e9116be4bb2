"""Jobs with nothing wrong in them, many of which look as if there were."""

from dataclasses import replace

from simulator.case import Cast, Draw, begin, case, cast, fed, hidden, hours
from simulator.hardware import A100, H100, V100
from simulator.job import Story
from simulator.networks import BERT_LARGE, EFFICIENTNET, GPT2, GPT2_XL, LLAMA_7B, RESNET50, SWIN_BASE, VIT_LARGE
from simulator.timeline import PodUse
from simulator.training import Storage
from stoker.findings.vocabulary import Framework, JobType


@case("steady")
def steady(draw: Draw) -> Cast:
    """Training as it should be."""
    story = begin(draw, draw.tuned())
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("steady-large")
def steady_large(draw: Draw) -> Cast:
    """A large model over several nodes and a fast fabric, with memory nearly full."""
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[A100, H100], layouts=[(2, 8), (4, 8)])
    story = begin(draw, replace(training, memory=training.gpu.memory * draw.between(0.8, 0.97)))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("asynchronous-checkpoints")
def asynchronous_checkpoints(draw: Draw) -> Cast:
    """Checkpoints leave in the background: bursts on the network, and training goes on."""
    training = draw.tuned(networks=[BERT_LARGE, GPT2, VIT_LARGE])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    size, rate = training.network.parameters * 12e6, draw.scale(5e7, 5e8)
    every = max(2.5 * size / rate, 60 * draw.scale(4, 20))
    sending = PodUse(cpu=0.8, net_tx=rate * 1.03, net_rx=rate * 0.01)
    while story.seconds < total:
        story.train(regime, (every - size / rate) * draw.between(0.97, 1.03))
        story.wait(min(2.0, size / 2e10 + 0.2), "compute", lead=training.gpu_use(tx=training.gpu.pinned * 1e9))
        story.train(regime, size / rate, beside={"head": sending})
    return cast(draw, story)


@case("final-evaluation")
def final_evaluation(draw: Draw) -> Cast:
    """A long evaluation follows training, at another level."""
    training = draw.tuned()
    story = begin(draw, training)
    total = hours(draw)
    story.train(story.regime(), total * 0.7)
    story.evaluate(fed(replace(training, forward_only=True, memory=training.gpu_memory)), total * 0.3)
    return cast(draw, story)


@case("validation-each-epoch")
def validation_each_epoch(draw: Draw) -> Cast:
    """Each epoch ends in seconds of validation and a small, quick checkpoint."""
    training = draw.tuned()
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    evaluation = story.regime(replace(training, forward_only=True, memory=training.gpu_memory))
    epoch = 60 * draw.scale(5, 20)
    while story.seconds < total:
        story.train(regime, epoch * draw.between(0.97, 1.03))
        story.wait(draw.between(1, 5), "switching")
        story.play(evaluation, draw.between(5, 25))
        story.wait(draw.between(1, 4), "switching", pod=PodUse(cpu=1, memory=training.host_memory, disk_write=3e8))
    return cast(draw, story)


@case("rare-checkpoints")
def rare_checkpoints(draw: Draw) -> Cast:
    """A synchronous checkpoint each hour or half hour, of some seconds."""
    training = draw.tuned(networks=[VIT_LARGE, GPT2, SWIN_BASE])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 2, 5)
    while story.seconds < total:
        story.train(regime, 60 * draw.between(25, 60))
        story.checkpoint(training.network.parameters * 12e6, 1.2e9, remote=True)
    return cast(draw, story)


@case("compiling")
def compiling(draw: Draw) -> Cast:
    """Minutes of compilation and autotuning first, full speed after."""
    training = draw.tuned(gpus=[A100, H100])
    story = Story(draw.rng, training)
    story.boot(draw.scale(20, 60))
    story.load_model(draw.scale(20, 120))
    story.warm_up(60 * draw.between(4, 9), cores=draw.between(2, 12))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("reinforcement-learning")
def reinforcement_learning(draw: Draw) -> Cast:
    """Actors play on the CPUs, then the policy is trained: the CPUs' phases are the algorithm's."""
    training = draw.tuned(networks=[RESNET50, GPT2], layouts=[(1, 1), (1, 2), (1, 4)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    playing = PodUse(cpu=training.cpu_limit * draw.between(0.5, 0.8), memory=30e9)
    inference = training.gpu_use(engine=draw.between(0.08, 0.3), sm=0.06, tensor=0.01, dram=0.04, rx=3e7)
    play, train = draw.scale(8, 40), draw.scale(10, 60)
    while story.seconds < total:
        story.wait(play * draw.between(0.8, 1.2), "acting", pod=playing, lead=inference)
        story.train(regime, train * draw.between(0.9, 1.1))
    return cast(draw, story)


@case("young")
def young(draw: Draw) -> Cast:
    """A job of some minutes, still starting up."""
    training = draw.tuned()
    story = Story(draw.rng, training)
    story.boot(draw.scale(20, 60))
    if draw.chance(0.5):
        story.install_wheels(draw.scale(20, 200))
    story.load_model(draw.scale(20, 200))
    story.warm_up(draw.scale(10, 60))
    if draw.chance(0.6):
        story.train(story.regime(), draw.scale(60, 300))
    return cast(draw, story, finished=False)


@case("short-start")
def short_start(draw: Draw) -> Cast:
    """Some minutes of installation and download, as small as they are common."""
    training = draw.tuned()
    story = Story(draw.rng, training)
    story.install_wheels(60 * draw.between(1, 5))
    story.download(draw.scale(5e8, 4e9), draw.scale(3e7, 1e8))
    story.boot(draw.scale(20, 60))
    story.load_model(draw.scale(20, 90))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("streaming")
def streaming(draw: Draw) -> Cast:
    """Data streams over the network at high rates, well ahead of the GPUs."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE, VIT_LARGE], workers=12, prefetch=4)
    story = begin(draw, fed(replace(training, storage=Storage.OBJECTS, latency=draw.scale(3e-4, 2e-3), bandwidth=6e9)))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("accumulating")
def accumulating(draw: Draw) -> Cast:
    """Gradients are summed over many small batches before each exchange and update."""
    training = draw.tuned(networks=[BERT_LARGE, GPT2, VIT_LARGE], layouts=[(1, 4), (1, 8), (2, 8)], accumulate=8)
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("busy-cores")
def busy_cores(draw: Draw) -> Cast:
    """Preprocessing takes most of the cores, and is fast enough for the GPUs."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE], layouts=[(1, 1), (1, 2), (1, 4)])
    cores = max(training.cpu_limit - training.ranks_per_pod, 1.0)
    use = training.batch * training.ranks_per_pod / training.step
    cpu = draw.between(0.6, 0.78) * cores / use
    story = begin(
        draw, replace(training, cpu_per_sample=cpu, workers=int(2 * training.cpu_limit), storage=Storage.MEMORY)
    )
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("preallocated-memory")
def preallocated_memory(draw: Draw) -> Cast:
    """A framework that takes nearly all memory at its start, whatever it needs."""
    training = draw.tuned(networks=[EFFICIENTNET, replace(VIT_LARGE, framework=Framework.JAX)])
    story = begin(draw, replace(training, memory=training.gpu.memory * draw.pick([0.76, 0.93, 0.96])))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("serving")
def serving(draw: Draw) -> Cast:
    """An inference server: requests come as they come, and its memory is full of weights."""
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[A100, H100], layouts=[(1, 1), (1, 2)])
    full = replace(training, memory=training.gpu.memory * draw.between(0.85, 0.95), forward_only=True)
    story = begin(draw, full)
    regime, total = story.regime(), hours(draw)
    quiet = PodUse(cpu=0.3, memory=10e9, net_rx=4e4, net_tx=6e4)
    load = draw.between(0.1, 0.8)
    while story.seconds < total:
        story.train(regime, draw.scale(3, 60) * load)
        story.wait(draw.scale(3, 60) * (1 - load), "listening", pod=quiet)
    return cast(draw, story, finished=False, facts={"job_type": JobType.SERVING})


@case("sweep")
def sweep(draw: Draw) -> Cast:
    """Several trainings one after the other in one process, with a pause for each new model."""
    training = draw.tuned(layouts=[(1, 1), (1, 2), (1, 4)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw, 2, 5)
    while story.seconds < total:
        story.train(regime, 60 * draw.scale(12, 40))
        story.wait(draw.scale(5, 40), "switching", pod=PodUse(cpu=1.0, memory=training.host_memory, disk_read=2e8))
    return cast(draw, story)


@case("rank-zero-evaluates")
def rank_zero_evaluates(draw: Draw) -> Cast:
    """After each epoch rank 0 evaluates for some seconds, and its peers spin in the next collective."""
    training = draw.tuned(layouts=[(1, 2), (1, 4), (1, 8), (2, 8)])
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    alone = replace(training, forward_only=True, memory=training.gpu_memory)
    while story.seconds < total:
        story.train(regime, 60 * draw.scale(6, 20))
        pod = PodUse(cpu=float(training.ranks_per_pod), memory=training.host_memory)
        story.wait(draw.between(5, 40), "evaluating", pod=pod, lead=alone.computing(), peers=training.spinning())
    return cast(draw, story)


@case("pipeline-bubbles")
def pipeline_bubbles(draw: Draw) -> Cast:
    """Layers on different GPUs pass activations on; each waits a little for the others in every step."""
    training = draw.tuned(networks=[LLAMA_7B, GPT2_XL], gpus=[A100, H100], layouts=[(1, 4), (1, 8), (2, 8)])
    training = replace(training, memory=training.gpu.memory * draw.between(0.6, 0.9))
    story = begin(draw, replace(training, host_gap=training.busy * draw.between(0.1, 0.25)))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("busy-network")
def busy_network(draw: Draw) -> Cast:
    """A pod on its node's own network, whose series show what others on the node send and receive."""
    training = draw.tuned()
    story = begin(draw, training)
    regime, total = story.regime(), hours(draw)
    while story.seconds < total:
        others = PodUse(net_rx=draw.scale(1e6, 4e8), net_tx=draw.scale(1e6, 4e8))
        story.train(regime, draw.scale(30, 600), beside={"head": others, "tails": others})
    made = cast(draw, story)
    return replace(made, host_network=True)


@case("exchange-hidden")
def exchange_hidden(draw: Draw) -> Cast:
    """Gradients go over sockets beside the backward pass, at gigabytes a second and not quite alike each way."""
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(2, 4), (2, 8), (4, 8)])
    training = replace(
        training, network_bandwidth=draw.scale(3e9, 1.2e10), rdma=False, asymmetry=draw.scale(0.01, 0.08)
    )
    story = begin(draw, hidden(training))
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("single-precision")
def single_precision(draw: Draw) -> Cast:
    """Plain fp32 arithmetic: kernels run all the time, tensor cores never, at full power."""
    training = draw.tuned(gpus=[V100], mixed_precision=False, layouts=[(1, 1), (1, 4), (2, 4)])
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    return cast(draw, story)


@case("restarted")
def restarted(draw: Draw) -> Cast:
    """A first attempt lost its node's driver after a while; the second one has resumed from a checkpoint."""
    training = draw.tuned(layouts=[(1, 1), (1, 2), (1, 4), (1, 8)])
    story = begin(draw, training)
    story.train(story.regime(), 60 * draw.scale(15, 90))
    ended = story.seconds
    story.hold(draw.scale(20, 120), "between-attempts")
    again = story.seconds
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(10, 60))
    story.train(story.regime(), hours(draw))
    return replace(cast(draw, story), attempt=(ended, again))


@case("just-finished")
def just_finished(draw: Draw) -> Cast:
    """Training is over and the last results are being stored: two minutes of rest at the end."""
    training = draw.tuned()
    story = begin(draw, training)
    story.train(story.regime(), hours(draw))
    story.checkpoint(training.network.parameters * 4e6, 3e8, remote=True)
    story.wait(draw.scale(20, 120), "closing")
    return cast(draw, story, finished=False)
