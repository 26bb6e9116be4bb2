"""Checks of the API server: whether it answers, what time it has, and whether it knows Stoker's kinds."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from stoker.adapters.kubernetes.client import Object, Resource
from stoker.api.crds import definitions
from stoker.findings.wording import minutes
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.scene import Scene, field
from stoker.lint.kinds.pod import listed, mapping

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
OLDEST = (1, 33)
"""The oldest API server that the chart installs on (kubeVersion in charts/stoker/Chart.yaml)."""
NOTICEABLE_SKEW = timedelta(seconds=10)
"""Clocks that are synchronized are closer. Chosen because the Date header has whole seconds, and a request takes some.
"""
MAX_SKEW = timedelta(minutes=1)
"""The controller refuses metrics of a Prometheus whose clock differs by more (adapters.prometheus.source)."""


async def api_server(scene: Scene) -> Outcome:
    """It answers, and is new enough."""
    answer, _ = await scene.api_version()
    version = answer.content
    return judge_version(str(version.get("major", "")), str(version.get("minor", "")), str(version.get("gitVersion")))


def judge_version(major: str, minor: str, shown: str) -> Outcome:
    """`minor` may have a suffix, as in 33+."""
    digits = "".join(character for character in minor if character.isdigit())
    if not major.isdigit() or not digits:
        return warning(f"the API server answers, but its version is not known: {shown}")
    if (int(major), int(digits)) < OLDEST:
        return failed(f"the API server is {shown}; Stoker needs {OLDEST[0]}.{OLDEST[1]} or later")
    return ok(f"the API server answers: {shown}")


async def api_clock(scene: Scene) -> Outcome:
    """Its clock is this machine's."""
    answer, received = await scene.api_version()
    if answer.server_time is None:
        raise NotCheckableError("the API server's answer has no Date")
    return judge_skew("the API server", answer.server_time, received)


def judge_skew(server: str, theirs: datetime, ours: datetime) -> Outcome:
    """What the difference between two clocks means."""
    skew = theirs - ours
    size, side = abs(skew), "ahead of" if skew > timedelta(0) else "behind"
    found = f"the clock of {server} is {minutes(size.total_seconds())} {side} this machine's"
    if size > MAX_SKEW:
        return failed(found)
    return warning(found) if size > NOTICEABLE_SKEW else ok(f"the clock of {server} agrees with this machine's")


async def crds(scene: Scene) -> Outcome:
    """All kinds are served, as this program knows them."""
    stored = {name: await scene.get(CRDS, None, name) for name in _expected()}
    return judge_crds(stored)


def judge_crds(stored: Mapping[str, Object | None]) -> Outcome:
    """`stored` are the CustomResourceDefinitions by name, None for one that is missing."""
    missing = [name for name, found in stored.items() if found is None]
    if missing:
        return failed(f"missing: {names(missing)}")
    faults = [f"{name}: {fault}" for name, found in stored.items() if found and (fault := _fault(found))]
    if faults:
        return failed("; ".join(faults))
    other = [name for name, found in stored.items() if found and _schemas(found) != _schemas(_expected()[name])]
    if other:
        return warning(
            f"the schema of {names(other)} is of another version of Stoker than this program",
            "Upgrade the chart with crds.install=true, or use the `stoker` of the installed version.",
        )
    return ok(f"{names(list(stored))} are served with this program's schemas")


def _expected() -> dict[str, Mapping[str, Any]]:
    return {str(one["metadata"]["name"]): one for one in definitions().values()}


def _fault(found: Object) -> str:
    conditions = {one.get("type"): one for one in map(mapping, listed(field(found, "status", "conditions")))}
    established = mapping(conditions.get("Established"))
    if established.get("status") != "True":
        return f"not served: {established.get('message') or 'the condition Established is missing'}"
    ours = _versions(_expected()[str(found["metadata"]["name"])])
    served = {str(one.get("name")) for one in _versions(found) if one.get("served")}
    unserved = [str(one["name"]) for one in ours if one["name"] not in served]
    return f"version {names(unserved)} is not served" if unserved else ""


def _versions(definition: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [mapping(one) for one in listed(field(definition, "spec", "versions"))]


def _schemas(definition: Mapping[str, Any]) -> dict[str, object]:
    return {str(one.get("name")): one.get("schema") for one in _versions(definition)}


CHECKS = (
    Check(
        name="api-server",
        group=Group.CLUSTER,
        what=f"The API server answers, and is Kubernetes {OLDEST[0]}.{OLDEST[1]} or later.",
        advice="Check your kubeconfig and context (`kubectl version`), and upgrade an API server that is too old.",
        look=api_server,
    ),
    Check(
        name="api-clock",
        group=Group.CLUSTER,
        what=f"The API server's clock and this machine's differ by at most {NOTICEABLE_SKEW.total_seconds():.0f} s.",
        advice="Synchronize the clocks (NTP): idle times and deadlines are computed from both.",
        look=api_clock,
        needs=("api-server",),
    ),
    Check(
        name="crds",
        group=Group.CLUSTER,
        what="The CustomResourceDefinitions of Stoker's three kinds are served, with this program's schemas.",
        advice="Install the chart with crds.install=true, or apply the files of crds/.",
        look=crds,
        needs=("api-server",),
    ),
)

__all__ = ["CHECKS", "judge_crds", "judge_skew", "judge_version"]
