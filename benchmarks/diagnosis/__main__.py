"""How often `diagnose` names the right cause of simulated jobs.

    python -m benchmarks.diagnosis                                     # all tiers, the tuning seeds
    python -m benchmarks.diagnosis --seeds reporting --format json     # the figures of docs/accuracy.md
    python -m benchmarks.diagnosis --tier defaults --seeds 1000..1003 --show checkpoint-remote

    python -m benchmarks.diagnosis --seeds reporting --unseen          # mechanisms that nobody has tuned on
    python -m benchmarks.diagnosis --world b --seeds reporting         # another simulator (docs/accuracy-worlds.md)

Thresholds are tuned on the tuning seeds only, and accuracy is reported on the others. Failing cases are named for
tuning seeds only.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from multiprocessing import Pool
from typing import Any

from benchmarks.diagnosis.score import NONE, RECLAIM, STUDY, UNDECIDED, Possible, Score, Spread, Verdict, score, verdict
from benchmarks.diagnosis.worlds import WORLDS
from simulator import CASES, Tier, record, simulate
from stoker.diagnosis.job import diagnose
from stoker.findings.vocabulary import Category
from stoker.policy.effective import BUILT_IN

SHORT = {category: "".join(letter for letter in category.value if letter.isupper()) for category in Category}


def seeds(text: str, world: str = "a") -> range:
    """`tuning`, `reporting`, `7`, or `1000..1005` (both ends included)."""
    if text == "reporting":
        return WORLDS[world].reporting
    if text == "tuning":
        return WORLDS[world].tuning
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither tuning, reporting, nor a range like 1000..1005"
        ) from None


def judge(tiers: Sequence[Tier], job: tuple[str, int], world: str = "a") -> list[Verdict]:
    """Simulate one job, record and diagnose it with each tier's metrics; only the diagnosis is timed."""
    case, seed = job
    played = WORLDS[world].play(case, seed)
    found = []
    for tier in tiers:
        facts, series, now = played.recorded(tier)
        began = time.process_time()
        diagnosis = diagnose(facts, series, played.static_findings, BUILT_IN.thresholds, now)
        seconds = time.process_time() - began
        found.append(verdict(case, seed, played.truth, diagnosis.findings, seconds, played.acceptable))
    return found


def show(tier: Tier, case: str, chosen: range) -> None:
    """Everything that was said of each job of a case, beside what it does."""
    print(f"{case}, {tier.value}: {CASES[case].about}")
    print(f"  truth: {', '.join(sorted(CASES[case].truth)) or NONE}")
    for seed in chosen:
        job = simulate(case, seed)
        facts, series, now = record(job, tier)
        diagnosis = diagnose(facts, series, job.static_findings, BUILT_IN.thresholds, now)
        seen = verdict(case, seed, job.truth, diagnosis.findings, 0.0)
        total = sum(job.activities.values()) or 1.0
        did = sorted(job.activities.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{kind} {part / total:.0%}" for kind, part in did if part / total >= 0.01)
        model = job.pods[0].model.name if job.pods else "no pod started"
        use = diagnosis.utilization.average_percent if diagnosis.utilization else None
        print(f"\n{'  ' if seen.right else 'X '}seed {seed}: {facts.nodes}x{facts.gpus_per_node} {model}, ", end="")
        print(
            f"{job.life / 3600:.1f} h, truly {job.utilization:.1f} %, measured {'?' if use is None else f'{use:.1f} %'}"
        )
        print(f"    does: {shares}")
        for finding in diagnosis.findings:
            others = f" (or {', '.join(finding.alternatives)})" if finding.alternatives else ""
            print(
                f"    {finding.category.value} [{finding.rule}, {finding.confidence.value}]{others}: {finding.detail}"
            )
            print(f"        {finding.evidence}")
        for advice in diagnosis.advice:
            print(f"    advice {advice.rule}: {advice.detail}")


def text(tier: Tier, verdicts: Sequence[Verdict], found: Score) -> Iterator[str]:
    """The report of a tier, line by line; without verdicts, it names no cases."""
    yield f"== {tier.value}: {found.jobs} jobs"
    yield from _confusion(found)
    yield ""
    yield "category                     precision  recall     F1    jobs"
    for category in Category:
        measure = found.measures[category]
        jobs = measure.hits + measure.missed
        if jobs or measure.wrong:
            values = f"{_percent(measure.precision):>9}  {_percent(measure.recall):>6}  {_percent(measure.f1):>5}"
            yield f"{category.value:<28} {values}  {jobs:>6}"
    yield ""
    yield f"macro-F1, the study's fifteen: {_percent(found.macro_f1)}; all nineteen: {_percent(found.macro_f1_all)}"
    yield (
        f"healthy jobs with a finding: {found.healthy_found} of {found.healthy}; "
        f"with an open question only: {found.healthy_questioned}"
    )
    for category in RECLAIM:
        yield f"precision of {category.value}, at least likely: {_percent(found.reclaim_precision[category])}"
    yield f"of {found.pairs} pairs, both causes found: {_percent(found.both)}; one of them: {_percent(found.one)}"
    yield (
        f"jobs with a cause left undecided: {_percent(found.undecided)}; "
        f"a true cause among the candidates: {_percent(found.true_among_candidates)}"
    )
    if found.ambiguous:
        yield (
            f"of {found.ambiguous} ambiguous jobs, the true cause among findings and alternatives: "
            f"{_percent(found.ambiguous_named)}; "
            f"a cause found that is not acceptable: {_percent(found.ambiguous_wrong)}"
        )
    ways = (f"{way.value} {_percent(reading.macro_f1)}" for way, reading in found.readings.items())
    yield f"macro-F1, the study's fifteen, with possible findings counted as: {', '.join(ways)}"
    yield ""
    yield "recall by mechanism          worst  middle   best  mechanisms"
    for category, spread in found.by_mechanism.items():
        values = f"{_percent(spread.worst):>5}  {_percent(spread.middle):>6}  {_percent(spread.best):>5}"
        yield f"{category.value:<28} {values}  {spread.mechanisms:>10}"
    yield ""
    yield f"diagnosing took {found.seconds:.1f} s of CPU, {found.seconds / found.jobs * 1000:.0f} ms a job"
    yield ""
    if not verdicts:
        return
    yield "cases that fail (right of all: what was said instead)"
    by_case: dict[str, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        by_case[one.case].append(one)
    for case, members in sorted(by_case.items(), key=lambda item: sum(one.right for one in item[1]) / len(item[1])):
        if wrong := [one for one in members if not one.right]:
            said = Counter(_answer_text(one) for one in wrong).most_common(4)
            instead = "; ".join(f"{count}x {words}" for words, count in said)
            yield f"  {case:<30} {len(members) - len(wrong):>3} of {len(members)}: {instead}"
    yield ""


def markdown(scores: Mapping[Tier, Score]) -> Iterator[str]:
    """The tables of docs/accuracy.md: a column for each tier."""

    def row(name: str, value: Callable[[Score], str]) -> str:
        return f"| {name} | " + " | ".join(value(one) for one in scores.values()) + " |"

    head = "| " + " | ".join(tier.value for tier in scores) + " |\n|---|" + "---|" * len(scores)
    yield "| " + head
    yield row("jobs", lambda one: str(one.jobs))
    yield row("macro-F1, the study's fifteen", lambda one: _percent(one.macro_f1))
    yield row("macro-F1, all nineteen", lambda one: _percent(one.macro_f1_all))
    yield row("healthy jobs with a finding", lambda one: f"{one.healthy_found} of {one.healthy}")
    yield row("healthy jobs with an open question only", lambda one: f"{one.healthy_questioned} of {one.healthy}")
    for category in RECLAIM:
        shares = (_percent(one.reclaim_precision[category]) for one in scores.values())
        yield f"| precision of {category.value}, at least likely | {' | '.join(shares)} |"
    if any(one.pairs for one in scores.values()):
        yield row("pairs, both causes found", lambda one: _percent(one.both))
        yield row("pairs, one of them found", lambda one: _percent(one.one))
    yield row("left undecided", lambda one: _percent(one.undecided))
    yield row("of these with a true candidate", lambda one: _percent(one.true_among_candidates))
    if any(one.ambiguous for one in scores.values()):
        yield row("ambiguous jobs", lambda one: str(one.ambiguous))
        yield row("of these, the true cause among findings and alternatives", lambda one: _percent(one.ambiguous_named))
        yield row("of these, a cause found that is not acceptable", lambda one: _percent(one.ambiguous_wrong))
    for way in Possible:
        yield row(f"macro-F1 of the fifteen, possible findings as: {way.value}", partial(_macro_read_as, way))
        yield row(f"healthy jobs with a finding, possible ones as: {way.value}", partial(_healthy_read_as, way))
    yield row("ms of CPU a diagnosis", lambda one: f"{one.seconds / one.jobs * 1000:.0f}")
    yield ""
    yield "Precision / recall in percent:"
    yield ""
    yield "| category " + head
    for category in Category:
        measures = [one.measures[category] for one in scores.values()]
        if any(measure.hits + measure.missed + measure.wrong for measure in measures):
            values = " | ".join(f"{_percent(m.precision)} / {_percent(m.recall)}" for m in measures)
            yield f"| {category.value} | {values} |"
    yield ""
    yield "Recall of the worst / the middle / the best mechanism, in percent:"
    yield ""
    yield "| category (mechanisms) " + head
    for category in Category:
        spreads = [one.by_mechanism.get(category) for one in scores.values()]
        if (some := next(filter(None, spreads), None)) is not None:
            yield f"| {category.value} ({some.mechanisms}) | {' | '.join(map(_spread_text, spreads))} |"


def _macro_read_as(way: Possible, found: Score) -> str:
    return _percent(found.readings[way].macro_f1)


def _healthy_read_as(way: Possible, found: Score) -> str:
    return f"{found.readings[way].healthy_found} of {found.healthy}"


def _spread_text(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{_percent(spread.worst)} / {_percent(spread.middle)} / {_percent(spread.best)}"


def _answer_text(one: Verdict) -> str:
    words = [category.value for category in one.found]
    return " + ".join(words + ([UNDECIDED] if one.undecided else [])) or NONE


def _confusion(found: Score) -> Iterator[str]:
    columns = [*(c.value for c in Category if any(said == c.value for _, said in found.confusion)), NONE, UNDECIDED]
    names = {category.value: short for category, short in SHORT.items()} | {NONE: "none", UNDECIDED: "undec"}
    yield "truth \\ leading finding       " + " ".join(f"{names[column]:>5}" for column in columns)
    for row in [*(c.value for c in Category), NONE]:
        counts = [found.confusion[row, column] for column in columns]
        if any(counts):
            yield f"{row:<29} " + " ".join(f"{count or '.':>5}" for count in counts)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def as_json(tier: Tier, chosen: range, found: Score, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The same figures for machines: shares are 0..1, null where there was nothing to count. Without verdicts, no case
    is named.
    """
    return {
        "tier": tier.value,
        "seeds": [chosen.start, chosen.stop - 1],
        "jobs": found.jobs,
        "macroF1": found.macro_f1,
        "macroF1All": found.macro_f1_all,
        "healthy": {"jobs": found.healthy, "found": found.healthy_found, "questioned": found.healthy_questioned},
        "reclaimPrecision": {category.value: share for category, share in found.reclaim_precision.items()},
        "pairs": {"jobs": found.pairs, "both": found.both, "one": found.one},
        "undecided": found.undecided,
        "trueAmongCandidates": found.true_among_candidates,
        "ambiguous": {"jobs": found.ambiguous, "named": found.ambiguous_named, "wrong": found.ambiguous_wrong},
        "possible": {
            way.value: {"macroF1": reading.macro_f1, "healthyFound": reading.healthy_found}
            for way, reading in found.readings.items()
        },
        "recallByMechanism": {category.value: asdict(spread) for category, spread in found.by_mechanism.items()},
        "secondsPerJob": found.seconds / found.jobs,
        "categories": {
            category.value: asdict(measure) | {"f1": measure.f1, "study": category in STUDY}
            for category, measure in found.measures.items()
        },
        "confusion": [
            {"truth": truth, "leading": leading, "jobs": count}
            for (truth, leading), count in sorted(found.confusion.items())
        ],
        "wrong": [
            {"case": one.case, "seed": one.seed, "found": list(one.found), "undecided": one.undecided}
            for one in verdicts
            if not one.right
        ],
    }


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", type=Tier, choices=list(Tier), action="append", help="all by default")
    parser.add_argument("--world", choices=sorted(WORLDS), default="a", help="the simulator: a (default) or b")
    parser.add_argument("--seeds", default="tuning", help="tuning (default), reporting, or a range a..b")
    parser.add_argument("--case", choices=sorted(CASES), action="append", help="only these cases")
    parser.add_argument(
        "--unseen", action="store_true", help="the mechanisms kept for reporting, instead of all others"
    )
    parser.add_argument("--show", choices=sorted(CASES), metavar="CASE", help="all that is said of a case's jobs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--format", choices=["text", "json", "markdown"], default="text")
    options = parser.parse_args()
    tiers = options.tier or list(Tier)
    world = WORLDS[options.world]
    try:
        chosen = seeds(options.seeds, options.world)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --seeds: {error}")
    if options.world != "a" and (options.show or options.case or options.unseen):
        parser.error("--show, --case and --unseen go with --world a")
    if options.show:
        for tier in tiers:
            show(tier, options.show, chosen)
        return
    if options.unseen and chosen != world.reporting:
        parser.error("--unseen goes with --seeds reporting: what is seen while tuning is no longer unseen")
    cases: Sequence[str] = world.cases
    if options.world == "a":
        cases = options.case or [name for name, one in CASES.items() if one.unseen is options.unseen]
    work = [(case, seed) for case in cases for seed in chosen]
    documents, scores = [], {}
    with Pool(options.jobs) as pool:
        judged = pool.map(partial(judge, tiers, world=options.world), work, chunksize=8)
    for tier, verdicts in zip(tiers, zip(*judged, strict=True), strict=True):
        found = scores[tier] = score(verdicts)
        shown = [] if chosen == world.reporting else verdicts
        if options.format == "json":
            documents.append(as_json(tier, chosen, found, shown))
        elif options.format == "text":
            print("\n".join(text(tier, shown, found)))
    if options.format == "markdown":
        print("\n".join(markdown(scores)))
    if options.format == "json":
        json.dump(documents, sys.stdout, indent=2)
        print()


if __name__ == "__main__":
    main()
