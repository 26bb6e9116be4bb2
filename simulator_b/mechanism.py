"""The register of mechanisms: what each does, and what causes whoever sees its telemetry may name."""

from collections.abc import Callable
from dataclasses import dataclass

from simulator_b.draft import Draft
from stoker.findings.vocabulary import Category

Write = Callable[[Draft], None]
COMMON = ("T4", "V100", "A10", "A100", "L40S", "H100", "H200")
LARGE = ("A100", "H100", "H200")
SMALL_JOBS = ((1, 1), (1, 1), (1, 2), (1, 4))
NODE_JOBS = ((1, 2), (1, 4), (1, 8))
SPREAD_JOBS = ((2, 4), (2, 8), (4, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A way in which a job comes to use its GPUs as it does.

    truth: its causes; none for a healthy job. acceptable: for an ambiguous job all causes that its telemetry fits,
    the true one among them, for no metric of any tier tells them apart; else empty. low: its utilization must be at
    most 50 %, which made a job a subject of the study.
    """

    name: str
    about: str
    write: Write
    truth: frozenset[Category]
    acceptable: frozenset[Category]
    cards: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    low: bool


MECHANISMS: dict[str, Mechanism] = {}


def mechanism(
    *truth: Category,
    or_else: tuple[Category, ...] = (),
    cards: tuple[str, ...] = COMMON,
    shapes: tuple[tuple[int, int], ...] = SMALL_JOBS,
    low: bool | None = None,
) -> Callable[[Write], Write]:
    """Register a function under its name, with hyphens. `or_else` are the causes that it cannot be told from."""

    def register(write: Write) -> Write:
        name = write.__name__.replace("_", "-")
        if name in MECHANISMS:
            raise ValueError(f"two mechanisms are called {name}")
        MECHANISMS[name] = Mechanism(
            name=name,
            about=(write.__doc__ or "").strip(),
            write=write,
            truth=frozenset(truth),
            acceptable=frozenset((*truth, *or_else)) if or_else else frozenset(),
            cards=cards,
            shapes=shapes,
            low=bool(truth) if low is None else low,
        )
        return write

    return register
