"""What is asked from outside: it rests whenever nobody asks, and comes back, whatever type it declares. Its rest is no
end.
"""

from dataclasses import replace

from simulator.case import Cast, Draw, case, cast
from simulator.job import Story
from simulator.networks import BERT_LARGE, GPT2, VIT_LARGE
from simulator.timeline import PodUse
from stoker.findings.vocabulary import JobType

WAITING = PodUse(cpu=0.02, memory=8e9, net_rx=900.0, net_tx=700.0)
"""A server between two requests: probes, and an event loop."""


def _loaded(draw: Draw) -> Story:
    training = draw.tuned(networks=[BERT_LARGE, GPT2, VIT_LARGE], layouts=[(1, 1)])
    story = Story(draw.rng, replace(training, forward_only=True), used=("lead",))
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(5, 45))
    return story


def _asked(draw: Draw, story: Story, seconds: float, pause: float) -> None:
    """Requests of like size for so long, with pauses around so many seconds between them."""
    regime, until = story.regime(), story.seconds + seconds
    while story.seconds < until:
        story.train(regime, draw.between(20, 45))
        story.wait(pause * draw.scale(0.5, 2.0), "waiting-for-requests", pod=WAITING)


@case("served-by-day")
def served_by_day(draw: Draw) -> Cast:
    """A model answers requests by day, and nobody asks at night; it is declared as what it is, or as a training."""
    story = _loaded(draw)
    for _ in range(2):
        _asked(draw, story, 3600 * draw.between(5, 8), 60 * draw.scale(2, 8))
        story.wait(3600 * draw.between(6, 10), "waiting-for-requests", pod=WAITING)
    return cast(draw, story, finished=False, facts={"job_type": draw.pick([JobType.SERVING, JobType.TRAINING])})


@case("asked-less-and-less")
def asked_less_and_less(draw: Draw) -> Cast:
    """Whoever uses it goes home one after the other: its pauses grow towards the night."""
    story = _loaded(draw)
    _asked(draw, story, 3600 * draw.between(2, 4), 60 * draw.scale(1, 3))
    pause = 60 * draw.between(12, 25)
    while pause < 3600 * 4:
        _asked(draw, story, 60 * draw.between(4, 15), 60.0)
        story.wait(pause, "waiting-for-requests", pod=WAITING)
        pause *= draw.between(1.8, 2.6)
    return cast(draw, story, finished=False)


@case("queue-worker")
def queue_worker(draw: Draw) -> Cast:
    """It trains or scores what comes into a queue, an hour at a time, and waits for hours in between."""
    story = _loaded(draw)
    regime = story.regime()
    for _ in range(3):
        story.train(regime, 3600 * draw.between(0.4, 1.2))
        story.wait(3600 * draw.scale(0.7, 4), "waiting-for-requests", pod=WAITING)
    return cast(draw, story, finished=False)
