"""What the chart's roles allow the operator's accounts, what each permission is for, and what the API server saw used.

permissions.yaml has a line for each permission with the test that makes the operator use it. After that test the audit
log of its cluster must have the request (e2e/conftest.py); the chart must grant what the file lists and nothing else
(scenarios/api/test_permissions.py). docs/permissions.md is generated from the same file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PERMISSIONS = Path(__file__).with_name("permissions.yaml")
ACCOUNTS = "system:serviceaccount:stoker-system:"
AGENTS = ("stoker", "kopf/")
"""How the operator's own requests begin their User-Agent. A test may borrow an account's token; that is no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One verb on one resource, as `jobs.batch` or `dljobs.stoker.dev/status`. name: the only object that it is for;
    empty for all.
    """

    account: str
    verb: str
    resource: str
    name: str = ""

    def covers(self, request: "Permission") -> bool:
        """Whether this permission is what allowed the request, which names its object."""
        asked = (request.account, request.verb, request.resource)
        return asked == (self.account, self.verb, self.resource) and self.name in {"", request.name}


def resource_name(group: str, resource: str) -> str:
    """A resource with its group, as kubectl writes it: `jobs.batch`, `pods/log`, `dljobs.stoker.dev/status`."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}{'.' if group else ''}{group}{slash}{subresource}"


def listed(path: Path = PERMISSIONS) -> dict[Permission, str]:
    """The permissions of the file, each with the node id of the test that shows its use; "" for those that the API
    server checks without a request.
    """
    return {
        Permission(account=account, verb=verb, resource=entry["resource"], name=entry.get("name", "")): (
            f"e2e/scenarios/{shown_by}" if shown_by else ""
        )
        for account, entries in yaml.safe_load(path.read_text()).items()
        for entry in entries
        for verb, shown_by in entry["verbs"].items()
    }


def granted(documents: Iterable[Mapping[str, Any]]) -> set[Permission]:
    """What rendered roles and their bindings grant to ServiceAccounts of the operator, whatever the namespace."""
    documents = list(documents)
    rules = {_role(one["kind"], one["metadata"]): one["rules"] for one in documents if one["kind"].endswith("Role")}
    return {
        permission
        for binding in documents
        if binding["kind"].endswith("RoleBinding")
        for subject in binding["subjects"]
        if subject["kind"] == "ServiceAccount"
        for rule in rules[_role(binding["roleRef"]["kind"], binding["metadata"] | binding["roleRef"])]
        for permission in _of_rule(subject["name"], rule)
    }


def _role(kind: str, named: Mapping[str, Any]) -> tuple[str, str]:
    return named["name"], named["namespace"] if kind == "Role" else ""


def _of_rule(account: str, rule: Mapping[str, Any]) -> Iterator[Permission]:
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Permission(account=account, verb=verb, resource=resource_name(group, resource), name=name)


def used(audit_log: Path) -> set[Permission]:
    """What the operator's accounts asked for and got, by an API server's audit log."""
    with audit_log.open() as lines:
        events = [json.loads(line) for line in lines if line.endswith("\n")]
    return {
        Permission(
            account=event["user"]["username"].removeprefix(ACCOUNTS),
            verb=event["verb"],
            resource=resource_name(
                event["objectRef"].get("apiGroup", ""),
                "/".join(filter(None, (event["objectRef"]["resource"], event["objectRef"].get("subresource")))),
            ),
            name=event["objectRef"].get("name", ""),
        )
        for event in events
        if event["user"]["username"].startswith(ACCOUNTS)
        and event.get("userAgent", "").startswith(AGENTS)
        and "objectRef" in event
        and event.get("responseStatus", {}).get("code", 500) < 400
    }


def unused(permissions: Iterable[Permission], requests: Iterable[Permission]) -> list[Permission]:
    """The permissions that no request needed."""
    requests = list(requests)
    return [one for one in permissions if not any(one.covers(request) for request in requests)]
