"""What libraries cost before the first step."""

from simulator.case import Cast, Draw, case, cast, hours
from simulator.job import Story
from stoker.findings.vocabulary import Category


def _after(draw: Draw, story: Story) -> Cast:
    story.boot(draw.scale(10, 60))
    story.load_model(draw.scale(5, 45))
    story.warm_up(draw.scale(10, 60))
    story.train(story.regime(), hours(draw, 0.6, 3))
    return cast(draw, story)


@case("install-wheels", Category.LONG_LIBRARY_INSTALLATION)
def install_wheels(draw: Draw) -> Cast:
    """Pip or conda at the start, dozens of packages into a plain image."""
    story = Story(draw.rng, draw.tuned())
    story.install_wheels(60 * draw.scale(14, 45))
    return _after(draw, story)


@case("install-sources", Category.LONG_LIBRARY_INSTALLATION)
def install_sources(draw: Draw) -> Cast:
    """CUDA extensions compiled at the start, on the cores that the build takes."""
    story = Story(draw.rng, draw.tuned())
    story.install_wheels(60 * draw.scale(2, 6))
    story.compile_libraries(60 * draw.scale(14, 50))
    return _after(draw, story)


@case("install-share", Category.LONG_LIBRARY_INSTALLATION)
def install_share(draw: Draw) -> Cast:
    """A tree of libraries copied from a share, file by file."""
    story = Story(draw.rng, draw.tuned())
    story.copy_libraries(60 * draw.scale(14, 40))
    return _after(draw, story)
