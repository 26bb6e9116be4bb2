"""The largest status that there can be fits into the API server's objects, which etcd bounds at 1.5 MiB."""

import json
from datetime import UTC, datetime, timedelta

import yaml

from stoker.api.dljob import DLJobStatus
from stoker.api.status import MAX_FINDINGS, MAX_HISTORY, MAX_NODES, MAX_NOTIFIED, MAX_PODS, MAX_STAGES
from stoker.controller.next_status import MAX_FINDING_TEXT, NextStatus
from stoker.controller.scan_results import ScanResult
from stoker.controller.status_findings import merged
from stoker.findings.diagnosis import (
    Advice,
    Diagnosis,
    Idleness,
    IdlenessState,
    NodeUse,
    StageSpan,
    Utilization,
)
from stoker.findings.finding import MAX_ADVICE, Finding, Location
from stoker.findings.vocabulary import (
    Category,
    Confidence,
    NotificationEvent,
    NotificationResult,
    ReclaimEvent,
    ReclaimState,
    Severity,
    Source,
    Stage,
)
from stoker.policy.effective import PolicyRevision
from stoker.policy.resolution import resolve
from stoker.reclaim import HistoryEntry, NotificationRecord, Record
from stoker.reclaim.record import MAX_REASON
from stoker.telemetry.series import PodFacts
from stoker.workload import observe
from tests.workload.building import dljob, job

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NODES, GPUS = 1024, 64
LONGEST_NODE = "n" * 253
LONGEST_JOB = "j" * 58
LIMIT = 1024 * 1024
"""Bytes, with room for the spec beside it."""


def finding(number: int) -> Finding:
    # Four bytes a character is the most that UTF-8 takes.
    text = "\U0001f525" * (2 * MAX_FINDING_TEXT)
    return Finding(
        rule=f"a-rule-with-a-long-name-{number}",
        category=list(Category)[number % len(Category)],
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        detail=text,
        evidence=text,
        fix=text,
        docs="https://example.com/" + "x" * 100,
        sources=tuple(Source),
        location=Location(field_path="spec.script", line=4321),
        since=NOW,
        until=NOW,
        gpu_hours_idle=12345678.9,
        alternatives=tuple(Category),
    )


def largest() -> dict[str, object]:
    owner = dljob(LONGEST_JOB, nodes=NODES, gpusPerNode=GPUS)
    runs = tuple(
        PodFacts(
            name=f"{LONGEST_JOB}-{rank}-abcde",
            uid="",
            rank=rank,
            node=LONGEST_NODE,
            gpus=GPUS,
            started_at=NOW - timedelta(days=30),
            finished_at=NOW,
        )
        for rank in range(MAX_PODS)
    )
    stages = tuple(
        StageSpan(stage=Stage.INITIALIZATION, start=NOW - timedelta(days=30), end=NOW, average_percent=100.0)
        for _ in range(2 * MAX_STAGES)
    )
    utilization = Utilization(
        average_percent=None,
        average_percent_range=(0.0, 100.0),
        recent_percent=100.0,
        peak_memory_percent=100.0,
        coverage_percent=50.0,
        gpu_hours=47185920.0,
        gpu_hours_idle=47185920.0,
        as_of=NOW,
        stages=stages,
        nodes=tuple(
            NodeUse(pod=f"{LONGEST_JOB}-{rank}", node=LONGEST_NODE, gpu_percents=(100.0,) * GPUS)
            for rank in range(NODES)
        ),
    )
    advice = Advice(rule="r" * 60, detail="\U0001f525" * 4096, fix="\U0001f525" * 4096, docs="d" * 200)
    look = ScanResult(
        idleness=Idleness(state=IdlenessState.ACTIVE, observed_at=NOW, message="m" * 4096),
        diagnosis=Diagnosis(utilization=utilization, advice=(advice,) * MAX_ADVICE),
    )
    record = Record(
        state=ReclaimState.WARNED,
        reason="r" * 1024,
        warned_at=NOW,
        deadline=NOW,
        pod_uids=frozenset(f"{number:08}-0000-0000-0000-000000000000" for number in range(NODES)),
        policies=(PolicyRevision(name="p" * 63, generation=2**60),) * 2,
        notified=(
            NotificationRecord(
                event=NotificationEvent.RECLAIMED, event_time=NOW, result=NotificationResult.NOBODY, time=NOW
            ),
        )
        * MAX_NOTIFIED,
        history=(
            HistoryEntry(
                time=NOW,
                event=ReclaimEvent.SNOOZE_WITHDRAWN,
                reason="\U0001f525" * MAX_REASON,
                policy=PolicyRevision(name="p" * 63, generation=2**60),
            ),
        )
        * MAX_HISTORY,
    )
    draft = NextStatus(
        uid=owner.uid,
        generation=owner.metadata.generation,
        gpus=owner.gpus,
        suspend=False,
        observation=observe(owner, job(nodes=NODES, active=NODES, ready=NODES), ()),
        findings=merged((), [finding(number) for number in range(3 * MAX_FINDINGS)], NOW),
        record=record,
        policy=resolve((), "team", {}),
        child_uid="uid",
        scan_result=look,
        runs=runs,
        is_over=True,
    )
    return draft.status({}, NOW)


def test_the_largest_status_of_1024_nodes_with_64_gpus_stays_below_a_mebibyte() -> None:
    size = len(json.dumps(largest(), ensure_ascii=False).encode())
    assert LIMIT / 2 < size < LIMIT


def test_it_keeps_within_the_bounds_of_the_schema() -> None:
    status = largest()
    DLJobStatus.model_validate(status)
    utilization = status["utilization"]
    assert isinstance(utilization, dict)
    assert len(utilization["nodes"]) == MAX_NODES
    assert all(sum(map(len, one["gpuPercents"])) == GPUS for one in utilization["nodes"])
    assert yaml.safe_load(yaml.safe_dump(status)) == status
