"""A replay as a page that needs nothing but itself: no script, no request; light and dark, on screen and paper."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from stoker.api.duration import format_duration
from stoker.findings.wording import count
from stoker.reclaim import GATES
from stoker.replay import Figures, JobOutcome, ReplaySummary, SimulatedReclaim
from stoker.replay.formats import pictures, words
from stoker.replay.idle_history import LEAST_RESTS, LENGTHS, IdleHistory
from stoker.report import hours
from stoker.report.formats.page_frame import environment, frame

MAX_ROWS = 40
"""Of a table; what gave back less beyond is counted beneath. The JSON has all."""


def render(summary: ReplaySummary, generated_at: datetime) -> str:
    """The page."""
    return _environment().get_template("page.html").render(_context(summary, generated_at))


@cache
def _environment() -> Environment:
    return environment("stoker.replay.formats")


def _context(summary: ReplaySummary, generated_at: datetime) -> dict[str, Any]:
    reclaims = [_reclaim(*pair) for pair in sorted(summary.reclaims, key=lambda pair: -pair[1].given_back)]
    returns = [one.returned_at for _, one in summary.reclaims if one.returned_at is not None]
    ends = Counter(one.outcome for outcome in summary.outcomes for one in outcome.warnings)
    total = summary.total
    return {
        **frame(summary.period, summary.namespaces, generated_at, "stoker.report.formats", "stoker.replay.formats"),
        "headline": words.headline(summary),
        "policies": [f"Policy {one.name}, mode {one.mode}, {count(one.jobs, 'job')}" for one in summary.policies],
        "acts": summary.acts,
        "summary": summary,
        "total": total,
        "ends": [(words.ended(outcome), number) for outcome, number in ends.most_common()],
        "regrets": [_reclaim(*pair) for pair in summary.reclaims if pair[1].is_regret],
        "reclaims": reclaims[:MAX_ROWS],
        "more_reclaims": max(len(reclaims) - MAX_ROWS, 0),
        "held_back": [(words.held_back(line.gate), line) for line in summary.held_back],
        "groups": [
            _group("By namespace", "Namespace", "namespaces", "none", summary.by_namespace),
            _group("By owner", "Owner", "owners", "no owner", summary.by_owner),
            *(
                [_group("By class", "Class", "classes", "no class", summary.by_class)]
                if set(summary.by_class) - {""}
                else []
            ),
        ],
        "histories": [_history(one) for one in summary.idle_histories[:MAX_ROWS]],
        "more_histories": max(len(summary.idle_histories) - MAX_ROWS, 0),
        "lengths": [format_duration(length) for length in LENGTHS],
        "least_rests": LEAST_RESTS,
        "assumed": summary.assumed,
        "gates": GATES,
        "timeline_svg": Markup(pictures.timeline(summary.timeline, returns)),  # noqa: S704 - matplotlib escapes texts
        "timeline_alt": (
            f"GPUs over time, used, idle, given back and unknown: {hours(total.given_back)} of "
            f"{hours(summary.idle)} idle GPU-hours given back; {count(len(returns), 'mark')} where jobs worked again."
        ),
    }


def _reclaim(outcome: JobOutcome, one: SimulatedReclaim) -> dict[str, Any]:
    identity = outcome.identity
    return {
        "name": identity.name,
        "whose": ", ".join(text for text in (identity.namespace, identity.owner) if text),
        "gpus": identity.gpus,
        "idle_since": one.idle_since,
        "at": one.at,
        "given_back": one.given_back,
        "after": words.after(one.returned_at - one.at) if one.returned_at is not None else "",
        "interrupted": one.interrupted,
        "rule": one.rule,
    }


def _history(one: IdleHistory) -> dict[str, Any]:
    proposed = one.proposed_idle_after
    return {
        "job_type": one.job_type,
        "owner": one.owner,
        "jobs": one.jobs,
        "rests": [f"{rest.resumed} of {rest.number}" if rest.number else "-" for rest in one.rests],
        "proposed": "not known" if proposed is None else format_duration(proposed),
    }


def _group(title: str, column: str, key: str, nobody: str, groups: Mapping[str, Figures]) -> dict[str, Any]:
    rows = list(groups.items())
    return {
        "title": title,
        "id": key,
        "column": column,
        "nobody": nobody,
        "rows": rows[:MAX_ROWS],
        "more": max(len(rows) - MAX_ROWS, 0),
    }


__all__ = ["render"]
