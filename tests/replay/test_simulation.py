"""Decisions about pasts that were made by hand."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.api.policy import ScheduleWindow
from stoker.findings.vocabulary import JobType, ReclaimMode
from stoker.policy.effective import EffectiveBrake, EffectivePolicy, EffectiveReclaim
from stoker.replay import Assumed
from stoker.telemetry.series import GpuSignal
from tests.replay.pasts import SUSPEND, Story, at, hour_of, replayed, rests

A_STEP = 30 / 3600


def policy(**reclaim: object) -> EffectivePolicy:
    return replace(SUSPEND, reclaim=replace(SUSPEND.reclaim, **reclaim))  # type: ignore[arg-type]  # any of its fields


async def test_a_forgotten_job_is_warned_after_idle_after_and_reclaimed_after_the_grace() -> None:
    outcome = (await replayed([Story(name="left", gpus=4, utilization=rests((10, 24)), end=20)]))["left"]
    (warning,) = outcome.warnings
    (reclaim,) = outcome.reclaims
    assert hour_of(warning.at) == pytest.approx(11, abs=A_STEP)
    assert warning.outcome == "reclaimed"
    assert reclaim.at - warning.at >= SUSPEND.reclaim.warning_grace
    assert hour_of(reclaim.at) == pytest.approx(11.25, abs=2 * A_STEP)
    assert hour_of(reclaim.idle_since) == pytest.approx(10, abs=A_STEP)
    assert reclaim.given_back == pytest.approx(4 * (20 - hour_of(reclaim.at)), abs=4 * A_STEP)
    assert not reclaim.is_regret
    assert reclaim.interrupted == 0


async def test_a_job_that_works_again_later_is_a_regret_with_how_long_after_and_how_much_work() -> None:
    outcome = (await replayed([Story(name="back", gpus=2, utilization=rests((6, 12)), end=20)]))["back"]
    (reclaim,) = outcome.reclaims
    assert reclaim.returned_at is not None
    assert hour_of(reclaim.returned_at) == pytest.approx(12, abs=A_STEP)
    assert reclaim.given_back == pytest.approx(2 * (12 - hour_of(reclaim.at)), abs=2 * A_STEP)
    assert reclaim.interrupted == pytest.approx(2 * (20 - 12), abs=2 * A_STEP)


async def test_a_job_that_works_between_warning_and_deadline_is_saved_by_it() -> None:
    outcome = (await replayed([Story(name="saved", utilization=rests((6, 7.1)))]))["saved"]
    assert [one.outcome for one in outcome.warnings] == ["all-idle"]
    assert outcome.reclaims == ()


async def test_a_job_that_ends_between_warning_and_deadline_is_not_reclaimed() -> None:
    outcome = (await replayed([Story(name="ended", utilization=rests((6, 24)), end=7.1)]))["ended"]
    assert [one.outcome for one in outcome.warnings] == ["touchable"]
    assert outcome.reclaims == ()


async def test_a_job_that_is_deleted_within_the_grace_has_ended_though_nothing_tells_of_it_any_more() -> None:
    story = Story(name="gone", utilization=rests((6, 24)), end=7.1, ready=lambda hour: 1.0 if hour <= 7.1 else math.nan)
    outcome = (await replayed([story]))["gone"]
    (warning,) = outcome.warnings
    assert warning.outcome == "touchable"
    assert warning.ended_at is not None
    assert hour_of(warning.ended_at) == pytest.approx(7.1, abs=A_STEP)


async def test_a_resumed_job_is_left_alone_for_the_cooldown_and_can_be_reclaimed_once_more() -> None:
    story = Story(name="twice", utilization=rests((6, 8), (8.1, 24)))
    short = (await replayed([story], policy(cooldown_after_resume=timedelta(hours=1))))["twice"]
    long = (await replayed([story], policy(cooldown_after_resume=timedelta(hours=4))))["twice"]
    assert hour_of(short.reclaims[1].warned_at) == pytest.approx(9.1, abs=2 * A_STEP)
    assert hour_of(long.reclaims[1].warned_at) == pytest.approx(12, abs=2 * A_STEP)
    # What it did between is the first one's regret alone.
    assert short.reclaims[0].interrupted == pytest.approx(0.1, abs=2 * A_STEP)
    assert not short.reclaims[1].is_regret


async def test_a_deleted_job_does_not_come_back_and_all_its_later_work_is_interrupted() -> None:
    story = Story(name="gone", utilization=rests((6, 8), (10, 24)))
    outcome = (await replayed([story], policy(mode=ReclaimMode.DELETE)))["gone"]
    (reclaim,) = outcome.reclaims
    assert reclaim.mode is ReclaimMode.DELETE
    assert reclaim.interrupted == pytest.approx(2, abs=2 * A_STEP)


async def test_a_policy_that_observes_does_nothing_and_says_what_it_held_back() -> None:
    outcome = (
        await replayed([Story(name="left", utilization=rests((6, 24)), end=20)], policy(mode=ReclaimMode.OBSERVE))
    )["left"]
    assert outcome.warnings == ()
    assert outcome.held_back["mode"] == pytest.approx(20 - 7, abs=2 * A_STEP)


# --------------------------------------------------------------------------------------------------- unknown never acts


@pytest.mark.parametrize(
    "story",
    [
        Story(name="blind", utilization=lambda hour: math.nan if hour > 6 else 80.0),
        Story(
            name="blind",
            utilization=lambda hour: math.nan if 6 < hour < 20 and hour % 1 < 0.2 else rests((6, 20))(hour),
        ),
        Story(name="blind", utilization=rests((6, 24)), ready=lambda hour: math.nan if hour > 6 else 1.0),
        Story(name="blind", utilization=rests((6, 24)), ready=lambda hour: 0.0 if hour > 6 else 1.0),
        Story(name="blind", utilization=rests((6, 24)), shared=True),
        Story(name="blind", utilization=rests((6, 24)), signals={GpuSignal.SM_ACTIVE: lambda _: 30.0}),
        Story(
            name="blind",
            utilization=rests((6, 24)),
            signals={GpuSignal.NVLINK: lambda hour: 1e9 * (hour // 0.5)},
        ),
        Story(name="blind", utilization=rests((6, 24)), job_type="Serving"),
    ],
    ids=[
        "no samples",
        "gaps of a fifth of the time",
        "the operator did not record a job",
        "a pod not ready",
        "a shared GPU",
        "another signal works",
        "a link's counter moves",
        "a service",
    ],
)
async def test_what_is_not_known_to_rest_is_never_warned_nor_reclaimed(story: Story) -> None:
    outcome = (await replayed([story]))["blind"]
    assert (outcome.warnings, outcome.reclaims) == ((), ())


async def test_an_outage_between_warning_and_deadline_puts_the_reclaim_off_until_samples_are_back() -> None:
    def value(hour: float) -> float:
        return math.nan if 7.1 < hour <= 12 else rests((6, 24))(hour)

    outcome = (await replayed([Story(name="dark", utilization=value)]))["dark"]
    (reclaim,) = outcome.reclaims
    # A window with enough samples must pass first.
    assert hour_of(reclaim.at) > 12.85


async def test_a_job_without_a_cause_is_only_reported() -> None:
    outcome = (await replayed([Story(name="quiet", utilization=rests((6, 24)), end=20)], needed=["quiet"]))["quiet"]
    assert outcome.warnings == ()
    assert outcome.held_back["cause"] == pytest.approx(13, abs=2 * A_STEP)


@pytest.mark.parametrize("job_type", ["Interactive", "Training"])
async def test_a_job_is_held_back_unless_volumes_are_assumed(job_type: str) -> None:
    story = Story(name="note", utilization=rests((6, 24)), end=20, job_type=job_type)
    held = (await replayed([story], assumed=Assumed()))["note"]
    assert held.reclaims == ()
    assert held.held_back["nothing-lost"] == pytest.approx(13, abs=2 * A_STEP)
    assert len((await replayed([story], assumed=Assumed(has_persistent_volume=True)))["note"].reclaims) == 1


async def test_who_is_at_work_in_it_puts_the_warning_off_and_takes_one_back() -> None:
    story = Story(name="typed", utilization=rests((6, 24)), end=20)
    before = (await replayed([story], attended=[6.5]))["typed"]
    assert hour_of(before.reclaims[0].warned_at) == pytest.approx(7.5, abs=2 * A_STEP)
    within_the_grace = (await replayed([story], attended=[7.1]))["typed"]
    assert [one.outcome for one in within_the_grace.warnings] == ["unattended", "reclaimed"]
    assert hour_of(within_the_grace.reclaims[0].warned_at) == pytest.approx(8.1, abs=2 * A_STEP)


# ------------------------------------------------------------------------------------------------------------- restarts


async def test_a_restart_of_the_container_starts_the_clock_anew() -> None:
    story = Story(name="anew", utilization=rests((6, 24)), starts=(0.0, 6.9))
    outcome = (await replayed([story]))["anew"]
    # An hour of rest, after the start-up grace.
    assert hour_of(outcome.reclaims[0].warned_at) == pytest.approx(6.9 + 1.5, abs=2 * A_STEP)


async def test_another_pod_after_the_warning_needs_another_warning() -> None:
    story = Story(name="moved", utilization=rests((6, 24)), pods=(0.0, 7.1))
    outcome = (await replayed([story]))["moved"]
    assert outcome.warnings[0].outcome != "reclaimed"
    assert hour_of(outcome.reclaims[0].warned_at) == pytest.approx(7.1 + 1.5, abs=2 * A_STEP)


# ----------------------------------------------------------------------------------------- schedule, bounds, and brake


async def test_a_closed_schedule_holds_the_reclaim_back_until_it_opens() -> None:
    evening = ScheduleWindow(job_types=(JobType.TRAINING,), start="18:00", end="23:00")
    outcome = (await replayed([Story(name="left", utilization=rests((6, 24)))], policy(schedule=(evening,))))["left"]
    assert outcome.reclaims[0].at == at(18)
    assert outcome.held_back["schedule-open"] == pytest.approx(18 - 7.25, abs=3 * A_STEP)


async def test_the_bound_on_jobs_lets_one_a_window_go_the_most_idle_first() -> None:
    stories = [Story(name=f"left-{gpus}", gpus=gpus, utilization=rests((6, 24))) for gpus in (1, 4, 2)]
    calm = EffectiveBrake(min_jobs=100)
    outcomes = await replayed(stories, policy(max_jobs_per_window=1, mass_idle_brake=calm))
    times = {name: hour_of(outcome.reclaims[0].at) for name, outcome in outcomes.items()}
    assert times["left-4"] == pytest.approx(7.25, abs=2 * A_STEP)
    assert times["left-2"] == pytest.approx(8.25, abs=3 * A_STEP)
    assert times["left-1"] == pytest.approx(9.25, abs=4 * A_STEP)
    assert outcomes["left-1"].held_back["bounds"] == pytest.approx(2, abs=5 * A_STEP)


async def test_the_bound_on_gpus_counts_the_clusters() -> None:
    stories = [Story(name=f"left-{number}", gpus=4, utilization=rests((6, 24))) for number in range(2)]
    few = policy(max_gpu_percent_per_window=10)
    roomy = await replayed(stories, few, cluster_gpus=80)
    tight = await replayed(stories, few, cluster_gpus=79)
    assert max(hour_of(one.reclaims[0].at) for one in roomy.values()) < 7.3
    assert max(hour_of(one.reclaims[0].at) for one in tight.values()) == pytest.approx(8.25, abs=3 * A_STEP)


async def test_when_most_of_the_cluster_turns_idle_at_once_nobody_is_warned() -> None:
    stories = [Story(name=f"job-{number}", gpus=2, utilization=rests((6, 12))) for number in range(6)]
    outcomes = await replayed(stories)
    assert all(outcome.warnings == () for outcome in outcomes.values())
    assert all(outcome.held_back["brake-off"] > 0 for outcome in outcomes.values())


async def test_the_built_in_defaults_observe() -> None:
    outcomes = await replayed(
        [Story(name="left", utilization=rests((6, 24)))], EffectivePolicy(reclaim=EffectiveReclaim())
    )
    assert outcomes["left"].reclaims == ()
