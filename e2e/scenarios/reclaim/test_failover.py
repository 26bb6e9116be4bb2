"""Two controllers at once, while the lease goes from one to the other."""

import signal
from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.reclaim.crashing import LATE
from e2e.scenarios.reclaim.play import Play

SECOND = "stoker-controller-2"


@pytest.fixture
def play_with_a_second(play: Play) -> Iterator[Play]:
    """The play, with a controller that waits for its turn; one leads again afterwards."""
    play.start_second(SECOND)
    yield play
    play.cluster.kill(SECOND)
    play.restart()


def test_a_leader_that_stands_still_is_replaced_and_ends_without_another_deed(play_with_a_second: Play) -> None:
    """It is stopped as it records the intent of a deed. The second does all that is due; the first goes on, and ends at
    once. No job is suspended twice.
    """
    play = play_with_a_second
    cluster, operator, population = play.cluster, play.operator, play.population
    first = wait_for("a leader", operator.leader)
    play.witness.wait("an intent", lambda one: one.name in LATE and one.enters("Reclaiming"), timeout=90, since=0)
    cluster.kill(CONTROLLER, signal.SIGSTOP)
    wait_for("the second to lead", lambda: operator.leader() not in {"", first}, timeout=40)
    population.wait_reclaimed(*LATE)
    seen = len(play.witness.changes)
    cluster.kill(CONTROLLER, signal.SIGCONT)
    wait_for("the first to end", lambda: not cluster.running(CONTROLLER), timeout=15)
    assert f"{first} no longer leads: exiting at once" in cluster.log(CONTROLLER)
    assert not [one for one in play.witness.changes[seen:] if one.name in LATE]
    population.assert_nothing_doubled_or_early(*LATE)
