"""Checks of admission: whether the API server asks the webhook, gets answers, and trusts its certificate."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from stoker.adapters.certificates import read_all, serves
from stoker.adapters.kubernetes.client import (
    DLJOBS,
    POLICIES,
    ApiError,
    ForbiddenError,
    NotFoundError,
    Object,
    Resource,
)
from stoker.api.names import GROUP
from stoker.findings.finding import rfc3339
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.installation import Role
from stoker.inspection.doctor.scene import Scene, field
from stoker.lint.kinds.pod import listed, mapping

WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
SECRETS = Resource("", "v1", "secrets")
REVIEWED = ("dljobs", "utilizationpolicies")
"""The kinds that the webhook reviews, by their plurals."""
RENEWAL = 1 / 4
"""Share of a certificate's validity. It is renewed when a third is left (certificates.renewal); with less than this the
renewal does not work. cert-manager, too, renews when a third is left.
"""
TRIAL: Mapping[str, Any] = {
    "apiVersion": POLICIES.api_version,
    "kind": "UtilizationPolicy",
    "metadata": {"name": "stoker-doctor-trial"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"stoker.dev/doctor": "trial"}},
        "thresholds": {"lowPercent": 1, "idlePercent": 2},
    },
}
"""A policy that contradicts itself, sent as a dry run: the webhook must refuse it, whatever else is configured."""
RULE = "launcher-too-few"
"""The rule that TRIAL_SCRIPTS' wrong job breaks; its action is Deny unless a policy says otherwise."""
TRIAL_SCRIPTS = {"right": "torchrun --nproc_per_node=2 train.py\n", "wrong": "torchrun --nproc_per_node=1 train.py\n"}
"""The scripts of two DLJobs with two GPUs: one uses both, one leaves a GPU without a process."""


async def webhook_rules(scene: Scene) -> Outcome:
    """The API server sends both kinds to the webhook."""
    return judge_rules(await _webhooks(scene))


def judge_rules(webhooks: Sequence[Mapping[str, Any]]) -> Outcome:
    """`webhooks` are the entries of the webhook configurations that are about Stoker's kinds."""
    covered = {resource for one in webhooks for resource in _resources(one)}
    missing = [plural for plural in REVIEWED if plural not in covered]
    if missing:
        return failed(f"no ValidatingWebhookConfiguration is for {names(missing)}: they are not reviewed")
    open_ones = [str(one.get("name")) for one in webhooks if one.get("failurePolicy") == "Ignore"]
    if open_ones:
        return warning(f"while the webhook is down, what it reviews is admitted unseen: {names(open_ones)}")
    return ok(f"{names([str(one.get('name')) for one in webhooks])} are in force")


async def webhook_answers(scene: Scene) -> Outcome:
    """The webhook refuses what it must refuse."""
    try:
        await scene.api.would_create(POLICIES, None, TRIAL)
    except ApiError as error:
        return judge_refusal(error)
    return failed("the API server accepts a policy that contradicts itself: the webhook is not asked, or can't answer")


def judge_refusal(error: ApiError) -> Outcome:
    """What it means that the trial was refused."""
    if "admission webhook" in error.answer and "denied the request" in error.answer:
        return ok("the webhook answers: it refused a policy that contradicts itself, sent as a dry run")
    if "failed calling webhook" in error.answer or "failed to call webhook" in error.answer:
        return failed(f"the API server can't call the webhook: {error.answer}")
    if isinstance(error, ForbiddenError):
        raise NotCheckableError("you may not create utilizationpolicies, of which one is sent as a dry run")
    if isinstance(error, NotFoundError):
        raise NotCheckableError("the API server does not know utilizationpolicies")
    raise NotCheckableError(f"the API server refused the dry run for another reason: {error.answer or error}")


async def webhook_reviews(scene: Scene) -> Outcome:
    """The webhook tells a right DLJob from a wrong one."""
    if scene.trial_namespace is None:
        raise NotCheckableError("no --trial-namespace was given, in which two DLJobs are sent as dry runs")
    right, wrong = [await _trial(scene, scene.trial_namespace, name) for name in ("right", "wrong")]
    return judge_reviews(right, wrong, scene.trial_namespace)


async def _trial(scene: Scene, namespace: str, name: str) -> ApiError | list[str]:
    """What the API server answers to a DLJob: why it is refused, or the warnings with which it is admitted."""
    body = {
        "apiVersion": DLJOBS.api_version,
        "kind": "DLJob",
        "metadata": {"name": f"stoker-doctor-{name}"},
        "spec": {"gpusPerNode": 2, "image": "registry.example.com/trial:1", "script": TRIAL_SCRIPTS[name]},
    }
    warnings: list[str] = []
    try:
        await scene.api.would_create(DLJOBS, namespace, body, warn=warnings.append)
    except ApiError as error:
        return error
    return warnings


def judge_reviews(right: ApiError | Sequence[str], wrong: ApiError | Sequence[str], namespace: str) -> Outcome:
    """`right` and `wrong` are the answers to a DLJob each: an error, or the warnings with which it was admitted."""
    if isinstance(right, ApiError):
        if "failed calling webhook" in right.answer or "failed to call webhook" in right.answer:
            return failed(f"the API server can't call the webhook: {right.answer}")
        if isinstance(right, ForbiddenError | NotFoundError):
            raise NotCheckableError(f"the API server takes no DLJob of yours in {namespace}: {right.answer or right}")
        return failed(f"a right DLJob is refused in {namespace}: {right.answer or right}", advice=_TRIAL_ADVICE)
    if isinstance(wrong, ApiError):
        if RULE in wrong.answer:
            return ok(f"in {namespace} a right DLJob is admitted and a wrong one refused, sent as dry runs")
        return failed(f"a wrong DLJob is refused in {namespace}, but not for {RULE}: {wrong.answer or wrong}")
    if any(RULE in text for text in wrong):
        return ok(f"in {namespace} a right DLJob is admitted and a wrong one with a warning, sent as dry runs")
    return failed(f"a DLJob that breaks {RULE} is admitted in {namespace} without a word", advice=_TRIAL_ADVICE)


_TRIAL_ADVICE = (
    "Name a namespace that the webhook reviews (watchNamespaces, admission.excludedNamespaces), and whose policy leaves"
    f" {RULE} on."
)


async def webhook_certificate(scene: Scene) -> Outcome:
    """What the webhook serves is valid, and trusted by the API server."""
    webhooks = [one for one in await _webhooks(scene) if REVIEWED[0] in _resources(one)]
    if not webhooks:
        raise NotCheckableError("there is no webhook for dljobs")
    client = mapping(webhooks[0].get("clientConfig"))
    authorities = _decoded(client.get("caBundle"))
    if (fault := judge_bundle(authorities, scene.now)) is not None:
        return fault
    secret_name = (await scene.component(Role.ADMISSION)).certificate_secret
    if secret_name is None:
        raise NotCheckableError("the admission Deployment mounts no Secret with a certificate")
    secret = await scene.get(SECRETS, scene.namespace, secret_name)
    if secret is None:
        return failed(f"there is no Secret {secret_name}: the webhook has no certificate")
    service = mapping(client.get("service"))
    host = f"{service.get('name')}.{service.get('namespace')}.svc"
    data = mapping(secret.get("data"))
    return judge_certificate(
        _decoded(data.get("tls.crt")), _decoded(data.get("tls.key")), authorities, host=host, now=scene.now
    )


def judge_bundle(authorities: str, now: datetime) -> Outcome | None:
    """What is wrong with a caBundle (PEM); None where nothing is."""
    trusted = read_all(authorities)
    if not trusted:
        return failed("the webhook's caBundle is empty or not PEM: the API server trusts no certificate of it")
    last = max(one.not_valid_after_utc for one in trusted)
    return failed(f"all authorities of the webhook's caBundle expired by {rfc3339(last)}") if last <= now else None


def judge_certificate(certificate: str, key: str, authorities: str, *, host: str, now: datetime) -> Outcome:
    """`certificate`, `key` and `authorities` are PEM; `host` is the name under which the API server calls."""
    chain = read_all(certificate)
    if not chain:
        return failed("the Secret of the webhook's certificate has no certificate in tls.crt")
    begin, end = chain[0].not_valid_before_utc, chain[0].not_valid_after_utc
    if now >= end:
        return failed(f"the webhook's certificate expired at {rfc3339(end)}")
    if now < begin:
        return failed(f"the webhook's certificate is valid from {rfc3339(begin)} on")
    if not serves(certificate, key, read_all(authorities), [host]):
        return failed(f"the caBundle does not trust the webhook's certificate, or it is not for {host}")
    if end - now < RENEWAL * (end - begin):
        return warning(f"the webhook's certificate was not renewed: it ends at {rfc3339(end)}")
    return ok(f"the webhook's certificate is trusted, and valid until {rfc3339(end)}")


async def _webhooks(scene: Scene) -> list[Mapping[str, Any]]:
    configurations: list[Object] = await scene.objects(WEBHOOKS)
    entries = [mapping(one) for found in configurations for one in listed(found.get("webhooks"))]
    return [one for one in entries if _resources(one)]


def _resources(webhook: Mapping[str, Any]) -> set[str]:
    """The resources of Stoker's that a webhook is for."""
    rules = [mapping(rule) for rule in listed(webhook.get("rules"))]
    return {
        str(one) for rule in rules if GROUP in listed(rule.get("apiGroups")) for one in listed(field(rule, "resources"))
    }


def _decoded(text: object) -> str:
    try:
        return base64.b64decode(text, validate=True).decode() if isinstance(text, str) else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


CHECKS = (
    Check(
        name="webhook-rules",
        group=Group.WEBHOOK,
        what="A ValidatingWebhookConfiguration has DLJobs and UtilizationPolicies reviewed, and refuses them while the"
        " webhook is down.",
        advice="Install the chart again; admission.failurePolicy decides what happens while the webhook is down.",
        look=webhook_rules,
        needs=("api-server",),
    ),
    Check(
        name="webhook-answers",
        group=Group.WEBHOOK,
        what="The webhook refuses a UtilizationPolicy that contradicts itself, sent as a dry run.",
        advice="Check the admission pods, their Service and network policies: the API server must reach the port"
        " (docs/network.md).",
        look=webhook_answers,
        needs=("api-server", "crds"),
    ),
    Check(
        name="webhook-reviews",
        group=Group.WEBHOOK,
        what=f"In --trial-namespace, a right DLJob is admitted and one that breaks {RULE} is refused, or admitted with"
        " a warning; both are sent as dry runs.",
        advice="Check the admission pods, their Service and network policies: the API server must reach the port"
        " (docs/network.md).",
        look=webhook_reviews,
        needs=("api-server",),
    ),
    Check(
        name="webhook-certificate",
        group=Group.WEBHOOK,
        what="The webhook's certificate is valid for more than a quarter of its time, is for the webhook's Service, and"
        " is trusted by the caBundle.",
        advice="Read the log of the certificates Deployment, or of what else issues the certificate (cert-manager).",
        look=webhook_certificate,
        needs=("api-server",),
    ),
)

__all__ = ["CHECKS", "judge_bundle", "judge_certificate", "judge_refusal", "judge_reviews", "judge_rules"]
