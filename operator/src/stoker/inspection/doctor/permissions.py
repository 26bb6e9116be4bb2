"""Checks of RBAC: what the operator's accounts may do, and what the user who asks may do. The API server is asked, by
SubjectAccessReviews, which it answers and does not store.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.adapters.kubernetes.client import ForbiddenError, Resource
from stoker.controller.leader_election import LEASE
from stoker.findings.wording import count
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.installation import Component, Role
from stoker.inspection.doctor.scene import Scene

SELF_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")
AT_ONCE = 8
"""Reviews that are asked for at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One verb on one resource; `resource` as kubectl has it: `dljobs/status`. `name`: of one object alone. `here`: in
    the operator's namespace alone. `watched`: in that namespace alone, of those that the release is restricted to.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    here: bool = False
    watched: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.watched}" if self.watched else ""
        return f"{self.verb} {kind}{f'/{self.name}' if self.name else ''}{where}"

    def attributes(self, namespace: str) -> dict[str, str]:
        """The resourceAttributes of a review; `namespace` is the operator's."""
        resource, _, subresource = self.resource.partition("/")
        given = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": namespace if self.here else self.watched,
        }
        return {key: value for key, value in given.items() if value}


def _each(group: str, resources: str, verbs: str, *, name: str = "", here: bool = False) -> tuple[Permission, ...]:
    return tuple(
        Permission(verb=verb, group=group, resource=resource, name=name, here=here)
        for resource in resources.split()
        for verb in verbs.split()
    )


METRICS_AUTHENTICATION = (
    *_each("authentication.k8s.io", "tokenreviews", "create"),
    *_each("authorization.k8s.io", "subjectaccessreviews", "create"),
)
SESSIONS = (*_each("", "pods", "get"), *_each("stoker.dev", "dljobs/status", "patch"))
CONTROLLER = (
    *_each("stoker.dev", "utilizationpolicies", "get list watch"),
    *_each("stoker.dev", "utilizationpolicies/status", "update"),
    *_each("", "nodes", "list"),
    *_each("", "namespaces", "get list watch"),
    *_each("coordination.k8s.io", "leases", "create", here=True),
    *_each("coordination.k8s.io", "leases", "get update", name=LEASE, here=True),
)
JOBS_OF_NAMESPACES = (
    *_each("stoker.dev", "dljobs", "get list watch delete"),
    *_each("stoker.dev", "dljobs/status dljobs/finalizers", "update"),
    *_each("batch", "jobs", "get list watch create patch delete"),
    *_each("kueue.x-k8s.io", "workloads", "list patch"),
    *_each("", "services", "get create"),
    *_each("", "pods", "list watch"),
    *_each("events.k8s.io", "events", "get list create patch"),
)
"""What the controller needs in the namespaces that it watches."""
WORKLOADS = (
    *_each("", "pods", "get"),
    *_each("stoker.dev", "gpuworkloads", "list watch create delete"),
    *_each("stoker.dev", "gpuworkloads/status", "update"),
)
"""What it needs there besides to watch workloads that are no DLJobs. Which owners of pods it may read the chart's value
workloads.kinds says; one that it may not read counts as the topmost.
"""
VOLUMES = _each("", "persistentvolumeclaims persistentvolumes", "get")
"""What the controller needs where it watches all namespaces."""
ADMISSION = (*_each("stoker.dev", "utilizationpolicies", "list watch"), *_each("", "namespaces", "list watch"))
COMMANDS = (
    *_each("stoker.dev", "dljobs", "get list patch"),
    *_each("stoker.dev", "utilizationpolicies", "list"),
    *_each("batch", "jobs", "get"),
    *_each("", "pods", "list"),
    *_each("", "namespaces", "get"),
)
"""What `stoker diagnose`, `explain`, `snooze` and `resume` need of whoever runs them."""


def _in(watched: Sequence[str], permissions: tuple[Permission, ...]) -> tuple[Permission, ...]:
    """These permissions in each namespace that the release is restricted to; in all if it is not."""
    return tuple(replace(one, watched=namespace) for namespace in watched or ("",) for one in permissions)


def required(component: Component, watched: Sequence[str]) -> tuple[Permission, ...]:
    """What a part of the operator needs with its options. watched: the namespaces that the controller watches; none for
    all.
    """
    metrics = () if "no-metrics-authentication" in component.options else METRICS_AUTHENTICATION
    match component.role:
        case Role.CONTROLLER:
            workloads = WORKLOADS if "watch-workloads" in component.options else ()
            needed = _in(watched, (*JOBS_OF_NAMESPACES, *workloads))
            return (*CONTROLLER, *needed, *(() if watched else VOLUMES), *metrics)
        case Role.ADMISSION:
            sessions = _in(watched, SESSIONS) if "note-sessions" in component.options else ()
            return (*ADMISSION, *metrics, *sessions)
        case Role.CERTIFICATES:
            secret, webhook = component.option("secret"), component.option("webhook")
            return (
                *_each("", "secrets", "get update", name=secret, here=True),
                *_each("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get patch", name=webhook),
            )


async def operator_permissions(scene: Scene) -> Outcome:
    """The operator's accounts may do what they need."""
    found = await scene.components()
    components = found.values()
    watched = found[Role.CONTROLLER].options.get("watch-namespace", ()) if Role.CONTROLLER in found else ()
    if not components:
        raise NotCheckableError(f"there are no Deployments of the operator in namespace {scene.namespace}")
    asked = [
        (f"system:serviceaccount:{scene.namespace}:{one.service_account}", one.service_account, required(one, watched))
        for one in components
    ]
    try:
        denied = {account: await _denied(scene, needed, user) for user, account, needed in asked}
    except ForbiddenError as error:
        raise NotCheckableError("you may not create subjectaccessreviews, which ask what others may do") from error
    return judge_accounts(denied, sum(len(needed) for _, _, needed in asked))


def judge_accounts(denied: Mapping[str, Sequence[Permission]], asked: int) -> Outcome:
    """`denied` is what each account may not do of what it needs."""
    lacking = [f"{account} may not {names([str(one) for one in lacks])}" for account, lacks in denied.items() if lacks]
    if lacking:
        return failed("; ".join(lacking))
    return ok(f"{names(list(denied))} have all {count(asked, 'permission')} that they need")


async def own_permissions(scene: Scene) -> Outcome:
    """The user who asks may run the commands."""
    return judge_own(await _denied(scene, COMMANDS, None))


def judge_own(denied: Sequence[Permission]) -> Outcome:
    """`denied` is what the user may not do in all namespaces."""
    if denied:
        return warning(f"in all namespaces you may not {names([str(one) for one in denied])}")
    return ok("you may run all commands of stoker in all namespaces")


async def _denied(scene: Scene, asked: Iterable[Permission], user: str | None) -> list[Permission]:
    """Which of these permissions a user (None: who asks) does not have."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def lacks(permission: Permission) -> Permission | None:
        async with gate:
            return None if await _allowed(scene, permission, user) else permission

    answers = await asyncio.gather(*map(lacks, asked))
    return [one for one in answers if one is not None]


async def _allowed(scene: Scene, permission: Permission, user: str | None) -> bool:
    resource = SELF_REVIEWS if user is None else REVIEWS
    spec: dict[str, Any] = {"resourceAttributes": permission.attributes(scene.namespace)}
    if user is not None:
        _, _, namespace, _ = user.split(":")
        groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        spec |= {"user": user, "groups": groups}
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    answer = await scene.api.create(resource, None, {"apiVersion": resource.api_version, "kind": kind, "spec": spec})
    return bool((answer.get("status") or {}).get("allowed"))


CHECKS = (
    Check(
        name="operator-permissions",
        group=Group.OPERATOR,
        what="The operator's ServiceAccounts have the permissions that they need (SubjectAccessReview).",
        advice="Install the chart with rbac.create=true, or grant what is missing (templates/rbac.yaml).",
        look=operator_permissions,
        needs=("api-server",),
    ),
    Check(
        name="own-permissions",
        group=Group.OPERATOR,
        what="You may read what `stoker diagnose` and `explain` read, and write what `snooze` and `resume` write.",
        advice="If you work in some namespaces only, this is as it should be; else ask for the roles edit and view.",
        look=own_permissions,
        needs=("api-server",),
    ),
)

__all__ = ["CHECKS", "COMMANDS", "Permission", "judge_accounts", "judge_own", "required"]
