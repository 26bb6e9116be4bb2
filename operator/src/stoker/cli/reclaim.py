"""`stoker resume` and `stoker snooze`: what the owner of a job asks of reclaim."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.api.names import MAX_SNOOZE_REASON
from stoker.cli.duration import DURATION
from stoker.cli.jobs import JobName, cluster_options

if TYPE_CHECKING:
    from stoker.adapters.kubernetes.client import KubernetesApi

    Request = Callable[[KubernetesApi, str, str], Awaitable[str]]

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobsLocation:
    """Which cluster and namespace the named jobs are in, from the command line."""

    namespace: str | None
    kubeconfig: str | None
    context: str | None


def _jobs(command: C) -> C:
    command = cluster_options("Namespace of the jobs. [default: the context's]")(command)
    return click.argument("jobs", metavar="JOB...", type=JobName(), nargs=-1, required=True)(command)


@click.command()
@_jobs
def resume(jobs: Sequence[str], namespace: str | None, kubeconfig: str | None, kube_context: str | None) -> None:
    """Start reclaimed JOBs again, from the beginning of their scripts. The warning of a warned job is cancelled.

    Exit code 1 if that is impossible for one of them: a job that has ended or was deleted cannot be resumed.
    """
    from stoker.inspection import owner_requests

    cluster = _JobsLocation(namespace=namespace, kubeconfig=kubeconfig, context=kube_context)
    _for_each(jobs, owner_requests.resume, cluster)


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
    kube_context: str | None,
) -> None:
    """Protect JOBs from reclaim for some time, at most their policy's maxSnooze. A new snooze replaces the last one.

    Exit code 1 if that is impossible for one of them: a job that has ended or was reclaimed cannot be snoozed.
    """
    from stoker.inspection import owner_requests
    from stoker.reclaim.snoozing import snooze_words

    cluster = _JobsLocation(namespace=namespace, kubeconfig=kubeconfig, context=kube_context)
    if cancel:
        if duration is not None or reason is not None:
            raise click.UsageError("--cancel cannot be combined with --for or --reason.")
        _for_each(jobs, owner_requests.cancel_snooze, cluster)
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
        return await owner_requests.snooze(api, namespace, name, datetime.now(UTC) + duration, words)

    _for_each(jobs, put_off, cluster)


def _for_each(jobs: Sequence[str], request: "Request", cluster: _JobsLocation) -> None:
    """Make a request for each job and print its outcome, whatever became of the others. Exits with 1 if one failed."""
    import asyncio

    if not asyncio.run(_request(dict.fromkeys(jobs), request, cluster)):
        raise click.exceptions.Exit(1)


async def _request(jobs: Mapping[str, object], request: "Request", cluster: _JobsLocation) -> bool:
    import asyncio

    from stoker.adapters.kubernetes.client import (
        ApiError,
        CredentialsError,
        Kubernetes,
        NotFoundError,
        default_namespace,
    )
    from stoker.inspection.owner_requests import RefusedError

    where = {"kubeconfig": cluster.kubeconfig, "context": cluster.context}
    namespace = cluster.namespace or await default_namespace(**where)

    async def one(api: "KubernetesApi", name: str) -> bool:
        try:
            click.echo(f"dljob {name} {await request(api, namespace, name)}.")
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


__all__ = ["resume", "snooze"]
