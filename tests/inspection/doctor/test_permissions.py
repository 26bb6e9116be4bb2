"""What `stoker doctor` asks of the operator's accounts is what the chart grants them."""

import pytest

from e2e.permissions import listed, resource_name
from stoker.inspection.doctor.installation import Component, Role
from stoker.inspection.doctor.permissions import required
from stoker.lint.kinds.registry import KINDS

OPTIONS = {
    Role.CONTROLLER: {"watch-workloads": ("",)},
    Role.ADMISSION: {"note-sessions": ("",)},
    Role.CERTIFICATES: {"secret": ("stoker-admission-tls",), "webhook": ("stoker-admission",)},
}
OWNERS = {resource_name(kind.group, kind.plural) for kind in KINDS if kind.plural} - {
    "dljobs.stoker.dev",
    "jobs.batch",
    "pods",
}
"""The kinds of workload of which the controller may read nothing but metadata."""


def asked(role: Role, watched: tuple[str, ...] = ()) -> set[tuple[str, str, str]]:
    account = f"stoker-{role.value}"
    component = Component(
        role=role, name=account, service_account=account, replicas=1, ready=1, version="", options=OPTIONS[role]
    )
    return {(one.verb, resource_name(one.group, one.resource), one.name) for one in required(component, watched)}


@pytest.mark.parametrize("role", list(Role))
def test_each_permission_is_asked_for(role: Role) -> None:
    granted = {(one.verb, one.resource, one.name) for one in listed() if one.account == f"stoker-{role.value}"}
    # Nothing of the controller's own tells whether it may read logs, and owners of which kinds.
    untold = {("get", "pods/log", "")} | {("get", resource, "") for resource in OWNERS}
    assert asked(role) == granted - untold


def test_of_a_restricted_release_namespaces_are_asked_for_one_by_one() -> None:
    component = Component(
        role=Role.CONTROLLER, name="c", service_account="c", replicas=1, ready=1, version="", options={}
    )
    needed = required(component, ("team-a", "team-b"))
    watched = {one.watched for one in needed if one.resource == "dljobs"}
    assert watched == {"team-a", "team-b"}
    assert {one.attributes("stoker-system").get("namespace") for one in needed if one.resource == "dljobs"} == watched
    assert "list pods in namespace team-b" in map(str, needed)
    assert not [one for one in needed if one.resource == "persistentvolumes"]
