"""The controller killed with -9 at randomly chosen points: nothing forgotten, doubled or early.

Every failure shows the seed; `STOKER_SEED=...` repeats its choices.
"""

from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.reclaim.crashing import RESUMED, Population
from e2e.scenarios.reclaim.idling import time_of
from e2e.witness import DLJOB, JOB, Witness

MANY = 100
GRACES = tuple(60 + 20 * (number // 4) for number in range(80))
"""Four jobs are due at a time, over ten minutes."""


def test_ten_crashes_forget_nothing_double_nothing_and_hurry_nothing(crashed: Population) -> None:
    crashed.assert_nothing_doubled_or_early(*crashed.due)
    crashed.assert_nothing_else()


def test_a_job_that_was_brought_back_stays_so_through_crashes(crashed: Population) -> None:
    namespace = crashed.jobs.namespace
    assert [one.after for one in crashed.witness.of(JOB, namespace, RESUMED)] == [False, True, False], crashed.told
    records = [one.after for one in crashed.witness.of(DLJOB, namespace, RESUMED) if one.after]
    assert len({record["resumedAt"] for record in records if "resumedAt" in record}) == 1, crashed.told
    assert sum("resumed" in line for line in crashed.jobs.record(RESUMED)["history"]) == 1, crashed.told


def test_a_crash_between_the_intent_and_the_deed_is_made_good_once(crashed: Population) -> None:
    """The deed still to be done is done when it is due; the one that is done is recorded, and not done again; a job
    that has other pods by now is warned anew, and keeps running for as long as that warning says.
    """
    jobs, witness = crashed.jobs, crashed.witness
    crashed.wait_reclaimed("intended", "done")
    crashed.assert_nothing_doubled_or_early("intended")
    assert [one.after for one in witness.of(JOB, jobs.namespace, "done")] == [False, True]
    assert sum("reclaimed" in line for line in jobs.record("done")["history"]) == 1
    again = jobs.record("woken")
    assert time_of(again["warnedAt"]) > time_of(crashed.warnings["woken"]["warnedAt"])
    assert again["podUIDs"] == crashed.warnings["woken"]["podUIDs"]
    for deed in witness.suspensions(jobs.namespace, "woken"):
        assert deed.written_at >= time_of(again["deadline"])


@pytest.fixture
def alone(start_cluster: StartCluster) -> Iterator[Population]:
    """A population in a cluster of its own, due over some minutes."""
    cluster = start_cluster("crashes")
    cluster.add_nodes(24)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    with Witness(cluster) as witness:
        population = Population(operator, witness, GRACES)
        operator.start_admission()
        operator.start_controller(scan_interval="1s", minimum_warning_grace="10s")
        population.create()
        cluster.backfill()
        # Of what had no past it would be slow to look again.
        operator.crash()
        population.rule("Observe")
        population.wait_observed()
        population.rule()
        population.wait_warned()
        yield population
    cluster.stop()


@pytest.mark.long
def test_a_hundred_crashes_forget_nothing_double_nothing_and_hurry_nothing(alone: Population) -> None:
    alone.forge()
    for _ in range(MANY):
        alone.crash()
    alone.wait_reclaimed(*alone.due)
    alone.assert_nothing_doubled_or_early(*alone.due)
    alone.assert_nothing_else()
