"""Each check, green and red, by what it was given to judge. On real servers: e2e/scenarios/doctor."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker import __version__
from stoker.adapters.certificates import issue
from stoker.adapters.kubernetes.client import ForbiddenError, InvalidError, UnavailableError
from stoker.adapters.prometheus.metric_profile import profile_of
from stoker.adapters.prometheus.promql import Selectors
from stoker.api.crds import definitions
from stoker.api.policy import UtilizationPolicy
from stoker.inspection.doctor.check import NotCheckableError, Outcome, Status
from stoker.inspection.doctor.control_plane import judge_crds, judge_skew, judge_version
from stoker.inspection.doctor.exporters import gpu_nodes, judge_nodes, judge_pods, pods_with_gpus
from stoker.inspection.doctor.installation import Component, Role
from stoker.inspection.doctor.jobs import DueJob, judge_kueue, judge_policies, judge_reclaim
from stoker.inspection.doctor.metrics import (
    judge_freshness,
    judge_interval,
    judge_profiling,
    measured_interval,
    stuck_query,
)
from stoker.inspection.doctor.operator import judge_deployments, judge_lease, judge_statuses, judge_versions
from stoker.inspection.doctor.permissions import COMMANDS, judge_accounts, judge_own
from stoker.inspection.doctor.webhook import judge_bundle, judge_certificate, judge_refusal, judge_reviews, judge_rules
from stoker.policy.checks import ClusterSettings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "stoker-admission.stoker-system.svc"
OK, WARNING, FAILED = Status.OK, Status.WARNING, Status.FAILED
NVIDIA = profile_of("nvidia")


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).isoformat()


def ends(outcome: Outcome, status: Status, *words: str) -> None:
    assert outcome.status is status, outcome
    assert all(word in outcome.found for word in words), outcome


@pytest.mark.parametrize(
    "major, minor, status",
    [("1", "33", OK), ("1", "34+", OK), ("2", "0", OK), ("1", "32", FAILED), ("", "", WARNING), ("1", "x", WARNING)],
)
def test_the_api_servers_version(major: str, minor: str, status: Status) -> None:
    ends(judge_version(major, minor, f"v{major}.{minor}"), status, f"v{major}.{minor}")


@pytest.mark.parametrize(
    "seconds, status, side",
    [(9, OK, "agrees"), (-9, OK, "agrees"), (11, WARNING, "ahead of"), (-11, WARNING, "behind"), (61, FAILED, "ahead")],
)
def test_clocks(seconds: float, status: Status, side: str) -> None:
    ends(judge_skew("Prometheus", NOW + timedelta(seconds=seconds), NOW), status, "Prometheus", side)


def stored_kinds() -> dict[str, Any]:
    """Both kinds as the API server has them."""
    served = {"conditions": [{"type": "Established", "status": "True"}]}
    return {str(one["metadata"]["name"]): {**deepcopy(dict(one)), "status": served} for one in definitions().values()}


def test_the_kinds_as_this_program_knows_them() -> None:
    ends(judge_crds(stored_kinds()), OK, "dljobs.stoker.dev", "utilizationpolicies.stoker.dev")


def test_a_kind_that_is_missing() -> None:
    ends(judge_crds({**stored_kinds(), "dljobs.stoker.dev": None}), FAILED, "missing: dljobs.stoker.dev")


def test_a_kind_that_is_not_established() -> None:
    kinds = stored_kinds()
    kinds["dljobs.stoker.dev"]["status"] = {
        "conditions": [{"type": "Established", "status": "False", "message": "names conflict"}]
    }
    ends(judge_crds(kinds), FAILED, "dljobs.stoker.dev", "names conflict")


def test_a_version_that_is_not_served() -> None:
    kinds = stored_kinds()
    kinds["dljobs.stoker.dev"]["spec"]["versions"][0]["served"] = False
    ends(judge_crds(kinds), FAILED, "version v1alpha1 is not served")


def test_a_schema_of_another_version() -> None:
    kinds = stored_kinds()
    del kinds["dljobs.stoker.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    ends(judge_crds(kinds), WARNING, "dljobs.stoker.dev", "another version")


def component(role: Role, replicas: int = 2, ready: int = 2) -> Component:
    return Component(
        role=role, name=f"stoker-{role}", service_account="x", replicas=replicas, ready=ready, version=__version__
    )


@pytest.mark.parametrize(
    "controller, admission, status, words",
    [
        ((2, 2), (2, 2), OK, "all replicas"),
        ((2, 1), (2, 2), WARNING, "stoker-controller (1 of 2)"),
        ((0, 0), (2, 2), WARNING, "scaled to 0 replicas: stoker-controller"),
        ((2, 2), (2, 0), FAILED, "stoker-admission"),
        ((2, 2), None, FAILED, "stoker run admission"),
    ],
)
def test_deployments(
    controller: tuple[int, int], admission: tuple[int, int] | None, status: Status, words: str
) -> None:
    found = {Role.CONTROLLER: component(Role.CONTROLLER, *controller)}
    if admission is not None:
        found[Role.ADMISSION] = component(Role.ADMISSION, *admission)
    ends(judge_deployments(found, "stoker-system"), status, words)


def test_versions() -> None:
    ends(judge_versions([__version__, __version__]), OK, __version__)
    ends(judge_versions([__version__, "9.9.9"]), WARNING, "9.9.9", __version__)
    with pytest.raises(NotCheckableError, match=r"app\.kubernetes\.io/version"):
        judge_versions([""])


@pytest.mark.parametrize(
    "spec, status, words",
    [
        ({"holderIdentity": "a", "renewTime": ago(seconds=30)}, OK, "a leads"),
        ({"holderIdentity": "a", "renewTime": ago(seconds=61)}, FAILED, "a has not renewed"),
        ({"holderIdentity": "a", "renewTime": "soon"}, FAILED, "unknown time"),
        ({"holderIdentity": "", "renewTime": ago(seconds=1)}, FAILED, "no holder"),
    ],
)
def test_the_lease(spec: dict[str, str], status: Status, words: str) -> None:
    ends(judge_lease({"spec": spec}, NOW), status, words)


def test_a_lease_that_was_never_made() -> None:
    ends(judge_lease(None, NOW), FAILED, "no controller has ever led")


def holding(name: str, *, reason: str = "Active", **looked_at: float) -> dict[str, Any]:
    status = {"phase": "Running", "conditions": [{"type": "Idle", "status": "False", "reason": reason}]}
    return {
        "metadata": {"namespace": "team", "name": name},
        "status": {**status, **({"lookedAt": ago(**looked_at)} if looked_at else {})},
    }


def test_statuses() -> None:
    ends(judge_statuses([], NOW), OK, "no DLJob")
    ends(judge_statuses([holding("a", minutes=19), holding("b")], NOW), OK, "2 jobs")
    ends(judge_statuses([holding("a")], NOW), WARNING, "not yet")
    ends(judge_statuses([holding("a", minutes=1), holding("b", minutes=21)], NOW), FAILED, "team/b")
    ends(judge_statuses([holding("a", minutes=1, reason="ScanFailed")], NOW), FAILED, "metrics of team/a")


def test_permissions() -> None:
    ends(judge_accounts({"stoker-controller": []}, 40), OK, "40 permissions")
    ends(judge_accounts({"stoker-controller": COMMANDS[:1]}, 40), FAILED, "may not get dljobs.stoker.dev")
    ends(judge_own([]), OK)
    ends(judge_own(COMMANDS), WARNING, "get dljobs.stoker.dev", "2 more")


def entry(plural: str, policy: str = "Fail") -> dict[str, Any]:
    return {
        "name": f"{plural}.stoker.dev",
        "failurePolicy": policy,
        "rules": [{"apiGroups": ["stoker.dev"], "resources": [plural]}],
    }


def test_webhook_rules() -> None:
    ends(judge_rules([entry("dljobs"), entry("utilizationpolicies")]), OK)
    ends(judge_rules([entry("dljobs")]), FAILED, "utilizationpolicies")
    ends(judge_rules([entry("dljobs", "Ignore"), entry("utilizationpolicies")]), WARNING, "dljobs.stoker.dev")


def test_what_the_api_server_says_of_the_trial() -> None:
    denied = 'admission webhook "utilizationpolicies.stoker.dev" denied the request: no'
    ends(judge_refusal(ForbiddenError("POST", code=403, reason="Forbidden", answer=denied)), OK)
    broken = 'Internal error occurred: failed calling webhook "x": x509: unknown authority'
    ends(judge_refusal(UnavailableError("POST", code=500, reason="InternalError", answer=broken)), FAILED, "x509")
    with pytest.raises(NotCheckableError, match="may not create"):
        judge_refusal(ForbiddenError("POST", code=403, reason="Forbidden", answer="User cannot create"))


def test_what_the_api_server_says_of_two_jobs() -> None:
    refused = InvalidError("POST", code=422, reason="Invalid", answer="launcher-too-few: 1 process for 2 GPUs")
    ends(judge_reviews([], refused, "team"), OK, "in team", "refused")
    ends(judge_reviews([], ["launcher-too-few: 1 process for 2 GPUs"], "team"), OK, "with a warning")
    ends(judge_reviews(["another warning"], [], "team"), FAILED, "in team without a word")
    other = InvalidError("POST", code=422, reason="Invalid", answer="spec.image: no")
    ends(judge_reviews([], other, "team"), FAILED, "not for launcher-too-few", "spec.image")
    ends(judge_reviews(other, other, "team"), FAILED, "a right DLJob is refused", "spec.image")
    broken = 'Internal error occurred: failed calling webhook "x": x509: unknown authority'
    down = UnavailableError("POST", code=500, reason="InternalError", answer=broken)
    ends(judge_reviews(down, down, "team"), FAILED, "can't call the webhook", "x509")
    forbidden = ForbiddenError("POST", code=403, reason="Forbidden", answer="User cannot create")
    with pytest.raises(NotCheckableError, match="User cannot create"):
        judge_reviews(forbidden, forbidden, "team")


def test_certificates() -> None:
    made = issue([HOST], now=NOW - timedelta(days=60), valid=timedelta(days=90))
    other = issue([HOST], now=NOW, valid=timedelta(days=90))

    def judged(now: datetime, authority: str = made.authority, host: str = HOST) -> Outcome:
        return judge_certificate(made.certificate, made.key, authority, host=host, now=now)

    ends(judged(NOW), OK, "2026-12-21")
    ends(judged(NOW + timedelta(days=10)), WARNING, "not renewed", "2026-12-21")
    ends(judged(NOW + timedelta(days=31)), FAILED, "expired")
    ends(judged(NOW - timedelta(days=61)), FAILED, "valid from")
    ends(judged(NOW, other.authority), FAILED, "does not trust")
    ends(judged(NOW, host="elsewhere.svc"), FAILED, "not for elsewhere.svc")
    ends(judge_certificate("", "", made.authority, host=HOST, now=NOW), FAILED, "no certificate")
    assert judge_bundle(made.authority, NOW) is None
    for authority, now in ((made.authority, NOW + timedelta(days=31)), ("", NOW), ("nonsense", NOW)):
        bundle = judge_bundle(authority, now)
        assert bundle is not None
        ends(bundle, FAILED)


def test_samples() -> None:
    ends(judge_freshness(NOW - timedelta(seconds=59), 16, ["util"], NOW), OK, "16 series")
    ends(judge_freshness(NOW - timedelta(seconds=90), 16, ["util"], NOW), FAILED, "90 s ago")
    ends(judge_freshness(None, 0, ["util", "utilRatio"], NOW), FAILED, "util or utilRatio")


def test_scrape_intervals() -> None:
    told = ClusterSettings(scrape_interval=timedelta(seconds=30))
    measured = measured_interval([[0, 30, 60, 95], [10, 40]])
    assert measured == timedelta(seconds=30)
    ends(judge_interval(measured, told), OK, "every 30 s")
    ends(judge_interval(timedelta(seconds=46), told), WARNING, "46 s", "told 30 s")
    ends(judge_interval(timedelta(seconds=46), None), OK)
    ends(judge_interval(timedelta(seconds=91), told), FAILED, "91 s")
    ended = [0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert measured_interval([ended, ended, [100, 130, 160, 190]]) == timedelta(seconds=30)
    assert measured_interval([[0, 30]]) is None
    assert measured_interval([[], []]) is None
    with pytest.raises(NotCheckableError, match="too few samples"):
        judge_interval(None, told)


def test_profiling_metrics() -> None:
    ends(judge_profiling([], [], 5), OK)
    ends(judge_profiling(["tensor"], [], 5), WARNING, "tensor")
    ends(judge_profiling(["a", "b"], [], 2), WARNING, "no profiling metrics")
    ends(judge_profiling([], ["GPU-1"], 5), FAILED, "GPU-1")


def test_utilization_is_compared_in_the_unit_of_each_exporter() -> None:
    query = stuck_query(Selectors(), NVIDIA)
    assert "avg_over_time(DCGM_FI_DEV_GPU_UTIL[900s])) > 20" in query
    assert "avg_over_time(DCGM_FI_DEV_GPU_UTIL_RATIO[900s])) > 0.2" in query


def node(name: str, **allocatable: str) -> dict[str, Any]:
    offered = {key.replace("_", "/", 1).replace("_", "-"): value for key, value in allocatable.items()}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": f"{name}.local"}}
    status = {
        "allocatable": {"cpu": "8", **offered},
        "addresses": [{"type": "InternalIP", "address": f"10.0.0.{name}"}],
    }
    return {"metadata": metadata, "status": status}


def test_nodes_with_gpus_of_every_kind() -> None:
    nodes = [
        node("1", **{"nvidia.com_gpu": "8"}),
        node("2", **{"amd.com_gpu": "8"}),
        node("3", **{"nvidia.com_mig_1g.10gb": "7"}),
        node("4"),
        node("5", **{"nvidia.com_gpu": "0"}),
        node("6", **{"example.com_gpumem": "80"}),
    ]
    found = gpu_nodes(nodes)
    assert list(found) == ["1", "2", "3"]
    ends(judge_nodes(found, {"1", "2.local", "10.0.0.3"}), OK, "3 nodes")
    ends(judge_nodes(found, {"1", "2.local"}), FAILED, "1 of 3 nodes", "3")
    ends(judge_nodes(found, {"another"}), WARNING, "no series")
    ends(judge_nodes({}, {"another"}), WARNING, "no node offers GPUs")


def gpu_pod(name: str, phase: str = "Running", **started: float) -> dict[str, Any]:
    running = {"state": {"running": {"startedAt": ago(**started)}}}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"namespace": "team", "name": name},
        "spec": {"containers": [container]},
        "status": {"phase": phase, "containerStatuses": [running]},
    }


def test_pods_that_are_missed() -> None:
    pods = pods_with_gpus(
        [
            gpu_pod("a", hours=1),
            gpu_pod("b", hours=1),
            gpu_pod("young", minutes=1),
            gpu_pod("over", "Succeeded", hours=1),
        ],
        NOW,
    )
    assert pods == {("team", "a"), ("team", "b")}

    def rows(*labels: Mapping[str, str]) -> list[Mapping[str, str]]:
        return [{"UUID": "GPU-1", **one} for one in labels]

    exported = [
        {"exported_namespace": "team", "exported_pod": name, "namespace": "gpu", "pod": "dcgm"} for name in "ab"
    ]
    ends(judge_pods(pods, rows(*exported), NVIDIA), OK, "2 pods")
    ends(judge_pods(pods, rows({"namespace": "team", "pod": "a"}), NVIDIA), WARNING, "team/b")
    unmapped = judge_pods(pods, rows({}), NVIDIA)
    ends(unmapped, FAILED, "no labels with a pod")
    assert "DCGM_EXPORTER_KUBERNETES" in unmapped.advice
    overwritten = judge_pods(pods, rows({"namespace": "gpu", "pod": "dcgm"}), NVIDIA)
    ends(overwritten, FAILED, "gpu/dcgm")
    assert "honorLabels" in overwritten.advice
    with pytest.raises(NotCheckableError, match="no pod has had GPUs"):
        judge_pods(set(), rows(), NVIDIA)


def test_kueue() -> None:
    ends(judge_kueue(["v1beta1", "v1beta2"]), OK, "v1beta2")
    ends(judge_kueue(["v1beta1"]), OK, "v1beta1")
    ends(judge_kueue(["v2"]), FAILED, "v2", "v1beta2")


def policy(name: str = "default", status: dict[str, Any] | None = None, **spec: Any) -> UtilizationPolicy:
    return UtilizationPolicy.model_validate(
        {"metadata": {"name": name}, "spec": spec, **({"status": status} if status else {})}
    )


def judged_policies(*found: UtilizationPolicy, invalid: tuple[str, ...] = (), told: int = 30) -> Outcome:
    settings = ClusterSettings(scrape_interval=timedelta(seconds=told))
    return judge_policies(found, invalid, settings, [{"team": "a"}], NOW)


def test_policies_that_are_as_they_should_be_say_what_they_do() -> None:
    classes = [{"name": "batch", "jobTypes": ["Training"], "mode": "Suspend"}]
    override = policy("research", namespaceSelector={"matchLabels": {"team": "a"}}, reclaim={"classes": classes})
    ends(judged_policies(policy(reclaim={"mode": "Observe"}), override), OK, "default: Observe", "batch Suspend")
    acts = policy("research", namespaceSelector={"matchLabels": {"team": "a"}}, reclaim={"mode": "Suspend"})
    ends(judged_policies(acts), OK, "research: Suspend (acts)")
    ends(judged_policies(), OK, "built-in")


def test_policies_that_are_wrong() -> None:
    ends(judged_policies(invalid=("old",)), FAILED, "old")
    ends(judged_policies(policy(reclaim={"idleAfter": "10m"}), told=400), FAILED, "spec.reclaim.idleAfter")
    nowhere = policy("research", namespaceSelector={"matchLabels": {"team": "b"}})
    ends(judged_policies(nowhere), WARNING, "no namespace has these labels")
    stopped = {"brake": {"since": "2026-11-21T11:00:00Z", "message": "half of the GPUs turned idle"}}
    ends(judged_policies(policy(status=stopped)), WARNING, "brake", "default")


def test_the_forecast() -> None:
    ends(judge_reclaim([]), OK, "no idle DLJob")
    due = [DueJob(name="team/a", gpus=8, acts=False), DueJob(name="team/b", gpus=1, acts=True)]
    ends(judge_reclaim(due), OK, "1 job with 1 GPU (team/b) may be reclaimed now", "1 job with 8 GPUs (team/a) would")
