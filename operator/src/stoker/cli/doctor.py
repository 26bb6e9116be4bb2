"""`stoker doctor`: checks an installation, and says what to do."""

from typing import TYPE_CHECKING, TypedDict

import click

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.terminal import EXIT_USAGE, complain, detect_terminal, write
from stoker.cli.jobs import cluster_options
from stoker.cli.prometheus_options import optional_prometheus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.inspection.doctor.check import Check
    from stoker.inspection.doctor.examination import Checked

EXIT_FAILED = 1


class _Place(TypedDict):
    """The namespaces that are looked at: the operator's, and the one in which DLJobs are tried."""

    namespace: str
    trial_namespace: str | None


@click.command(context_settings={"default_map": {"prometheus_timeout": "15s"}})
@cluster_options("Namespace of the operator. [default: stoker-system]")
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--only", "only", multiple=True, metavar="CHECK", help="Make this check and those that it needs; repeatable."
)
@click.option("--trial-namespace", help="A namespace in which two DLJobs are sent as dry runs (webhook-reviews).")
@optional_prometheus
@click.pass_context
def doctor(
    ctx: click.Context,
    access: PrometheusAccess | None,
    namespace: str | None,
    kubeconfig: str | None,
    kube_context: str | None,
    form: str,
    only: tuple[str, ...],
    trial_namespace: str | None,
) -> None:
    """Check the installation of Stoker in a cluster: the operator, its permissions and webhook, the metrics, the
    policies. It changes nothing. Without --prometheus the metrics are not checked; with it, they are read with the
    controller's profile, prefix and matchers.

    The exit code is 0 where no check failed (there may be warnings), 1 where one failed, 2 where the cluster cannot be
    reached. A check that --only names has failed, too, where it could not be made.
    """
    import asyncio
    from datetime import UTC, datetime

    from stoker.inspection.doctor import json, text
    from stoker.inspection.doctor.check import Status
    from stoker.inspection.doctor.examination import selected

    try:
        checks = selected(only)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from error
    place: _Place = {"namespace": namespace or "stoker-system", "trial_namespace": trial_namespace}
    checked = asyncio.run(_examine(ctx, access, kubeconfig, kube_context, checks, place))
    shown = json.render(checked, datetime.now(UTC)) if form == "json" else text.render(checked, detect_terminal())
    write(shown, None, ctx)
    failed = {one.check.name for one in checked if one.outcome.status is Status.FAILED}
    failed |= {one.check.name for one in checked if one.check.name in only and one.outcome.status is Status.NOT_CHECKED}
    ctx.exit(EXIT_USAGE if not checked or "api-server" in failed else EXIT_FAILED if failed else 0)


async def _examine(
    ctx: click.Context,
    access: PrometheusAccess | None,
    kubeconfig: str | None,
    context: str | None,
    checks: "Sequence[Check]",
    place: "_Place",
) -> "list[Checked]":
    from stoker.adapters.clock import SystemClock
    from stoker.adapters.kubernetes.client import CredentialsError, Kubernetes
    from stoker.inspection.doctor.examination import examine
    from stoker.inspection.doctor.scene import Scene

    try:
        async with (
            await Kubernetes.connect(kubeconfig=kubeconfig, context=context) as api,
            Scene(api, access, SystemClock(), **place) as scene,
        ):
            return await examine(scene, checks)
    except CredentialsError as error:
        complain(error)
        ctx.exit(EXIT_USAGE)


__all__ = ["doctor"]
