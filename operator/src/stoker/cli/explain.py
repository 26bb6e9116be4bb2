"""`stoker explain`: why a job was, or was not, reclaimed."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.adapters.terminal import detect_terminal, write
from stoker.cli.jobs import JobName, cluster_options

if TYPE_CHECKING:
    from stoker.inspection.reclaim_report import ReclaimReport


@click.command()
@click.argument("job", type=JobName())
@cluster_options("Namespace of the job. [default: the context's]")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.pass_context
def explain(
    ctx: click.Context, job: str, namespace: str | None, kubeconfig: str | None, kube_context: str | None, form: str
) -> None:
    """Say why JOB was, or was not, reclaimed: every condition with its answer, the next deadline, and what would change
    it.

    It reads the DLJob, its Job and pods, the policies and the namespace, and asks no metrics: of the GPUs it says what
    the controller has last written down.

    Exit code 1 where there is no such job, or it may not be read.
    """
    import asyncio

    from stoker.inspection import explanation_json, explanation_text

    found = asyncio.run(_look(job, namespace, kubeconfig, kube_context))
    write(
        explanation_json.render(found) if form == "json" else explanation_text.render(found, detect_terminal()),
        None,
        ctx,
    )


async def _look(name: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> "ReclaimReport":
    """Read the objects. Raises ClickException with what is wrong, in the API server's words."""
    from pydantic import ValidationError

    from stoker.adapters.kubernetes.client import (
        DLJOBS,
        JOBS,
        PODS,
        ApiError,
        CredentialsError,
        Kubernetes,
        NotFoundError,
        default_namespace,
    )
    from stoker.api.dljob import DLJob
    from stoker.api.schema import explain as violations
    from stoker.inspection.clustered import ClusterPolicies
    from stoker.inspection.reclaim_report import reclaim_report
    from stoker.workload.manifest import DLJOB_LABEL

    namespace = namespace or await default_namespace(kubeconfig=kubeconfig, context=context)
    try:
        async with await Kubernetes.connect(kubeconfig=kubeconfig, context=context) as api:
            job = DLJob.model_validate(await api.get(DLJOBS, namespace, name))
            try:
                child = await api.get(JOBS, namespace, name)
            except NotFoundError:
                child = None
            if child is not None and job.status is not None and child["metadata"]["uid"] != job.status.job_uid:
                child = None
            pods, _ = await api.list(PODS, namespace, labels=f"{DLJOB_LABEL}={name}")
            policies = ClusterPolicies(api)
            policy, notes = await policies.of(namespace)
            now = datetime.now(UTC)
            known = None if policies.are_hidden else policy
            brake, doubted_until = policies.brake(policy), policies.doubted_until(policy)
            return reclaim_report(job, child, pods, known, now, brake=brake, doubted_until=doubted_until, notes=notes)
    except CredentialsError as error:
        raise click.ClickException(str(error)) from error
    except NotFoundError as error:
        raise click.ClickException(f'no dljob "{name}" in namespace "{namespace}"') from error
    except ApiError as error:
        raise click.ClickException(error.answer or str(error)) from error
    except ValidationError as error:
        faults = "; ".join(str(violation) for violation in violations(error)[:5])
        raise click.ClickException(f"dljob {name} was written by another version of Stoker: {faults}") from error


__all__ = ["explain"]
