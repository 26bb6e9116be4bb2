"""What is summed up of a replay, and what it says was assumed."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.api.meta import LabelSelector
from stoker.api.policy import Exemption
from stoker.findings.vocabulary import ReclaimMode
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import GATES, Reads
from stoker.replay import Inputs, ReplaySummary, summarize
from tests.replay.pasts import SUSPEND, Story, at, outlines, replayed, rests

INPUTS = Inputs(step=timedelta(seconds=30))
STORIES = (
    Story(name="left", gpus=4, utilization=rests((10, 24)), end=20, owner="mina"),
    Story(name="back", gpus=2, utilization=rests((6, 12)), end=20, owner="jonas"),
    Story(name="steady", gpus=8, utilization=lambda _: 80.0, owner="jonas"),
    Story(name="saved", gpus=1, utilization=rests((6, 7.1)), owner="mina"),
)


async def stated(
    stories: Sequence[Story] = STORIES, policy: EffectivePolicy = SUSPEND, inputs: Inputs = INPUTS
) -> ReplaySummary:
    outcomes = await replayed(stories, policy)
    seen = outlines(stories, 24)
    return summarize(seen, {job.key: policy for job in seen.jobs}, list(outcomes.values()), (), inputs)


async def test_the_groups_add_up_to_the_total() -> None:
    summary = await stated()
    for groups in (summary.by_namespace, summary.by_owner, summary.by_class):
        for name in ("jobs", "warnings", "saved", "reclaims", "given_back", "regrets", "interrupted"):
            whole = getattr(summary.total, name)
            assert sum(getattr(one, name) for one in groups.values()) == pytest.approx(whole), name
    assert (summary.total.warnings, summary.total.saved, summary.total.reclaims) == (3, 1, 2)
    assert summary.total.regrets == 1


async def test_requested_is_used_idle_and_unknown() -> None:
    summary = await stated()
    assert summary.held == pytest.approx(summary.used + summary.idle + summary.unknown)
    assert summary.held == pytest.approx(4 * 20 + 2 * 20 + 8 * 24 + 24, rel=0.01)
    assert summary.unknown == pytest.approx(0)


async def test_the_timeline_has_what_was_given_back_in_place_of_what_was_idle() -> None:
    summary = await stated()
    hours = [(part.period.length / timedelta(hours=1), part) for part in summary.timeline]
    assert sum(length * part.given_back for length, part in hours) == pytest.approx(summary.total.given_back, abs=1)
    whole = sum(length * (part.used + part.idle + part.given_back + part.unknown) for length, part in hours)
    assert whole == pytest.approx(summary.held, rel=0.01)
    assert all(part.given_back == 0 for part in summary.timeline if part.period.end <= at(7))


async def test_reclaims_come_in_the_order_of_time() -> None:
    summary = await stated()
    assert [outcome.identity.name for outcome, _ in summary.reclaims] == ["back", "left"]


async def test_a_policy_that_only_observes_is_told_apart() -> None:
    observing = replace(SUSPEND, reclaim=replace(SUSPEND.reclaim, mode=ReclaimMode.OBSERVE))
    assert not (await stated(STORIES[:1], observing)).acts
    assert (await stated(STORIES[:1])).acts


@pytest.mark.parametrize(
    "change, inputs, key",
    [
        ({"on_pressure_only": True}, INPUTS, "pressure"),
        ({}, replace(INPUTS, mode=ReclaimMode.SUSPEND), "mode"),
        ({}, replace(INPUTS, assumes_volumes=True), "volumes"),
        ({}, replace(INPUTS, remarks=("policy draft: something",)), "policy"),
        ({}, replace(INPUTS, failed_examinations=2), "notExamined"),
        ({}, replace(INPUTS, partial=True), "partial"),
    ],
)
async def test_what_was_assumed_is_said_where_it_applies_and_not_elsewhere(
    change: dict[str, object], inputs: Inputs, key: str
) -> None:
    policy = replace(SUSPEND, reclaim=replace(SUSPEND.reclaim, **change))  # type: ignore[arg-type]  # any of its fields
    quiet = [Story(name="steady", utilization=lambda _: 80.0, end=2)]
    assert key not in {one.key for one in (await stated(quiet)).assumed}
    assert key in {one.key for one in (await stated(quiet, policy, inputs)).assumed}


async def test_labels_that_policies_ask_for_and_nobody_recorded_are_named() -> None:
    spared = Exemption(job_selector=LabelSelector(match_labels={"tier": "gold"}), reason="paid for")
    summary = await stated(STORIES[:1], replace(SUSPEND, exemptions=(spared,)))
    (labels,) = (one for one in summary.assumed if one.key == "labels")
    assert "tier" in labels.text


async def test_a_time_without_any_sample_is_said_with_its_length() -> None:
    seen = outlines(STORIES[:1], 24)
    gpus = seen.cluster_gpus.copy()
    gpus[: 6 * 12] = math.nan
    summary = summarize(replace(seen, cluster_gpus=gpus), {job.key: SUSPEND for job in seen.jobs}, (), (), INPUTS)
    (gap,) = (one for one in summary.assumed if one.key == "notWatched")
    assert "6.0 h" in gap.text


async def test_what_is_always_assumed_is_always_said() -> None:
    keys = {one.key for one in (await stated(STORIES[:1])).assumed}
    assert {"switchedOn", "manifests", "resolution"} <= keys


def test_of_every_condition_it_is_said_what_a_replay_assumes_or_that_what_was_recorded_decides() -> None:
    """A gate that reads what nobody recorded must say what is assumed of it."""
    unrecorded = Reads.CLUSTER | Reads.PROCESS
    assert {gate.name for gate in GATES if gate.reads & unrecorded and not gate.replay} == set()
    assert all(gate.replay.endswith(".") for gate in GATES if gate.replay)
