"""When much turns idle at once, reclaim stops: by what, for how long, and how it is let go."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.api.policy import MAX_RECENT_IDLE, UtilizationPolicyStatus
from stoker.policy.effective import EffectiveBrake
from stoker.reclaim.brake import Brake, JobActivity, after

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TICK = timedelta(seconds=30)
WINDOW = timedelta(hours=1)


def activity(uid: str, works: bool | None, gpus: int = 8) -> JobActivity:
    return JobActivity(job_uid=uid, job=f"team/{uid}", gpus=gpus, works=works)


class Night:
    """A brake that is told of jobs tick by tick. It is kept as status keeps it, and `restart` forgets the rest."""

    def __init__(self, min_jobs: int = 5, gpu_percent: int = 50) -> None:
        self.brake, self.now = Brake(), NOW
        self.settings = EffectiveBrake(min_jobs=min_jobs, gpu_percent=gpu_percent)
        self.release: str | None = None

    def tick(self, *activities: JobActivity, later: timedelta = TICK) -> bool:
        """Whether the brake is on after a look at these jobs."""
        self.now += later
        self.brake = after(self.brake, activities, self.settings, WINDOW, self.release, self.now)
        return self.brake.is_on

    def see(self, works: str = "", rests: str = "", unknown: str = "", later: timedelta = TICK) -> bool:
        """The same, of jobs of one letter."""
        seen = [*((one, True) for one in works), *((one, False) for one in rests), *((one, None) for one in unknown)]
        return self.tick(*(activity(uid, state) for uid, state in seen), later=later)

    def restart(self) -> None:
        status = {key: value for key, value in self.brake.to_status().items() if value is not None}
        self.brake = Brake.from_status(UtilizationPolicyStatus.model_validate(status))


def test_five_of_eight_jobs_that_fall_silent_stop_reclaim_and_four_do_not() -> None:
    night = Night()
    assert not night.see("abcdefgh")
    assert not night.see("efgh", "abcd")
    assert night.see("fgh", "abcde")
    assert night.brake.message.startswith("5 jobs with 40 of 64 active GPUs turned idle within 1h")


def test_half_of_the_gpus_is_not_more_than_half() -> None:
    night = Night()
    night.see("abcdefghij")
    assert not night.see("fghij", "abcde")
    assert night.see("ghij", "abcdef")


def test_what_is_not_known_is_neither_active_nor_idle_and_turns_idle_when_it_is_seen_to_rest() -> None:
    """Five of ten go quiet while nothing is known of the others: these five are all that was seen."""
    night = Night()
    night.see("abcdefghij")
    assert not night.see(unknown="abcdefghij", later=timedelta(hours=3))
    assert night.see(rests="abcde", unknown="fghij")


def test_jobs_that_end_or_are_suspended_are_no_sign_of_an_outage_but_were_active() -> None:
    night = Night()
    night.see("abcdefghijkl")
    assert not night.see(rests="abcde"), "seven others ended at the same time"
    assert night.see(rests="abcde", later=2 * WINDOW) is False, "what turned idle long ago is idle"


def test_jobs_that_never_worked_have_not_turned_idle() -> None:
    night = Night()
    assert not night.see("a", "bcdefg")
    assert not night.see("a", "bcdefg")


def test_slow_rest_over_hours_never_stops_reclaim() -> None:
    night = Night()
    jobs = "abcdefghij"
    night.see(jobs)
    for number in range(1, len(jobs) + 1):
        assert not night.see(jobs[number:], jobs[:number], later=WINDOW / 4 + TICK)


def test_it_stays_on_over_the_window_and_a_restart_and_lets_go_when_the_jobs_work_again() -> None:
    night = Night()
    night.see("abcdef")
    assert night.see(rests="abcdef")
    since = night.brake.since
    assert night.see(rests="abcdef", later=5 * WINDOW)
    night.restart()
    assert night.see(unknown="abcdef")
    assert night.see("abc", "def"), "three that work prove nothing of the other three"
    assert not night.see("abcde", "f")
    assert since is not None
    assert not night.brake.message


def test_once_the_gpus_work_again_what_metrics_showed_before_is_doubted_over_a_restart() -> None:
    night = Night()
    night.see("abcdefgh")
    assert night.see(rests="abcdefgh")
    assert night.brake.doubted_until is None
    assert not night.see("abcdefg", "h", later=WINDOW)
    ended = night.now
    night.restart()
    night.see("abcdefg", "h")
    assert night.brake.doubted_until == ended


def test_who_says_that_the_jobs_are_idle_indeed_doubts_no_metrics() -> None:
    night = Night()
    night.see("abcdefgh")
    assert night.see(rests="abcdefgh")
    night.release = "they are idle indeed"
    assert not night.see(rests="abcdefgh")
    assert night.brake.doubted_until is None


def test_an_outage_that_is_half_over_is_not_over() -> None:
    night = Night()
    night.see("abcdefghij")
    assert night.see(rests="abcdefghij")
    assert night.see("abcde", "fghij"), "half of them are still silent"
    assert night.see("abcdefg", "hij")
    assert not night.see("abcdefgh", "ij")


def test_that_jobs_are_gone_does_not_make_the_metrics_of_the_others_right() -> None:
    night = Night()
    night.see("abcdefgh")
    assert night.see(rests="abcdefgh")
    assert night.see(rests="ab")
    assert night.see("c", "ab"), "one that is new works"
    assert not night.see("c")


def test_an_administrator_lets_go_and_those_jobs_count_as_idle_from_then_on_over_a_restart() -> None:
    night = Night()
    night.release = "an old one"
    night.see("abcdefgh")
    assert night.brake.handled_release == "an old one"
    assert night.see("fgh", "abcde")
    night.release = "they are idle indeed"
    assert not night.see("fgh", "abcde")
    assert not night.see("fgh", "abcde")
    night.restart()
    assert not night.see("fgh", "abcde")
    assert night.brake.handled_release == "they are idle indeed"
    assert not night.see("h", "abcdefg"), "two more are not five"


def test_after_a_release_another_outage_stops_reclaim_again() -> None:
    night = Night()
    night.see("abcdefgh")
    night.see("fgh", "abcde")
    night.release = "1"
    night.see("fgh", "abcde")
    night.see("abcdefgh")
    assert night.see(rests="abcdefgh")


def test_a_restart_with_resting_jobs_does_not_stop_reclaim() -> None:
    """What rested before is remembered, or is seen to rest for long, or has never worked."""
    night = Night()
    night.see("abcdefgh")
    night.see("bcdefgh", "a")
    night.see("cdefgh", "ab", later=WINDOW)
    night.restart()
    old = [
        JobActivity(job_uid=uid, job=uid, gpus=8, works=False, idle_since=night.now - 2 * WINDOW, worked=True)
        for uid in "mnopqrst"
    ]
    young = [JobActivity(job_uid=uid, job=uid, gpus=8, works=False) for uid in "uvwxyz"]
    quiet = [activity("a", False), activity("b", False)]
    assert not night.tick(*old, *young, *quiet, *(activity(uid, True) for uid in "cdefgh"))


def test_what_fell_silent_while_nobody_watched_stops_reclaim() -> None:
    night = Night()
    night.see("abcdef")
    night.restart()
    silent = [JobActivity(job_uid=uid, job=uid, gpus=8, works=False, worked=True) for uid in "abcdef"]
    assert night.tick(*silent)


def test_who_comes_back_must_work_before_it_can_turn_idle() -> None:
    night = Night()
    night.see("abcdefgh")
    night.see("fgh")
    assert not night.see("fgh", "abcde")
    night.see("abcdefgh")
    assert night.see("fgh", "abcde")


def test_of_too_many_jobs_the_status_has_the_latest_and_the_brake_counts_all() -> None:
    night = Night()
    uids = [f"job-{number}" for number in range(MAX_RECENT_IDLE + 500)]
    busy = [activity(f"busy-{number}", True) for number in range(1200)]
    night.tick(*(activity(uid, True) for uid in uids), *busy)
    assert night.tick(*(activity(uid, False) for uid in uids), *busy)
    entries = night.brake.to_status()["recentIdle"]
    assert isinstance(entries, list)
    assert len(entries) == MAX_RECENT_IDLE


@given(
    story=st.lists(
        st.lists(st.sampled_from([True, False, None, "gone"]), min_size=9, max_size=9), min_size=1, max_size=12
    ),
    restarts=st.sets(st.integers(0, 11)),
)
def test_it_never_goes_on_for_fewer_jobs_or_gpus_than_the_policy_says(
    story: list[list[bool | str | None]], restarts: set[int]
) -> None:
    """Nor off while more than a quarter is quiet still."""
    night = Night()
    jobs = "abcdefghi"
    for number, states in enumerate(story):
        was_on = night.brake.is_on
        seen = [activity(uid, state) for uid, state in zip(jobs, states, strict=True) if not isinstance(state, str)]
        is_on = night.tick(*seen)
        quiet = [one for one in seen if one.works is not True]
        resting = {one.job_uid for one in night.brake.turned_idle}
        assert resting <= {one.job_uid for one in quiet}
        if is_on and not was_on:
            assert len(resting) >= night.settings.min_jobs
        if was_on and not is_on:
            assert len(resting) * 4 <= len(jobs)
        if number in restarts:
            night.restart()
