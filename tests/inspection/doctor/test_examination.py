"""How checks are made: in order, bounded in time, and without a fault of one becoming the others'."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from jsonschema import Draft202012Validator

from stoker.adapters.kubernetes.client import ForbiddenError
from stoker.adapters.terminal import Terminal
from stoker.findings.vocabulary import UnknownReason
from stoker.inspection.doctor import json as doctor_json
from stoker.inspection.doctor import text
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, Status, failed, ok, warning
from stoker.inspection.doctor.examination import CHECKS, Checked, examine, selected
from stoker.inspection.doctor.scene import Scene
from stoker.telemetry.screen import MetricsUnavailable
from tests.inspection.doctor.test_judgements import NOW
from tests.lint.test_formats import strict

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/doctor-v1.json").read_text())


def check(name: str, found: Outcome | Exception | None, group: Group = Group.OPERATOR, *needs: str) -> Check:
    """A check that ends so; None: never."""

    async def look(_: Scene) -> Outcome:
        if found is None:
            await asyncio.Event().wait()
        if isinstance(found, Exception):
            raise found
        assert found is not None
        return found

    return Check(name=name, group=group, what=f"{name}.", advice=f"Repair {name}.", look=look, needs=needs)


def made(*checks: Check, patience: float = 30.0) -> dict[str, Checked]:
    scene = cast("Scene", None)  # these checks look at nothing
    return {one.check.name: one for one in asyncio.run(examine(scene, checks, patience=patience))}


def test_every_check_has_a_name_of_its_own_and_stands_behind_what_it_needs() -> None:
    names = [one.name for one in CHECKS]
    assert len(set(names)) == len(names)
    for place, one in enumerate(CHECKS):
        assert set(one.needs) <= set(names[:place]), one.name
        assert (one.what[-1], one.advice[-1]) == (".", "."), one.name


def test_a_check_whose_need_is_not_met_is_not_made() -> None:
    found = made(
        check("first", failed("broken")),
        check("second", RuntimeError("must not run"), Group.OPERATOR, "first"),
        check("third", ok("well"), Group.OPERATOR, "second"),
        check("fourth", ok("well")),
    )
    assert [one.outcome.status for one in found.values()] == [
        Status.FAILED, Status.NOT_CHECKED, Status.NOT_CHECKED, Status.OK
    ]  # fmt: skip
    assert found["second"].outcome.found == "it needs first"


@pytest.mark.parametrize(
    "fault, words",
    [
        (NotCheckableError("you may not list nodes"), "you may not list nodes"),
        (ForbiddenError("GET", code=403, reason="Forbidden", answer="User cannot get"), "User cannot get"),
        (ValueError("surprise"), "an internal error in Stoker: ValueError: surprise"),
        (None, "no answer within"),
    ],
)
def test_what_can_not_be_seen_is_not_checked_and_says_why(fault: Exception | None, words: str) -> None:
    found = made(check("one", fault), check("other", ok("well")), patience=0.01 if fault is None else 30)
    assert (found["one"].outcome.status, found["one"].advice) == (Status.NOT_CHECKED, "")
    assert words in found["one"].outcome.found
    assert found["other"].outcome.status is Status.OK


def test_a_server_that_does_not_answer_fails_the_check_that_is_about_it() -> None:
    away = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "it can't be reached")
    found = made(check("prometheus", away, Group.METRICS), check("later", away, Group.METRICS, "prometheus"))
    assert [one.outcome.status for one in found.values()] == [Status.FAILED, Status.NOT_CHECKED]


def test_the_text_says_what_to_do_under_each_check_that_is_not_ok() -> None:
    found = made(
        check("good", ok("well")),
        check("bad", failed("broken")),
        check("doubtful", warning("may break", "Look there."), Group.METRICS),
        check("hidden", NotCheckableError("you may not list nodes"), Group.METRICS),
    )
    assert text.render(list(found.values()), Terminal()).splitlines() == [
        "Operator",
        "  ok: good: well",
        "  failed: bad: broken",
        "      = Repair bad.",
        "",
        "Metrics",
        "  warning: doubtful: may break",
        "      = Look there.",
        "  not checked: hidden: you may not list nodes",
        "",
        "1 ok, 1 warning, 1 failed, 1 not checked.",
    ]


def test_chosen_checks_bring_those_that_they_need() -> None:
    assert selected([]) == CHECKS
    assert [one.name for one in selected(["webhook-answers"])] == ["api-server", "crds", "webhook-answers"]
    with pytest.raises(ValueError, match="'webhok' is no check; there are api-server, "):
        selected(["webhok"])


def test_the_text_obeys_no_escape_of_what_others_wrote() -> None:
    found = made(check("bad", failed("a name \x1b[31m\nof a pod")))
    shown = text.render(list(found.values()), Terminal())
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 5, shown


def test_the_json_is_as_published() -> None:
    found = made(check("good", ok("well")), check("bad", failed("broken")), check("unseen", NotCheckableError("why")))
    document = json.loads(doctor_json.render(list(found.values()), NOW))
    Draft202012Validator(strict(SCHEMA)).validate(document)
    assert [(one["status"], one["advice"]) for one in document["checks"]] == [
        ("Ok", None), ("Failed", "Repair bad."), ("NotChecked", None)
    ]  # fmt: skip
