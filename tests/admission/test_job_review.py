import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.adapters.workers import TaskEnd
from stoker.admission import judgement
from stoker.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Operation
from stoker.admission.job_review import JobReviewer
from stoker.api.dljob import DLJob
from stoker.cluster.view import ClusterView
from stoker.findings.finding import Finding, Location
from stoker.findings.verdict import Suppressed, Verdict
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.messages import not_analysed
from stoker.policy.effective import EffectivePolicy
from stoker.shell.model import Shortfall
from tests.admission.malformed_reviews import OBJECT
from tests.inline_workers import InlineWorkers

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
Judge = Callable[[DLJob], Verdict]


def finding(rule: str, detail: str = "8 GPUs, 4 processes.") -> Finding:
    return Finding(
        rule=rule,
        category=Category.GPU_OVERSUBSCRIPTION,
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        detail=detail,
        evidence="",
        fix="Change it to 8.",
        docs="",
        sources=(Source.SCRIPT,),
        location=Location(field_path="spec.script", line=3, excerpt="torchrun x\n^^^"),
    )


@pytest.fixture
def view() -> ClusterView:
    view = ClusterView()
    view.namespaces.watched(None, {"metadata": {"name": "team", "resourceVersion": "1"}})
    return view


@pytest.fixture
def workers() -> InlineWorkers:
    return InlineWorkers()


@pytest.fixture
def reviewer(view: ClusterView, workers: InlineWorkers) -> JobReviewer:
    return JobReviewer(view, workers, lambda: NOW)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judge], None]:
    """Let a function of the job judge, in place of the catalogue's rules."""

    def use(judge: Judge) -> None:
        def review(job: DLJob, policy: EffectivePolicy, *, now: datetime) -> Verdict:
            assert now == NOW
            return judge(job)

        monkeypatch.setattr(judgement, "review", review)
        monkeypatch.setattr(judgement, "review_without_scripts", review)

    return use


def request(
    operation: Operation = Operation.CREATE,
    new: Any = OBJECT,
    old: Any = None,
    name: str = "bert",
    subresource: str = "",
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation=operation,
        group="stoker.dev",
        kind="DLJob",
        resource="dljobs",
        subresource=subresource,
        name=name,
        namespace="team",
        new_object=new,
        old_object=old,
        dry_run=False,
    )


def on_not_analysed(view: ClusterView, action: str) -> None:
    metadata = {"name": "default", "resourceVersion": "2"}
    view.policies.watched("ADDED", {"metadata": metadata, "spec": {"analysis": {"onNotAnalysed": action}}})


async def test_a_denial_carries_the_causes_and_the_warnings_beside_them(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    verdicts(lambda _: Verdict(denied=(finding("launcher-too-few"),), warned=(finding("image-unpinned"),)))
    answer = await reviewer(request())
    assert not answer.allowed
    assert [(cause.field, cause.message.splitlines()[0]) for cause in answer.causes] == [
        ("spec.script", "line 3: 8 GPUs, 4 processes (launcher-too-few).")
    ]
    assert "launcher-too-few" in answer.message
    assert [warning.partition(":")[0] for warning in answer.warnings] == ["image-unpinned"]
    assert answer.annotations == {"findings": "image-unpinned launcher-too-few"}


async def test_what_is_suppressed_stands_in_the_audit_log(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    """Nobody is warned of it, and yet it is not lost."""
    verdicts(lambda _: Verdict(suppressed=(Suppressed(finding=finding("trailing-sleep"), reason="a debugger"),)))
    answer = await reviewer(request())
    assert (answer.allowed, answer.warnings, answer.annotations) == (True, (), {"suppressed": "trailing-sleep"})


async def test_a_warned_job_is_allowed(reviewer: JobReviewer, verdicts: Callable[[Judge], None]) -> None:
    verdicts(lambda _: Verdict(warned=(finding("image-unpinned"),)))
    answer = await reviewer(request())
    assert answer.allowed
    assert len(answer.warnings) == 1


async def test_a_clean_job_is_allowed_in_silence(reviewer: JobReviewer, verdicts: Callable[[Judge], None]) -> None:
    verdicts(lambda _: Verdict())
    assert await reviewer(request()) == ALLOWED


@pytest.mark.parametrize(
    "asked",
    [
        request(Operation.DELETE, None, OBJECT),
        request(Operation.CONNECT, None, None),
        request(Operation.UPDATE, OBJECT, OBJECT, subresource="status"),
    ],
    ids=["delete", "connect", "status"],
)
async def test_what_can_not_change_the_spec_is_not_reviewed(
    asked: AdmissionRequest, reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    verdicts(lambda _: Verdict(denied=(finding("any"),)))
    assert await reviewer(asked) == ALLOWED


async def test_an_update_is_denied_only_for_what_it_introduces(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    def judge(job: DLJob) -> Verdict:
        return Verdict(denied=tuple(finding(f"rule-{label}") for label in sorted(job.metadata.labels.values())))

    verdicts(judge)
    old = OBJECT | {"metadata": {"name": "bert", "labels": {"x": "old"}}}
    new = OBJECT | {"metadata": {"name": "bert", "labels": {"x": "old", "y": "new"}}}
    assert (await reviewer(request(Operation.UPDATE, old, old))).allowed
    answer = await reviewer(request(Operation.UPDATE, new, old))
    assert not answer.allowed
    assert ["rule-new" in cause.message for cause in answer.causes] == [True]


@pytest.mark.parametrize(
    "broken, field",
    [
        ({"spec": {"image": "x:1"}}, "spec.gpusPerNode"),
        ({"spec": OBJECT["spec"] | {"gpusPerNode": "8"}}, "spec.gpusPerNode"),
        ({"spec": OBJECT["spec"] | {"gpusPerNode": 65}}, "spec.gpusPerNode"),
        ({"spec": OBJECT["spec"] | {"env": [{"value": "x"}]}}, "spec.env[0].name"),
        ({"spec": OBJECT["spec"] | {"script": "é" * 40_000}}, "spec.script"),
        ({"spec": []}, "spec"),
        ({"spec": None}, "spec"),
        ({"metadata": "bert"}, "metadata"),
        ({"metadata": {"name": "bert", "labels": {"a": 1}}}, "metadata.labels.a"),
        ({"kind": "Job"}, "kind"),
    ],
)
async def test_an_object_that_breaks_its_schema_is_denied_with_the_field_and_no_traceback(
    broken: dict[str, Any], field: str, reviewer: JobReviewer, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await reviewer(request(new=OBJECT | broken))
    assert not answer.allowed
    assert [cause.field for cause in answer.causes] == [field]
    assert answer.message.startswith(f"{field}: ")
    assert "\n" not in answer.message
    assert len(answer.message) < 400
    assert caplog.records == []


async def test_a_stored_job_that_breaks_a_stricter_schema_can_still_be_suspended(reviewer: JobReviewer) -> None:
    stored = OBJECT | {"spec": OBJECT["spec"] | {"gpusPerNode": 65}}
    suspended = stored | {"spec": stored["spec"] | {"suspend": True}}
    assert (await reviewer(request(Operation.UPDATE, suspended, stored))).allowed


async def test_a_name_that_is_still_to_be_generated_is_no_fault(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    seen: list[tuple[str, str]] = []

    def judge(job: DLJob) -> Verdict:
        seen.append((job.name, job.namespace))
        return Verdict()

    verdicts(judge)
    await reviewer(request(new=OBJECT | {"metadata": {"generateName": "bert-"}}, name=""))
    assert set(seen) == {("bert-", "team")}


@pytest.mark.parametrize(
    "end, shortfall",
    [
        (TaskEnd.TIME, Shortfall.OVER_BUDGET),
        (TaskEnd.MEMORY, Shortfall.OVER_BUDGET),
        (TaskEnd.LATE, Shortfall.BUSY),
        (TaskEnd.BUSY, Shortfall.BUSY),
        (TaskEnd.DIED, Shortfall.FAULT),
    ],
)
async def test_a_review_that_was_stopped_leaves_what_the_manifest_says(
    end: TaskEnd, shortfall: Shortfall, workers: InlineWorkers, reviewer: JobReviewer
) -> None:
    workers.end, workers.results = end, 1
    wrong = {"spec": OBJECT["spec"] | {"script": "torchrun --nproc_per_node=3 t.py", "image": "bert:latest"}}
    answer = await reviewer(request(new=OBJECT | wrong))
    assert answer.allowed
    assert [warning.partition(":")[0] for warning in answer.warnings[:-1]] == ["image-unpinned"]
    assert answer.warnings[-1] == not_analysed(shortfall)
    assert answer.verdict is not None
    assert answer.verdict.shortfall is shortfall


async def test_without_any_result_the_job_passes_with_a_warning(workers: InlineWorkers, reviewer: JobReviewer) -> None:
    workers.end = TaskEnd.BUSY
    answer = await reviewer(request())
    assert (answer.allowed, answer.warnings) == (True, (not_analysed(Shortfall.BUSY),))


async def test_a_manifest_that_is_denied_stays_so_where_the_review_was_stopped(
    workers: InlineWorkers, reviewer: JobReviewer
) -> None:
    workers.end, workers.results = TaskEnd.TIME, 1
    answer = await reviewer(request(new=OBJECT | {"spec": OBJECT["spec"] | {"image": "not an image"}}))
    assert not answer.allowed
    assert "image-invalid" in answer.message


async def test_a_job_that_is_there_can_be_suspended_though_it_is_over_the_budget(
    view: ClusterView, workers: InlineWorkers, reviewer: JobReviewer
) -> None:
    metadata = {"name": "default", "resourceVersion": "2"}
    view.policies.watched("ADDED", {"metadata": metadata, "spec": {"analysis": {"onOverBudget": "Deny"}}})
    workers.end, workers.results = TaskEnd.TIME, 1
    assert not (await reviewer(request())).allowed
    assert (await reviewer(request(Operation.UPDATE, OBJECT, OBJECT))).allowed


async def test_a_review_has_the_time_of_its_asker_and_an_update_twice_the_processor_time(
    workers: InlineWorkers, reviewer: JobReviewer
) -> None:
    await reviewer(replace(request(), deadline=1000.0))
    await reviewer(replace(request(Operation.UPDATE, OBJECT, OBJECT), deadline=1000.0))
    first, second = workers.asked
    assert first == {"owner": "team", "cpu": 1.25, "deadline": pytest.approx(999.7)}
    assert second["cpu"] == 2.5


@pytest.mark.parametrize(
    "action, allowed, warnings", [("Deny", False, 0), ("Warn", True, 1), ("Audit", True, 0), ("Off", True, 0)]
)
async def test_the_policy_says_what_happens_to_a_job_that_was_not_analysed_in_time(
    action: str,
    allowed: bool,
    warnings: int,
    view: ClusterView,
    reviewer: JobReviewer,
    verdicts: Callable[[Judge], None],
) -> None:
    on_not_analysed(view, action)
    verdicts(lambda _: Verdict(unfinished=("image-unpinned",), shortfall=Shortfall.OVER_BUDGET))
    answer = await reviewer(request())
    assert (answer.allowed, len(answer.warnings)) == (allowed, warnings)
    assert all("takes too long to analyse" in warning for warning in answer.warnings)


@pytest.mark.parametrize("action", ["Deny", "Warn"])
async def test_a_rule_that_fails_is_logged_and_never_denies(
    action: str,
    view: ClusterView,
    reviewer: JobReviewer,
    verdicts: Callable[[Judge], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    on_not_analysed(view, action)
    failed = (("broken", "ZeroDivisionError: fault"),)
    verdicts(lambda _: Verdict(warned=(finding("other"),), unfinished=("broken",), failures=failed))
    answer = await reviewer(request())
    assert answer.allowed
    assert len(answer.warnings) == 2
    assert answer.warnings[1] == not_analysed(Shortfall.FAULT)
    assert ["ZeroDivisionError: fault" in record.getMessage() for record in caplog.records] == [True]


async def test_a_fault_of_the_review_itself_is_logged_and_never_denies(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None], caplog: pytest.LogCaptureFixture
) -> None:
    def judge(_: DLJob) -> Verdict:
        raise RecursionError("too deep")

    verdicts(judge)
    assert await reviewer(request()) == AdmissionResponse(allowed=True, warnings=(not_analysed(Shortfall.FAULT),))
    assert [(record.levelno, "RecursionError: too deep" in record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, True)
    ]


async def test_what_is_denied_stays_denied_when_another_rule_fails(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    verdicts(lambda _: Verdict(denied=(finding("any"),), unfinished=("broken",), failures=(("broken", "ValueError"),)))
    assert not (await reviewer(request())).allowed


LARGE = {**OBJECT, "spec": {**OBJECT["spec"], "args": ["x" * 130_000] * 3}}


async def test_a_job_that_is_too_large_is_refused_before_anything_reads_it(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    verdicts(lambda _: pytest.fail("it was read"))
    answer = await reviewer(request(new=LARGE))
    assert not answer.allowed
    assert [cause.field for cause in answer.causes] == ["spec"]
    assert "390" in answer.message
    assert "at most 262144 are allowed" in answer.message


async def test_a_stored_job_that_is_too_large_can_still_be_labelled_and_suspended(
    reviewer: JobReviewer, verdicts: Callable[[Judge], None]
) -> None:
    verdicts(lambda _: Verdict())
    changed = {**LARGE, "spec": {**LARGE["spec"], "suspend": True}}
    assert (await reviewer(request(Operation.UPDATE, new=changed, old=LARGE))).message != "spec"
    assert "at most 262144" not in (await reviewer(request(Operation.UPDATE, new=changed, old=LARGE))).message
