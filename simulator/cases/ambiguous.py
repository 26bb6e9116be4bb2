"""Jobs whose metrics fit several causes: what a counter does not say is drawn, and nothing else tells it.

The true cause must be among a diagnosis' findings and alternatives.
"""

from dataclasses import replace

from simulator.case import COMMON, Cast, Draw, begin, case, cast, hours
from simulator.job import Story
from simulator.networks import BERT_LARGE, GPT2, RESNET50, SPEECH, SWIN_BASE, VIT_LARGE
from simulator.timeline import PodUse
from simulator.training import Storage
from stoker.findings.vocabulary import Category

FROM_ANYWHERE = (Category.EXTERNAL_DATA_USAGE, Category.REMOTE_DATA_READ, Category.LONG_LIBRARY_INSTALLATION)
"""Files that come at the start: a data set or libraries, from a site or a store."""
STREAMED = (Category.EXTERNAL_DATA_USAGE, Category.REMOTE_DATA_READ)
"""Samples that come during training."""
COMPILED = (Category.LONG_LIBRARY_INSTALLATION, Category.DATA_PREPROCESSING)
"""Cores that work on what is in memory already."""
NEVER_USED = (Category.API_MISUSE, Category.NON_DL_JOB)
"""A program that computes on CPUs, and is not known."""
ONE_GPU = (Category.API_MISUSE, Category.GPU_OVERSUBSCRIPTION)
"""A program that works on one GPU of several."""
SENT = (Category.INTERMEDIATE_RESULT_UPLOAD, Category.MODEL_CHECKPOINTING)
"""Bytes of equal size from the GPUs, at equal intervals."""
UNSEEN_READS = (
    Category.REMOTE_DATA_READ,
    Category.DATA_PREPROCESSING,
    Category.INEFFICIENT_HOST_GPU_TRANSFER,
    Category.IMPROPER_BATCH_SIZE,
)
"""Waits beside storage that the node mounts, where no pressure is sampled."""


def _then_trains(draw: Draw, story: Story) -> Cast:
    story.load_model(draw.scale(5, 45))
    story.warm_up(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.6, 2))
    return cast(draw, story)


def _copied(draw: Draw, activity: str) -> Cast:
    story = Story(draw.rng, draw.tuned(networks=COMMON))
    rate = draw.scale(2e7, 1.5e8)
    pod = PodUse(cpu=0.15 + rate / 3e8, memory=1.5e9, net_rx=rate, net_tx=rate * 0.015, disk_write=rate)
    story.cpu_only(60 * draw.scale(20, 70), activity, pod)
    story.boot(draw.scale(10, 60))
    return _then_trains(draw, story)


@case("unclear-data-set-copied", Category.REMOTE_DATA_READ, acceptable=FROM_ANYWHERE)
def data_set_copied(draw: Draw) -> Cast:
    """A data set is copied from the cluster's own store before training begins."""
    return _copied(draw, "reading")


@case("unclear-libraries-copied", Category.LONG_LIBRARY_INSTALLATION, acceptable=FROM_ANYWHERE)
def libraries_copied(draw: Draw) -> Cast:
    """An archive of libraries is copied from a share, as fast as a data set."""
    return _copied(draw, "install")


@case("unclear-streamed-from-a-site", Category.EXTERNAL_DATA_USAGE, acceptable=STREAMED)
def streamed_from_a_site(draw: Draw) -> Cast:
    """Samples come from a public site, one request each, while the GPUs train."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE, SPEECH], workers=draw.pick([4, 8]), layouts=[(1, 1), (1, 2)])
    need = draw.scale(1.8, 4.0) * training.workers * training.step / training.batch
    training = replace(training, latency=need, cpu_per_sample=min(training.cpu_per_sample, need * 0.1))
    story, total = begin(draw, replace(training, storage=Storage.OBJECTS, jitter=0.4, bandwidth=5e9)), hours(draw)
    regime = story.regime()
    while story.seconds < total:
        story.train(regime, draw.scale(200, 900))
        # The site limits its clients: nothing comes for a while.
        story.wait(draw.scale(90, 400), "download", pod=replace(training.pod(), cpu=0.05, net_rx=2e3, net_tx=2e3))
    return cast(draw, story)


def _computed(draw: Draw, activity: str) -> Cast:
    training = draw.tuned(networks=COMMON)
    story = Story(draw.rng, training)
    story.boot(draw.scale(10, 60))
    pod = PodUse(cpu=training.cpu_limit * draw.between(0.5, 0.95), memory=9e9, net_rx=2e3, net_tx=2e3)
    story.cpu_only(60 * draw.scale(20, 60), activity, pod)
    return _then_trains(draw, story)


@case("unclear-compiled", Category.LONG_LIBRARY_INSTALLATION, acceptable=COMPILED)
def compiled(draw: Draw) -> Cast:
    """A library that the image holds as source is compiled on all cores."""
    return _computed(draw, "install")


@case("unclear-tokenized", Category.DATA_PREPROCESSING, acceptable=COMPILED)
def tokenized(draw: Draw) -> Cast:
    """A corpus in memory is tokenized on all cores."""
    return _computed(draw, "preparing")


def _on_cpus(draw: Draw, activity: str) -> Cast:
    training = draw.tuned(layouts=[(1, 2), (1, 4)])
    story = Story(draw.rng, training, used=())
    story.boot(draw.scale(10, 60))
    pod = PodUse(cpu=training.cpu_limit * draw.between(0.4, 0.95), memory=20e9, net_rx=2e3, net_tx=2e3)
    story.cpu_only(hours(draw, 1.5, 6), activity, pod)
    return cast(draw, story, rest="unused", facts={"framework": None})


@case("unclear-devices-hidden", Category.API_MISUSE, acceptable=NEVER_USED)
def devices_hidden(draw: Draw) -> Cast:
    """A framework that nobody told of finds no GPU, and trains on the CPUs."""
    return _on_cpus(draw, "training-on-cpus")


@case("unclear-needs-no-gpu", Category.NON_DL_JOB, acceptable=NEVER_USED)
def needs_no_gpu(draw: Draw) -> Cast:
    """A program that has no use for a GPU."""
    return _on_cpus(draw, "computing-on-cpus")


def _on_one(draw: Draw) -> Cast:
    story = begin(draw, draw.tuned(layouts=[(1, 1)]), used=("lead",))
    story.train(story.regime(), hours(draw))
    return cast(draw, story, nodes=1, per_node=draw.pick([2, 4]), rest="unused", roles={(0, 0): "lead"})


@case("unclear-not-distributed", Category.API_MISUSE, acceptable=ONE_GPU)
def not_distributed(draw: Draw) -> Cast:
    """Nobody wrapped the model, so that one GPU of several works."""
    return _on_one(draw)


@case("unclear-too-many-gpus", Category.GPU_OVERSUBSCRIPTION, acceptable=ONE_GPU)
def too_many_gpus(draw: Draw) -> Cast:
    """A job for one GPU was given several."""
    return _on_one(draw)


def _sent(draw: Draw, activity: str) -> Cast:
    training = draw.tuned(networks=[BERT_LARGE, VIT_LARGE, GPT2], layouts=[(1, 1)])
    story, total = begin(draw, training), hours(draw)
    regime, rate, saving = story.regime(), draw.scale(2e7, 1e8), draw.between(60, 150)
    working = saving * draw.between(0.6, 1.2)
    while story.seconds < total:
        story.train(regime, working * draw.between(0.97, 1.03))
        story.checkpoint(saving * rate, rate * draw.between(0.95, 1.05), remote=True, activity=activity)
    return cast(draw, story)


@case("unclear-features-uploaded", Category.INTERMEDIATE_RESULT_UPLOAD, acceptable=SENT)
def features_uploaded(draw: Draw) -> Cast:
    """Features of equal size leave the GPU every few minutes, and are sent to the store."""
    return _sent(draw, "upload")


@case("unclear-waits-for-a-mount", Category.REMOTE_DATA_READ, acceptable=UNSEEN_READS)
def waits_for_a_mount(draw: Draw) -> Cast:
    """The loader's process waits for files of a mount that the node reads: no counter of the pod shows them."""
    training = draw.tuned(networks=[RESNET50, SWIN_BASE, SPEECH], layouts=[(1, 1)])
    story, total = begin(draw, training), hours(draw)
    regime, step = story.regime(), draw.between(0.6, 1.5)
    waiting = step * draw.between(1.2, 2.5)
    pod = PodUse(cpu=draw.between(0.2, 0.5), memory=training.host_memory, net_rx=2e3, net_tx=2e3, io_pressure=0.7)
    while story.seconds < total:
        story.train(regime, step * draw.between(0.8, 1.2))
        story.wait(waiting * draw.scale(0.5, 2.0), "reading", pod=pod)
    return cast(draw, story, facts={"mounts_storage": True})
