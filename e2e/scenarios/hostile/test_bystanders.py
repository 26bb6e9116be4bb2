"""Hundreds of hostile objects on a real control plane, beside jobs of others to which nothing happens because of them.

No test here asserts a time: the seconds that bystanders waited are printed, and stand in docs/security.md.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.hostile.objects import hostile_objects
from e2e.operator import ADMISSION, CONTROLLER
from e2e.scenarios.hostile.beside import ALONE, Trial, groups
from e2e.scenarios.hostile.conftest import tried

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def beset(start_cluster: StartCluster, report: Callable[[str], object]) -> Iterator[Trial]:
    """Bystanders alone, then beside all hostile objects at once."""
    with tried(start_cluster, {ALONE: (), "beset": groups(hostile_objects())}, report) as trial:
        yield trial


def test_bystanders_are_told_the_same_and_treated_alike(beset: Trial) -> None:
    """Refused, warned, reclaimed and resumed as if nobody else were there."""
    alone = beset.results[ALONE].answers
    assert alone.states == ("Warned", "Reclaiming", "Reclaimed")
    assert alone.worker_states == frozenset()
    assert "launcher-too-many" in alone.refusal
    assert {name: result.answers for name, result in beset.results.items()} == dict.fromkeys(beset.results, alone)


def test_every_hostile_write_is_answered_by_a_verdict_or_by_the_api_server(beset: Trial) -> None:
    """None is answered by a failure of the webhook (500 and above)."""
    assert len(beset.answers) > 300
    assert {name: status for name, status in beset.answers.items() if status >= 500} == {}


def test_neither_process_ends_or_fails_in_a_look_at_the_metrics(beset: Trial) -> None:
    cluster, operator = beset.cluster, beset.operator
    assert cluster.running(ADMISSION)
    assert cluster.running(CONTROLLER)
    assert operator.metric("stoker_scan_ticks_total", process=CONTROLLER, result="failed") == 0
    assert operator.metric("stoker_scan_ticks_total", process=CONTROLLER, result="done") > 0


def test_no_class_of_hostile_objects_changes_what_bystanders_are_told(
    start_cluster: StartCluster, report: Callable[[str], object]
) -> None:
    """One class after the other, each beside bystanders of its own; the seconds are printed by class."""
    classes = groups(hostile_objects())
    with tried(start_cluster, {ALONE: (), **{_slug(one): (one,) for one in classes}}, report) as trial:
        alone = trial.results[ALONE].answers
        assert {name: result.answers for name, result in trial.results.items()} == dict.fromkeys(trial.results, alone)


def _slug(group: str) -> str:
    return group.lower().replace(",", "").replace(" ", "-")
