"""The tenth invariant. The controller killed with -9 at randomly chosen points, and two of them at once while the lease
goes from one to the other: nothing forgotten, doubled or early.

Every failure shows the seed; `STOKER_SEED=...` repeats its choices.
"""

import signal
from collections.abc import Iterator

import pytest

from e2e.change_recorder import DLJOB, JOB
from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import CONTROLLER
from e2e.scenarios.reclaim.crashing import DUE, KILLS, LATE, RESUMED, SETTINGS, Population, populated
from e2e.scenarios.reclaim.idling import happened, time_of

MANY = 100
SECOND = "stoker-controller-2"
GRACES = tuple(60 + 20 * (number // 4) for number in range(80))
"""Four jobs are due at a time, over ten minutes."""


@pytest.fixture(scope="module")
def crashed(start_cluster: StartCluster) -> Iterator[Population]:
    """A population whose controller was killed ten times."""
    with populated(start_cluster("crashes"), DUE) as population:
        population.resume()
        population.forge()
        for _ in range(KILLS):
            population.crash()
        population.wait_reclaimed(*population.due)
        yield population


def test_invariant_10_restarts_change_nothing(crashed: Population) -> None:
    """Killed ten times while jobs were in all states: nothing is forgotten, doubled or early."""
    assert len(crashed.log) > KILLS
    crashed.assert_nothing_doubled_or_early(*crashed.due)
    crashed.assert_nothing_else()


def test_a_job_that_was_brought_back_stays_so_through_crashes(crashed: Population) -> None:
    namespace = crashed.jobs.namespace
    assert [one.after for one in crashed.recorder.of(JOB, namespace, RESUMED)] == [False, True, False], crashed.log
    records = [one.after for one in crashed.recorder.of(DLJOB, namespace, RESUMED) if one.after]
    assert len({record["resumedAt"] for record in records if "resumedAt" in record}) == 1, crashed.log
    assert happened(crashed.jobs.record(RESUMED)).count("Resumed") == 1, crashed.log


def test_a_crash_between_the_intent_and_the_action_is_made_good_once(crashed: Population) -> None:
    """The action still to be done is done when it is due; the one that is done is recorded, and not done again; a job
    that has other pods by now is warned anew, and keeps running for as long as that warning says.
    """
    jobs, recorder = crashed.jobs, crashed.recorder
    crashed.wait_reclaimed("intended", "done")
    crashed.assert_nothing_doubled_or_early("intended")
    assert [one.after for one in recorder.of(JOB, jobs.namespace, "done")] == [False, True]
    assert happened(jobs.record("done")).count("Reclaimed") == 1
    again = jobs.record("woken")
    assert time_of(again["warnedAt"]) > time_of(crashed.warnings["woken"]["warnedAt"])
    assert again["podUIDs"] == crashed.warnings["woken"]["podUIDs"]
    for action in recorder.suspensions(jobs.namespace, "woken"):
        assert action.written_at >= time_of(again["deadline"])


@pytest.fixture
def doubled(crashed: Population) -> Iterator[Population]:
    """The population, with a controller that waits for its turn; one leads again afterwards."""
    crashed.operator.start_controller(**SETTINGS, process=SECOND)
    yield crashed
    crashed.cluster.kill(SECOND)
    crashed.operator.crash()


def test_a_leader_that_stands_still_is_replaced_and_ends_without_another_action(doubled: Population) -> None:
    """It is stopped as it records the intent of an action. The second does all that is due; the first goes on, and ends
    at once. No job is suspended twice.
    """
    population, cluster, operator, recorder = doubled, doubled.cluster, doubled.operator, doubled.recorder
    first = wait_for("a leader", operator.leader)
    recorder.wait("an intent", lambda one: one.name in LATE and one.enters("Reclaiming"), timeout=90, since=0)
    cluster.kill(CONTROLLER, signal.SIGSTOP)
    wait_for("the second to lead", lambda: operator.leader() not in {"", first}, timeout=40)
    population.wait_reclaimed(*LATE)
    seen = len(recorder.changes)
    cluster.kill(CONTROLLER, signal.SIGCONT)
    wait_for("the first to end", lambda: not cluster.running(CONTROLLER), timeout=15)
    assert f"{first} no longer leads: exiting at once" in cluster.log(CONTROLLER)
    assert not [one for one in recorder.changes[seen:] if one.name in LATE]
    population.assert_nothing_doubled_or_early(*LATE)


@pytest.fixture
def alone(start_cluster: StartCluster) -> Iterator[Population]:
    """A population that is due over some minutes."""
    with populated(start_cluster("many-crashes"), GRACES) as population:
        yield population


@pytest.mark.long
def test_a_hundred_crashes_forget_nothing_double_nothing_and_hurry_nothing(alone: Population) -> None:
    alone.forge()
    for _ in range(MANY):
        alone.crash()
    alone.wait_reclaimed(*alone.due)
    alone.assert_nothing_doubled_or_early(*alone.due)
    alone.assert_nothing_else()
