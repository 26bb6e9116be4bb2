"""What a set of verdicts is worth: confusion, F1, findings on healthy jobs, precision where a mistake costs a job."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence

BEYOND = frozenset({Category.STALLED, Category.DUPLICATE_TRAINING, Category.STRAGGLER, Category.STARTUP_HOLD})
STUDY = tuple(category for category in Category if category not in BEYOND)
"""The study's fifteen."""
RECLAIM = (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
"""The causes that a policy may act upon, if they are at least likely."""
NONE, UNDECIDED = "none", "undecided"


class Possible(StrEnum):
    """A way in which findings that are merely possible count, beside those that are at least likely."""

    FOUND = "found"
    """Like the others: by their category, whatever their alternatives."""
    LEFT_OUT = "left out"
    """Not at all: what is read by somebody who looks at likely findings only."""
    CANDIDATES = "candidates"
    """By the true cause if it is their category or one of their alternatives, else by their category: what is read by
    somebody who looks into each of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was said of a job whose causes are known.

    found: the categories of its findings, the most idle GPU-hours first. sure: those that are at least likely.
    possible: of each other finding its category, and its alternatives after it.
    undecided: something was seen that fits several causes, with its candidates. named: every category of a finding or
    of its alternatives. acceptable: of an ambiguous job all causes that its metrics fit, the true one among them.
    """

    case: str
    seed: int
    truth: frozenset[Category]
    found: tuple[Category, ...]
    sure: frozenset[Category] = frozenset()
    possible: tuple[tuple[Category, ...], ...] = ()
    undecided: bool = False
    candidates: frozenset[Category] = frozenset()
    named: frozenset[Category] = frozenset()
    acceptable: frozenset[Category] = frozenset()
    seconds: float = 0.0

    @property
    def leading(self) -> str:
        """The first category found, or why there is none."""
        return self.found[0].value if self.found else UNDECIDED if self.undecided else NONE

    @property
    def right(self) -> bool:
        """All causes found, and nothing else."""
        return frozenset(self.found) == self.truth and not (self.undecided and not self.truth)


def verdict(
    case: str,
    seed: int,
    truth: frozenset[Category],
    findings: Sequence[Finding],
    seconds: float,
    acceptable: frozenset[Category] = frozenset(),
) -> Verdict:
    """Read a diagnosis: a merely possible finding with alternatives names no cause."""
    decided = [one for one in findings if not open_question(one)]
    questions = [one for one in findings if open_question(one)]
    return Verdict(
        case=case,
        seed=seed,
        truth=truth,
        found=tuple(dict.fromkeys(one.category for one in decided)),
        sure=frozenset(one.category for one in decided if one.confidence is not Confidence.POSSIBLE),
        possible=tuple((one.category, *one.alternatives) for one in findings if one.confidence is Confidence.POSSIBLE),
        undecided=bool(questions),
        candidates=frozenset(c for one in questions for c in (one.category, *one.alternatives)),
        named=frozenset(c for one in findings for c in (one.category, *one.alternatives)),
        acceptable=acceptable,
        seconds=seconds,
    )


def read_as(one: Verdict, way: Possible) -> Verdict:
    """The verdict with its possible findings counted in that way."""
    said = list(one.sure)
    for candidates in one.possible:
        if way is Possible.FOUND:
            said.append(candidates[0])
        elif way is Possible.CANDIDATES:
            said.append(next((category for category in candidates if category in one.truth), candidates[0]))
    return replace(one, found=tuple(dict.fromkeys(said)))


def open_question(finding: Finding) -> bool:
    """Whether the finding leaves the cause undecided."""
    return finding.confidence is Confidence.POSSIBLE and bool(finding.alternatives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Of one category, over all jobs: counts, and what follows. A ratio without a case is None."""

    hits: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        return _ratio(self.hits, self.hits + self.wrong)

    @property
    def recall(self) -> float | None:
        return _ratio(self.hits, self.hits + self.missed)

    @property
    def f1(self) -> float | None:
        return _ratio(2 * self.hits, 2 * self.hits + self.wrong + self.missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What follows if possible findings count in one way. macro_f1: over those of the study's fifteen that occur.
    healthy_found: jobs without a cause that have a finding then.
    """

    macro_f1: float | None
    healthy_found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The recall of a cause in each of the mechanisms that have it: how many these are, and the recall of the worst, of
    the one in the middle and of the best.
    """

    mechanisms: int
    worst: float
    middle: float
    best: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of a tier's verdicts. Shares are 0..1; None where there was nothing to count.

    confusion: of jobs with one cause or none, how often (truth, leading category). macro_f1: over those of the study's
    fifteen that occur. healthy: jobs without a cause, and how many of them got a finding, or a question.
    reclaim_precision: of the findings that are at least likely. both, one: shares of the jobs with two causes.
    undecided: share of the jobs with a cause that got a question and no finding.
    true_among_candidates: share of these with a true cause among the candidates.
    ambiguous: jobs with a label of several acceptable causes, which count here and in reclaim_precision alone;
    ambiguous_named: share of them with the true cause among findings and alternatives; ambiguous_wrong: share of them
    with a cause found that is not acceptable.
    readings: the same jobs with possible findings counted in each way. by_mechanism: of each cause that occurs.
    """

    jobs: int
    confusion: Counter[tuple[str, str]]
    measures: dict[Category, Measure]
    macro_f1: float | None
    macro_f1_all: float | None
    healthy: int
    healthy_found: int
    healthy_questioned: int
    reclaim_precision: dict[Category, float | None]
    pairs: int
    both: float | None
    one: float | None
    undecided: float | None
    true_among_candidates: float | None
    ambiguous: int
    ambiguous_named: float | None
    ambiguous_wrong: float | None
    readings: dict[Possible, Reading]
    by_mechanism: dict[Category, Spread]
    seconds: float


def score(verdicts: Iterable[Verdict]) -> Score:
    """Count."""
    judged = list(verdicts)
    every = [one for one in judged if not one.acceptable]
    ambiguous = [one for one in judged if one.acceptable]
    single = [one for one in every if len(one.truth) <= 1]
    pairs = [one for one in every if len(one.truth) > 1]
    healthy = [one for one in every if not one.truth]
    caused = [one for one in every if one.truth]
    open_ended = [one for one in caused if one.undecided and not one.found]
    measures = {category: _measure(category, every) for category in Category}
    return Score(
        jobs=len(judged),
        confusion=Counter((next((c.value for c in one.truth), NONE), one.leading) for one in single),
        measures=measures,
        macro_f1=_macro(measures, STUDY, every),
        macro_f1_all=_macro(measures, tuple(Category), every),
        healthy=len(healthy),
        healthy_found=sum(bool(one.found) for one in healthy),
        healthy_questioned=sum(one.undecided and not one.found for one in healthy),
        reclaim_precision={category: _sure_precision(category, judged) for category in RECLAIM},
        pairs=len(pairs),
        both=_ratio(sum(one.truth <= set(one.found) for one in pairs), len(pairs)),
        one=_ratio(sum(len(one.truth & set(one.found)) == 1 for one in pairs), len(pairs)),
        undecided=_ratio(len(open_ended), len(caused)),
        true_among_candidates=_ratio(sum(bool(one.truth & one.candidates) for one in open_ended), len(open_ended)),
        ambiguous=len(ambiguous),
        ambiguous_named=_ratio(sum(bool(one.truth & one.named) for one in ambiguous), len(ambiguous)),
        ambiguous_wrong=_ratio(sum(not one.acceptable.issuperset(one.found) for one in ambiguous), len(ambiguous)),
        readings={way: _reading([read_as(one, way) for one in every]) for way in Possible},
        by_mechanism={category: spread for category in Category if (spread := _spread(category, every)) is not None},
        seconds=sum(one.seconds for one in judged),
    )


def _reading(verdicts: Sequence[Verdict]) -> Reading:
    measures = {category: _measure(category, verdicts) for category in STUDY}
    return Reading(
        macro_f1=_macro(measures, STUDY, verdicts),
        healthy_found=sum(bool(one.found) for one in verdicts if not one.truth),
    )


def _spread(category: Category, verdicts: Sequence[Verdict]) -> Spread | None:
    cases: dict[str, list[bool]] = defaultdict(list)
    for one in verdicts:
        if category in one.truth:
            cases[one.case].append(category in one.found)
    recalls = [sum(found) / len(found) for found in cases.values()]
    if not recalls:
        return None
    return Spread(mechanisms=len(recalls), worst=min(recalls), middle=median(recalls), best=max(recalls))


def _measure(category: Category, verdicts: Sequence[Verdict]) -> Measure:
    return Measure(
        hits=sum(category in one.found and category in one.truth for one in verdicts),
        wrong=sum(category in one.found and category not in one.truth for one in verdicts),
        missed=sum(category not in one.found and category in one.truth for one in verdicts),
    )


def _macro(
    measures: dict[Category, Measure], categories: Sequence[Category], verdicts: Sequence[Verdict]
) -> float | None:
    occurring = [c for c in categories if any(c in one.truth for one in verdicts)]
    values = [value for c in occurring if (value := measures[c].f1) is not None]
    return sum(values) / len(values) if values else None


def _sure_precision(category: Category, verdicts: Sequence[Verdict]) -> float | None:
    sure = [one for one in verdicts if category in one.sure]
    return _ratio(sum(category in one.truth | one.acceptable for one in sure), len(sure))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
