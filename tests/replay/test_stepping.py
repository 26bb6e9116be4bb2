"""The replay skips the steps in which nothing can change: it must decide what stepping through all of them decides."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.policy import ScheduleWindow
from stoker.diagnosis.idleness import idleness
from stoker.findings.vocabulary import ReclaimMode, ReclaimState
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim
from stoker.reclaim import ACTS, Candidate, Case, Record, plan, resumed
from stoker.replay.screens import Screens
from stoker.replay.simulation import execution
from tests.replay.pasts import UNRELEASED, Story, replayed

HOURS = 8.0
Events = list[tuple[str, datetime]]


@dataclass(frozen=True)
class Segment:
    """Some minutes in which nothing changes."""

    minutes: int
    percent: float
    ready: float


SEGMENTS = st.lists(
    st.builds(
        Segment,
        minutes=st.sampled_from([1, 2, 3, 5, 9, 10, 11, 20, 35, 60, 90]),
        percent=st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.4, 80.0, 80.0, math.nan]),
        ready=st.sampled_from([1.0, 1.0, 1.0, 1.0, 0.0, math.nan]),
    ),
    min_size=2,
    max_size=14,
)
POLICIES = st.builds(
    lambda after, startup, grace, mode, schedule: EffectivePolicy(
        sources=("draft",),
        reclaim=EffectiveReclaim(
            mode=mode,
            idle_after=timedelta(minutes=after),
            startup_grace=timedelta(minutes=startup),
            warning_grace=timedelta(minutes=grace),
            cooldown_after_resume=timedelta(minutes=20),
            max_gpu_percent_per_window=100,
            max_jobs_per_window=500,
            schedule=schedule,
        ),
    ),
    after=st.sampled_from([10, 25, 60]),
    startup=st.sampled_from([0, 30]),
    grace=st.sampled_from([5, 15]),
    mode=st.sampled_from([ReclaimMode.SUSPEND, ReclaimMode.DELETE, ReclaimMode.OBSERVE]),
    schedule=st.sampled_from([(), (ScheduleWindow(start="02:10", end="04:00"),)]),
)


def stepped(story: Story, policy: EffectivePolicy) -> Events:
    """Every warning and every reclaim, deciding at each step with all that is known."""
    past = story.past(HOURS)
    screens, record, events = Screens(past, idle_percent=policy.thresholds.idle_percent), Record(), Events()
    returns: int | None = None
    for index in range(past.grid.size):
        now = past.grid.time(index)
        if record.state is ReclaimState.RECLAIMED:
            if index != returns or record.action is ReclaimMode.DELETE:
                continue
            record = resumed(record, annotation=str(index), unsuspended=False, now=now).record
        if not screens.is_recorded(index):
            continue
        facts = screens.facts(index)
        job = Candidate(
            job_type=facts.job_type,
            gpus=past.identity.gpus,
            job_uid=str(past.identity.uid),
            pod_uids=frozenset(pod.uid for pod in facts.pods),
            last_start=max((pod.started_at for pod in facts.pods if pod.started_at is not None), default=None),
            findings=(UNRELEASED,),
            has_persistent_volume=True,
            termination_grace=timedelta(hours=1),
            untouchable=None if past.held[index] else "it has no GPUs",
        )
        idle = idleness(
            facts,
            screens.screen(facts, index, policy.reclaim.idle_after),
            window=policy.reclaim.idle_after,
            min_coverage_percent=policy.thresholds.min_coverage_percent,
            idle_percent=policy.thresholds.idle_percent,
            now=now,
        )
        case = Case(job=job, idleness=idle, policy=policy, record=record, now=now, execution=execution(record, now))
        decision = plan(case)
        if decision.record.has_warning and decision.record.warned_at != record.warned_at:
            events.append(("warned", now))
        record = decision.record
        if decision.step in ACTS:
            events.append(("reclaimed", now))
            record = replace(record.without_warning(), state=ReclaimState.RECLAIMED)
            returns = screens.next_work(index)
    return events


@settings(max_examples=40, deadline=None)
@given(segments=SEGMENTS, policy=POLICIES, restart=st.sampled_from([None, 1.5, 3.0]), another=st.booleans())
async def test_skipping_steps_changes_no_decision(
    segments: list[Segment], policy: EffectivePolicy, restart: float | None, another: bool
) -> None:
    ends = list(accumulate(segment.minutes for segment in segments))

    def segment(hour: float) -> Segment:
        return segments[min(bisect_right(ends, hour * 60 - 0.01), len(segments) - 1)]

    story = Story(
        name="any",
        utilization=lambda hour: segment(hour).percent,
        ready=lambda hour: segment(hour).ready,
        starts=(0.0,) if restart is None else (0.0, restart),
        pods=(0.0, 2.0) if another else (),
        end=7.5,
    )
    (outcome,) = (await replayed([story], policy, hours=HOURS)).values()
    found: Events = [("warned", one.at) for one in outcome.warnings]
    found += [("reclaimed", one.at) for one in outcome.reclaims]
    assert sorted(found, key=lambda event: (event[1], event[0] == "reclaimed")) == stepped(story, policy)
