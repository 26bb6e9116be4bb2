"""The reviewing by hand: what to look at, and what was seen.

reviewed.yaml has one entry for each finding that somebody read beside its script: right, wrong or arguable, and why.
"""

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import yaml

from benchmarks.corpus.run import Found, corpus, kept

REVIEWED = Path(__file__).with_name("reviewed.yaml")
SEED = 20261121
SAMPLE = 100
VERDICTS = ("right", "arguable", "wrong")


def sample() -> str:
    """Keys of the findings to review: every denial, and others, spread evenly over the rules."""
    denied = [found for found in kept() if found.action == "deny"]
    queues: dict[str, list[Found]] = defaultdict(list)
    for found in kept():
        if found.action != "deny":
            queues[found.rule].append(found)
    generator = random.Random(SEED)
    for queue in queues.values():
        generator.shuffle(queue)
    chosen: list[Found] = []
    while len(chosen) < SAMPLE and any(queues.values()):
        for queue in queues.values():
            if queue and len(chosen) < SAMPLE:
                chosen.append(queue.pop())
    return "\n".join(f"{found.action:5} {found.key}: {found.detail}" for found in [*denied, *chosen])


def show(key: str) -> str:
    """The script of a finding, its lines numbered, and what was found there."""
    package, _, rest = key.split(" ", 2)
    path, gpus, *_ = rest.rsplit(" ", 3)
    script = next(one for one in corpus(package) if one.path == path).manifest["spec"]
    head = {field: value for field, value in script.items() if field != "script"}
    lines = [f"{number:4} {line}" for number, line in enumerate(script.get("script", "").split("\n"), 1)]
    found = [
        f"{one.action} {one.rule} line {one.line}: {one.detail}"
        for one in kept()
        if (one.path, one.gpus) == (path, int(gpus))
    ]
    return "\n".join([str(head), *lines, *found])


def precision() -> str:
    """Right, arguable and wrong by rule, as Markdown: all that were read, and those that the last run still finds."""
    entries = yaml.safe_load(REVIEWED.read_text())
    now = {found.key for found in kept()}
    left = [entry for entry in entries if _key(entry) in now]
    gone = [entry for entry in entries if _key(entry) not in now and entry["verdict"] == "right"]
    lines = ["As they were read:", "", _table(entries), "", "As the last run still finds them:", "", _table(left)]
    return "\n".join([*lines, "", f"Right ones that it finds no more: {len(gone)}", *map(_key, gone)])


def _key(entry: dict[str, Any]) -> str:
    return " ".join(str(entry[field]) for field in ("package", "version", "path", "gpus", "rule", "line"))


def _table(entries: list[dict[str, Any]]) -> str:
    """Arguable ones count as half."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if entry["verdict"] not in VERDICTS:
            raise ValueError(f"{entry}: the verdict is one of {', '.join(VERDICTS)}")
        counts[entry["rule"]][entry["verdict"]] += 1
    rows = [_row(rule, of) for rule, of in sorted(counts.items())]
    total: Counter[str] = sum(counts.values(), Counter())
    return "\n".join(
        ["| rule | right | arguable | wrong | precision |", "|---|---|---|---|---|", *rows, _row("all", total)]
    )


def _row(rule: str, of: Counter[str]) -> str:
    share = (of["right"] + of["arguable"] / 2) / of.total()
    return f"| {rule} | {of['right']} | {of['arguable']} | {of['wrong']} | {share:.0%} |"
