"""`stoker resume` and `stoker snooze`: the owner's say about reclaim, as annotations of the DLJob."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stoker.cli.duration import DURATION
from stoker.models.finding import rfc3339
from stoker.models.meta import RESUME_ANNOTATION, SNOOZE_ANNOTATION


def _connection(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster and namespace, as kubectl has them."""
    for option in (
        click.option("--context", help="Context of the kubeconfig. Default: the current one."),
        click.option(
            "--kubeconfig", type=click.Path(dir_okay=False), help="Default: $KUBECONFIG, then ~/.kube/config."
        ),
        click.option("-n", "--namespace", help="Namespace of the job. Default: the context's."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("job")
@_connection
def resume(job: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Give a reclaimed JOB its GPUs back; its script starts anew. A warned one is left alone for a while."""
    raw = asyncio.run(_annotate(job, namespace, kubeconfig, context, RESUME_ANNOTATION, uuid.uuid4().hex[:12]))
    click.echo(f"dljob {job} {_answer(raw)}")


def _answer(raw: Mapping[str, Any]) -> str:
    """What the word to resume does to the job, by its status. Raises ClickException where it does nothing for good."""
    record = raw.get("status", {}).get("reclaim", {})
    match record.get("state"), record.get("action"):
        case "Reclaimed", "Delete":
            raise click.ClickException("its Job was deleted for good: delete the DLJob and create it anew")
        case "Reclaimed", _ if raw["spec"].get("suspend"):
            return "stays suspended: set spec.suspend to false to start it."
        case (("Reclaimed" | "Reclaiming"), _):
            return "resumes."
        case "Warned", _:
            return "will not be reclaimed for a while."
        case _:
            return "is not reclaimed: there is nothing to resume."


@click.command()
@click.argument("job")
@click.option(
    "--for", "duration", type=DURATION, required=True, help="For how long, such as 4h; the policy has a bound."
)
@_connection
def snooze(job: str, duration: timedelta, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Keep JOB from being reclaimed for a while."""
    until = rfc3339(datetime.now(UTC) + duration)
    asyncio.run(_annotate(job, namespace, kubeconfig, context, SNOOZE_ANNOTATION, until))
    click.echo(
        f"dljob {job} is not reclaimed before {until}, or the bound of its policy (kubectl describe dljob {job})."
    )


async def _annotate(
    job: str, namespace: str | None, kubeconfig: str | None, context: str | None, annotation: str, value: str
) -> dict[str, Any]:
    """Set one annotation. Raises ClickException with what is wrong, in the API server's words."""
    from stoker.adapters.kubernetes import (
        DLJOBS,
        ApiError,
        CredentialsError,
        Kubernetes,
        NotFoundError,
        default_namespace,
    )

    namespace = namespace or await default_namespace(kubeconfig=kubeconfig, context=context)
    try:
        async with await Kubernetes.connect(kubeconfig=kubeconfig, context=context) as api:
            return await api.patch(DLJOBS, namespace, job, {"metadata": {"annotations": {annotation: value}}})
    except CredentialsError as error:
        raise click.ClickException(str(error)) from error
    except NotFoundError as error:
        raise click.ClickException(f'no dljob "{job}" in namespace "{namespace}"') from error
    except ApiError as error:
        raise click.ClickException(error.answer or str(error)) from error
