"""The statement as a page that needs nothing but itself: no script, no request; light and dark, on screen and paper."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.findings.vocabulary import Stage
from stoker.report import Account, Dimension, Row, Statement, hours
from stoker.report.formats import pictures, words
from stoker.report.formats.json import GROUPS
from stoker.report.formats.page_frame import environment, frame
from stoker.telemetry.usage import Cause

MAX_ROWS = 40
"""Of a table by team, user or namespace; the smallest losses beyond are summed up beneath."""
MAX_BARS = 10

STAGES = {
    Stage.INITIALIZATION: "before the first work on the GPU",
    Stage.PREPROCESSING: "data preparation before training",
    Stage.ACTIVE: "training or evaluation (not distinguishable)",
    Stage.TRAINING: "training",
    Stage.EVALUATION: "evaluation",
    Stage.TAIL: "after the last work on the GPU",
}

TITLES = {
    Dimension.TEAM: ("By team", "Team", "no team"),
    Dimension.OWNER: ("By user", "User", "no owner"),
    Dimension.NAMESPACE: ("By namespace", "Namespace", "no namespace"),
    Dimension.PRODUCT: ("By GPU", "Product", "none requested"),
}
LABELS = {Dimension.TEAM: TEAM_LABEL, Dimension.OWNER: OWNER_LABEL}
NEGLIGIBLE = 0.005
"""Of the lost GPU-hours: a smaller part that belongs to no stage is not mentioned."""
PICTURED = frozenset({Dimension.TEAM})


def render(statement: Statement, generated_at: datetime, *, rule_fixes: Mapping[str, str]) -> str:
    """The page. `rule_fixes` are the rules' general changes, by the rule's name."""
    return _environment().get_template("page.html").render(_context(statement, generated_at, rule_fixes))


@cache
def _environment() -> Environment:
    return environment(
        "stoker.report.formats", change=words.change, spoken=words.spoken, plain=words.CAUSES.__getitem__
    )


def _context(statement: Statement, generated_at: datetime, rule_fixes: Mapping[str, str]) -> dict[str, Any]:
    top = statement.top()
    return {
        **frame(statement.period, statement.namespaces, generated_at, "stoker.report.formats"),
        "headline": words.headline(statement.total),
        "total": statement.total,
        "before": statement.before,
        "trend_words": _trend_words,
        "timeline": statement.timeline,
        "causes": statement.causes,
        "causes_before": any(line.before is not None for line in statement.causes),
        "causes_sentence": _causes_sentence(statement),
        "unexplained": statement.unexplained,
        "rule_fixes": rule_fixes,
        "top": [_job(statement, job) for job in top],
        "more_jobs": _more(len(statement.jobs) - len(top), "job"),
        "groups": [_group(statement, dimension) for dimension in TITLES],
        "stages": [
            *((words.stage(stage), STAGES[stage], value) for stage, value in statement.stages.items()),
            ("Not known", "not recorded", statement.unstaged),
        ],
        "assumed": statement.assumed,
        **(_pictures(statement) if statement.total.requested > 0 else {}),
    }


def _causes_sentence(statement: Statement) -> str:
    """How much of the loss has a name, and the greatest of them."""
    first = statement.causes[0] if statement.causes else None
    if first is None:
        return "No finding explains the lost GPU-hours."
    known = words.share(statement.explained, statement.total.lost)
    return (
        f"{known} of the {hours(statement.total.lost)} lost GPU-hours have a known cause. The largest is "
        f"{first.category} ({words.CAUSES[first.category]}): {hours(first.lost)} GPU-hours."
    )


def _trend_words(now: float, before: float) -> str:
    text = words.change(now, before)
    return f"{text} ({hours(before)} before)" if text not in {"", "new"} else "none before"


def _pictures(statement: Statement) -> dict[str, Any]:
    total, lost = statement.total, statement.total.lost
    unstaged = statement.unstaged > NEGLIGIBLE * lost
    bars = [
        *(
            pictures.Bar(name=words.spoken(line.category), value=line.lost, before=line.before)
            for line in statement.causes
        ),
        pictures.Bar(name="No finding", value=statement.unexplained, colour="unexplained"),
    ]
    stages = [
        *(pictures.Bar(name=words.stage(stage), value=value) for stage, value in statement.stages.items()),
        *([pictures.Bar(name="Not known", value=statement.unstaged, colour="unexplained")] if unstaged else []),
    ]
    worst = max(statement.timeline, key=lambda part: part[1].lost)
    return {
        "timeline_svg": Markup(pictures.timeline(statement.timeline)),  # noqa: S704 - matplotlib escapes texts
        "timeline_alt": f"Columns of used, lost and unknown GPUs over time: {words.share(total.used, total.requested)} "
        f"used, {words.share(total.lost, total.requested)} lost; most was lost from "
        f"{words.day_time(worst[0].start)} on, {hours(worst[1].lost)} GPU-hours.",
        "causes_svg": Markup(pictures.bars(bars, salt="causes")),  # noqa: S704 - as above
        "causes_alt": "Bars of lost GPU-hours: " + _figures_text((bar.name, bar.value) for bar in bars),
        "stages_svg": Markup(pictures.bars(stages, salt="stages")) if statement.stages else None,  # noqa: S704 - as above
        "stages_alt": "Bars of lost GPU-hours: " + _figures_text((bar.name, bar.value) for bar in stages)
        if lost
        else "",
    }


def _figures_text(figures: Iterable[tuple[str, float]]) -> str:
    return "; ".join(f"{name} {hours(value)}" for name, value in figures) + "."


def _job(statement: Statement, job: Account) -> dict[str, Any]:
    one = job.identity
    whose = [one.namespace, *([f"team {one.team}"] if one.team else []), *([one.owner] if one.owner else [])]
    causes = sorted(job.causes.items(), key=lambda item: (-item[1], item[0]))
    return {
        "name": one.name or "pods without a DLJob",
        "whose": " \N{MIDDLE DOT} ".join(whose),
        "gpus": one.gpus or "",
        "balance": job.balance,
        "causes": [_cause(statement, job, cause, lost) for cause, lost in causes],
        "unmeasured": statement.unmeasured(job),
    }


def _cause(statement: Statement, job: Account, cause: Cause, lost: float) -> dict[str, Any]:
    return {"category": cause.category, "lost": lost, "fix": statement.fix(job, cause.rule)}


def _group(statement: Statement, dimension: Dimension) -> dict[str, Any]:
    title, column, nobody = TITLES[dimension]
    rows = statement.groups[dimension]
    shown = rows[:MAX_ROWS]
    pictured = dimension in PICTURED and len(rows) > 1
    drawn = [(row.value or nobody, row.balance) for row in rows[:MAX_BARS]]
    return {
        "id": f"by-{dimension}",
        "key": GROUPS[dimension],
        "title": title,
        "column": column,
        "nobody": nobody,
        "rows": shown,
        "hint": _hint(dimension, rows),
        "more": _beyond(rows[MAX_ROWS:], column.lower()),
        "svg": Markup(pictures.balances(drawn, salt=dimension)) if pictured else None,  # noqa: S704 - as above
        "alt": "Bars of GPU-hours, of which lost: " + _figures_text((name, balance.lost) for name, balance in drawn),
        "caption": f"Used, lost and unknown GPU-hours{_drawn(len(rows), column.lower())}.",
    }


def _hint(dimension: Dimension, rows: Sequence[Row]) -> str:
    """How to have more in the table, where nothing is in it."""
    if dimension not in LABELS or any(row.value for row in rows):
        return ""
    return f"Jobs with the label {LABELS[dimension]} are listed separately."


def _drawn(number: int, what: str) -> str:
    return f" of the {MAX_BARS} {what}s that lost most" if number > MAX_BARS else ""


def _beyond(rows: Sequence[Row], what: str) -> str:
    if not rows:
        return ""
    lost = sum(row.balance.lost for row in rows)
    return f"{len(rows)} more {what}s lost {hours(lost)} GPU-hours together. The CSV and JSON reports have all of them."


def _more(number: int, what: str) -> str:
    return f"{number:,} more {what}{'' if number == 1 else 's'} held GPUs in this time." if number > 0 else ""


__all__ = ["render"]
