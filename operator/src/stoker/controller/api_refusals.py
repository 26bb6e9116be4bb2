"""Why the API server did not take a child, in its own words as far as they may be repeated.

What it says of the *create* of an object names fields and single values of the DLJob's own podTemplate, which whoever
reads its status may read, too. What it says of a refused *update* of immutable fields echoes whole templates with their
environment: of that nothing is repeated.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.adapters.kubernetes.client import ApiError, ErrorCause, ForbiddenError, InvalidError
from stoker.api.dljob import OPERATORS_CONTAINER_FIELDS, TRAINER
from stoker.findings.finding import single_line
from stoker.workload.pods import Obstacle

MAX_CAUSES = 3
"""Causes of a refusal that are repeated to the owner."""
MAX_WORDS = 256
"""Characters of one cause, and of what a webhook or a policy says."""
MAX_WARNINGS = 5
"""Warnings of the API server that are repeated to the owner."""
RETRIED = "Stoker tries again"

WEBHOOK_REFUSAL = re.compile(r'admission webhook "([^"]{1,253})" denied the request')
WEBHOOK_FAILURE = re.compile(r'failed calling webhook "([^"]{1,253})"')
POLICY_REFUSAL = re.compile(r"ValidatingAdmissionPolicy '([^']{1,253})'")
OWN_VERDICTS = ('Job.batch "', 'Job in version "v1" cannot be handled as a Job')
"""How the API server's own verdict on a Job begins, whose spec follows from the DLJob's, which can't be changed. What
webhooks, policies and quotas say begins otherwise, and may be otherwise later.
"""
INDEXED = re.compile(r"\b(containers|initContainers|volumes)\[([0-9]{1,4})\]")
STRUCTURES = ("{", "[", "&", "map[", "core.", "v1.", "batch.")
"""How a value begins that is printed as a whole object."""


def not_created(error: ApiError, manifest: Mapping[str, Any]) -> Obstacle:
    """Why a child could not be created. `manifest` is what was to be created."""
    kind = manifest["kind"]
    if isinstance(error, InvalidError) and _refuser(error.answer) is None:
        causes = [_cause(cause, manifest) for cause in error.causes] or [_words(error.answer, manifest)]
        message = f"the API server rejects the {kind} as invalid: {_listed(causes)}"
        return Obstacle(reason="JobInvalid", message=message, is_final=error.answer.startswith(OWN_VERDICTS))
    if isinstance(error, ForbiddenError | InvalidError):
        return Obstacle(reason="JobForbidden", message=_forbidden(error, manifest))
    return Obstacle(reason="JobNotCreated", message=f"the {kind} could not be created: {unanswered(error)}; {RETRIED}")


def not_changed(error: ApiError, what: str) -> str:
    """Why a child could not be changed, `what` being what was to be done: `suspended`. Of the API server's words only
    the name of what refused is repeated.
    """
    if isinstance(error, ForbiddenError | InvalidError):
        return f"its Job can't be {what}: {_refuser(error.answer) or 'the API server refuses the change'}; {RETRIED}"
    return f"its Job can't be {what}: {unanswered(error)}; {RETRIED}"


def unanswered(error: ApiError) -> str:
    """What kept the API server from an answer: the webhook that did not answer it, or its code."""
    if (webhook := WEBHOOK_FAILURE.search(error.answer)) is not None:
        return f"the admission webhook {bounded(webhook[1])} does not answer"
    if error.code is None:
        return f"the API server did not answer ({error.reason})"
    return f"the API server answered {error.code} {error.reason}"


def warned(warnings: Iterable[str], manifest: Mapping[str, Any]) -> str:
    """What the API server warned of when a child was created; empty where it did not."""
    return _listed(list(dict.fromkeys(_words(text, manifest) for text in warnings)), limit=MAX_WARNINGS)


def _forbidden(error: ApiError, manifest: Mapping[str, Any]) -> str:
    kind, answer = manifest["kind"], error.answer
    refuser = _refuser(answer)
    if refuser is not None:
        _, _, said = answer.partition("denied the request: " if "webhook" in refuser else "denied request: ")
        return f"{refuser}: {_words(said, manifest)}" if said else refuser
    for sign, who in (
        ("exceeded quota: ", f"a ResourceQuota of the namespace leaves no room for the {kind}: exceeded quota "),
        ("failed quota: ", f"a ResourceQuota of the namespace refuses the {kind}: "),
        ("violates PodSecurity ", f"Pod Security refuses the {kind}: violates PodSecurity "),
        ("because it is being terminated", "the namespace is being deleted"),
        ("cannot create resource", f"the operator's account may not create a {kind} in this namespace (RBAC)"),
    ):
        _, found, said = answer.partition(sign)
        if found:
            return f"{who}{_words(said, manifest)}" if who.endswith(" ") else who
    _, found, said = answer.partition(" is forbidden: ")
    return f"the API server forbids the {kind}" + (f": {_words(said, manifest)}" if found else "")


def _refuser(answer: str) -> str | None:
    """The webhook or admission policy that refused a request."""
    if (webhook := WEBHOOK_REFUSAL.search(answer)) is not None:
        return f"the admission webhook {bounded(webhook[1])} refuses it"
    if (policy := POLICY_REFUSAL.search(answer)) is not None:
        return f"the ValidatingAdmissionPolicy {bounded(policy[1])} refuses it"
    return None


def _cause(cause: ErrorCause, manifest: Mapping[str, Any]) -> str:
    what, value, rest = cause.message.partition("Invalid value: ")
    if value and rest.startswith(STRUCTURES):
        rest = rest.rpartition(": ")[2]
    said = f"{what}{value}{rest}"
    return _words(f"{cause.field}: {said}" if cause.field else said, manifest)


def _words(text: str, manifest: Mapping[str, Any]) -> str:
    """The API server's words of a child as words of the DLJob, on one bounded line: its fields' paths, containers and
    volumes by name.
    """

    def named(found: re.Match[str]) -> str:
        entries = spec.get(found[1]) or ()
        place = int(found[2])
        return f"{found[1]}[{entries[place]['name']}]" if place < len(entries) else found[0]

    line = bounded(text)
    if manifest["kind"] != "Job":
        return line
    spec = manifest["spec"]["template"]["spec"]
    line = INDEXED.sub(named, line.replace("spec.template.", "spec.podTemplate."))
    for field, own in OPERATORS_CONTAINER_FIELDS.items():
        line = line.replace(f"spec.podTemplate.spec.containers[{TRAINER}].{field}", own)
    return line


def bounded(text: str) -> str:
    """One line of at most MAX_WORDS characters, cut in the middle: what is wrong stands at the end."""
    line = single_line(text[: 64 * MAX_WORDS])
    if len(line) <= MAX_WORDS:
        return line
    kept = MAX_WORDS - len(" ... ")
    return f"{line[: kept // 2]} ... {line[-(kept - kept // 2) :]}"


def _listed(lines: list[str], *, limit: int = MAX_CAUSES) -> str:
    more = len(lines) - limit
    return "; ".join(lines[:limit]) + (f"; and {more} more" if more > 0 else "")
