"""`stoker resume` and `stoker snooze`: the owner's say about reclaim, as annotations of the DLJob. What they do can be
done with kubectl alone.
"""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from stoker.api.meta import QUEUE_LABEL, RESUME_ANNOTATION, SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION
from stoker.cli.duration import DURATION
from stoker.findings.finding import rfc3339
from stoker.reclaim.snoozing import MAX_SNOOZE_REASON, snooze_words

if TYPE_CHECKING:
    from stoker.adapters.kubernetes.client import KubernetesApi

PATIENCE = 5.0
"""Seconds that a command waits for the controller's answer, which says what is truly done."""
LOOK_AGAIN = 0.25
OVER = {"Succeeded": "it has succeeded", "Failed": "it has failed"}
_NAME = re.compile(r"(?:dljobs?(?:\.stoker\.dev)?/)?([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)")


class RefusedError(Exception):
    """What was asked of a job can't be done; the text says why, and what can."""


class JobName(click.ParamType[str]):
    """The name of a DLJob, as kubectl takes and prints it: `bert`, `dljob/bert`, `dljob.stoker.dev/bert`."""

    name = "job"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = _NAME.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)!r} is not the name of a DLJob: write bert or dljob/bert", param, ctx)
        return match[1]


def _jobs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The jobs, and the options that say in which cluster and namespace, as kubectl has them."""
    for parameter in (
        click.option("--context", help="Context of the kubeconfig. Default: the current context."),
        click.option(
            "--kubeconfig", type=click.Path(dir_okay=False), help="Default: $KUBECONFIG, then ~/.kube/config."
        ),
        click.option("-n", "--namespace", help="Namespace of the jobs. Default: the context's."),
        click.argument("jobs", metavar="JOB...", type=JobName(), nargs=-1, required=True),
    ):
        command = parameter(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """Where the jobs are, as the options say it."""

    namespace: str | None
    kubeconfig: str | None
    context: str | None


# ----------------------------------------------------------------------------------------------------------- resume


@click.command()
@_jobs
def resume(jobs: Sequence[str], namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Start reclaimed JOBs again, from the beginning of their scripts. The warning of a warned job is cancelled.

    Exit code 1 if that is impossible for one of them: a job that has ended or was deleted cannot be resumed.
    """
    _for_each(jobs, _resume, _Cluster(namespace=namespace, kubeconfig=kubeconfig, context=context))


async def _resume(api: "KubernetesApi", namespace: str, name: str) -> str:
    """Returns what becomes of the job. Raises RefusedError, ApiError."""
    raw = await _get(api, namespace, name)
    will = resumption_of(raw)
    record = _record(raw)
    asked = raw["metadata"].get("annotations", {}).get(RESUME_ANNOTATION)
    if record.get("state") not in {"Warned", "Reclaiming", "Reclaimed"} and "deadline" not in record:
        return will
    if asked is not None and asked != record.get("handledResume"):
        return f"{will} (already requested)"
    word = uuid.uuid4().hex[:12]
    await _annotate(api, namespace, name, {RESUME_ANNOTATION: word})
    heard = await _heard(api, namespace, name, "handledResume", word)
    return will if heard is not None else f"{will} {_silent(namespace, name)}"


def resumption_of(raw: Mapping[str, Any]) -> str:
    """What the word to resume does to a job, by its status. Raises RefusedError where it can't be brought back."""
    record = _record(raw)
    phase = raw.get("status", {}).get("phase")
    state, deleted = record.get("state"), record.get("action") == "Delete"
    if phase in OVER:
        raise RefusedError(f"{OVER[phase]}: recreate the DLJob to run it again")
    if state in {"Reclaiming", "Reclaimed"}:
        if deleted and state == "Reclaimed":
            raise RefusedError("its Job was deleted for good: recreate the DLJob to run it again")
        if deleted:
            return "will not be reclaimed, unless its Job has already been deleted"
        if raw["spec"].get("suspend"):
            return "stays suspended: set spec.suspend to false to start it"
        ending = " once its old pods have ended" if state == "Reclaiming" else ""
        if (queue := raw["metadata"].get("labels", {}).get(QUEUE_LABEL)) is not None:
            return (
                f"goes back to its queue {queue}{ending}; its script starts from the beginning when the queue admits it"
            )
        return f"resumes{ending}; its script starts from the beginning when its pods have their GPUs"
    if state == "Warned" or "deadline" in record:
        return "will not be reclaimed before the policy's cooldown is over: its warning is cancelled"
    if raw["spec"].get("suspend"):
        return "is suspended by spec.suspend, not by Stoker: set spec.suspend to false to start it"
    if phase == "Queued":
        return f"is not reclaimed; it is queued: {_why_not_ready(raw)}"
    return "is not reclaimed: there is nothing to resume"


def _why_not_ready(raw: Mapping[str, Any]) -> str:
    conditions = raw["status"].get("conditions", ())
    return next((one["message"] for one in conditions if one["type"] == "PodsReady"), "the reason is not known")


# ----------------------------------------------------------------------------------------------------------- snooze


@click.command()
@click.option("--for", "duration", type=DURATION, help="How long from now, such as 4h; at most the policy's maxSnooze.")
@click.option(
    "--reason",
    help=f"Reason, in one line of at most {MAX_SNOOZE_REASON} characters; visible to everyone who can view the job.",
)
@click.option("--cancel", is_flag=True, help="End the snooze: the job may be reclaimed again.")
@_jobs
def snooze(
    jobs: Sequence[str],
    duration: timedelta | None,
    reason: str | None,
    cancel: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Protect JOBs from reclaim for some time, at most their policy's maxSnooze. A new snooze replaces the last one.

    Exit code 1 if that is impossible for one of them: a job that has ended or was reclaimed cannot be snoozed.
    """
    cluster = _Cluster(namespace=namespace, kubeconfig=kubeconfig, context=context)
    if cancel:
        if duration is not None or reason is not None:
            raise click.UsageError("--cancel cannot be combined with --for or --reason.")
        _for_each(jobs, _cancel, cluster)
        return
    if duration is None:
        raise click.UsageError("Give a duration with --for, such as --for 4h, or end the snooze with --cancel.")
    if not duration:
        raise click.BadParameter("must be longer than 0s: write 90s, 60m or 1h30m", param_hint="--for")
    words = snooze_words(reason)
    if reason is not None and (words is None or len(" ".join(reason.split())) > MAX_SNOOZE_REASON):
        wrong = "is empty" if words is None else f"has more than {MAX_SNOOZE_REASON} characters"
        raise click.BadParameter(f"the reason {wrong}: write one line", param_hint="--reason")

    async def put_off(api: "KubernetesApi", namespace: str, name: str) -> str:
        return await _snooze(api, namespace, name, datetime.now(UTC) + duration, words)

    _for_each(jobs, put_off, cluster)


async def _snooze(api: "KubernetesApi", namespace: str, name: str, until: datetime, why: str | None) -> str:
    raw = await _get(api, namespace, name)
    phase, record = raw.get("status", {}).get("phase"), _record(raw)
    if phase in OVER:
        raise RefusedError(f"{OVER[phase]}: there is nothing to snooze")
    if record.get("state") == "Reclaimed":
        raise RefusedError(f"it has already been reclaimed: start it again with stoker resume {name} -n {namespace}")
    asked = rfc3339(until)
    await _annotate(api, namespace, name, {SNOOZE_ANNOTATION: asked, SNOOZE_REASON_ANNOTATION: why})
    heard = await _heard(api, namespace, name, "handledSnooze", asked)
    if heard is None and record.get("state") == "Reclaiming":
        return (
            f"is being reclaimed: if the snooze came too late, start it again with stoker resume {name} -n {namespace}"
        )
    if heard is None:
        return (
            f"will not be reclaimed before {asked}, or for the policy's maxSnooze if that is shorter "
            f"{_silent(namespace, name)}"
        )
    granted = _record(heard).get("snoozedUntil", asked)
    if granted != asked and datetime.fromisoformat(granted) <= datetime.now(UTC):
        raise RefusedError("its policy does not allow owners to snooze (reclaim.maxSnooze)")
    if granted != asked:
        return (
            f"will not be reclaimed before {granted}; you asked for {asked}, but its policy allows no more "
            "at a time (reclaim.maxSnooze)"
        )
    return f"will not be reclaimed before {granted}"


async def _cancel(api: "KubernetesApi", namespace: str, name: str) -> str:
    raw = await _get(api, namespace, name)
    if not {SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION} & raw["metadata"].get("annotations", {}).keys():
        return "was not snoozed"
    await _annotate(api, namespace, name, {SNOOZE_ANNOTATION: None, SNOOZE_REASON_ANNOTATION: None})
    return "is no longer snoozed: it may be warned once it has been idle for long enough"


# ---------------------------------------------------------------------------------------------------------- the jobs


def _for_each(
    jobs: Sequence[str], act: Callable[["KubernetesApi", str, str], Awaitable[str]], cluster: _Cluster
) -> None:
    """Act on each job and tell its outcome, whatever became of the others. Exits with 1 where one failed."""
    if not asyncio.run(_act(dict.fromkeys(jobs), act, cluster)):
        raise click.exceptions.Exit(1)


async def _act(
    jobs: Mapping[str, object], act: Callable[["KubernetesApi", str, str], Awaitable[str]], cluster: _Cluster
) -> bool:
    from stoker.adapters.kubernetes.client import (
        ApiError,
        CredentialsError,
        Kubernetes,
        NotFoundError,
        default_namespace,
    )

    where = {"kubeconfig": cluster.kubeconfig, "context": cluster.context}
    namespace = cluster.namespace or await default_namespace(**where)

    async def one(api: "KubernetesApi", name: str) -> bool:
        try:
            click.echo(f"dljob {name} {await act(api, namespace, name)}.")
        except NotFoundError:
            click.echo(f'Error: no dljob "{name}" in namespace "{namespace}"', err=True)
        except RefusedError as refused:
            click.echo(f"Error: dljob {name}: {refused}", err=True)
        except ApiError as error:
            click.echo(f"Error: dljob {name}: {error.answer or error}", err=True)
        else:
            return True
        return False

    try:
        async with await Kubernetes.connect(**where) as api:
            return all(await asyncio.gather(*(one(api, name) for name in jobs)))
    except CredentialsError as error:
        raise click.ClickException(str(error)) from error


async def _get(api: "KubernetesApi", namespace: str, name: str) -> dict[str, Any]:
    from stoker.adapters.kubernetes.client import DLJOBS

    return await api.get(DLJOBS, namespace, name)


async def _annotate(api: "KubernetesApi", namespace: str, name: str, annotations: Mapping[str, str | None]) -> None:
    from stoker.adapters.kubernetes.client import DLJOBS

    await api.patch(DLJOBS, namespace, name, {"metadata": {"annotations": dict(annotations)}})


async def _heard(api: "KubernetesApi", namespace: str, name: str, field: str, word: str) -> dict[str, Any] | None:
    """The job once the controller has taken the word; None where it has not within PATIENCE."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        raw = await _get(api, namespace, name)
        if _record(raw).get(field) == word:
            return raw
        if asyncio.get_running_loop().time() >= end:
            return None
        await asyncio.sleep(LOOK_AGAIN)


def _record(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    record: Mapping[str, Any] = raw.get("status", {}).get("reclaim", {})
    return record


def _silent(namespace: str, name: str) -> str:
    return f"(the controller has not answered yet: kubectl describe dljob {name} -n {namespace})"
