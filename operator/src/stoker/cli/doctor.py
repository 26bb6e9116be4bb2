"""`stoker doctor`: checks an installation, and says what to do."""

from typing import TYPE_CHECKING

import click

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.terminal import EXIT_USAGE, complain, detect_terminal, write
from stoker.cli.jobs import cluster_options
from stoker.cli.prometheus_options import optional_prometheus

if TYPE_CHECKING:
    from stoker.inspection.doctor.examination import Checked

EXIT_FAILED = 1


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
@optional_prometheus
@click.pass_context
def doctor(
    ctx: click.Context,
    access: PrometheusAccess | None,
    namespace: str | None,
    kubeconfig: str | None,
    kube_context: str | None,
    form: str,
) -> None:
    """Check the installation of Stoker in a cluster: the operator, its permissions and webhook, the metrics, the
    policies. It changes nothing. Without --prometheus the metrics are not checked; with it, they are read with the
    controller's profile, prefix and matchers.

    The exit code is 0 where no check failed (there may be warnings), 1 where one failed, 2 where the cluster cannot be
    reached.
    """
    import asyncio
    from datetime import UTC, datetime

    from stoker.inspection.doctor import json, text
    from stoker.inspection.doctor.check import Status

    checked = asyncio.run(_examine(ctx, access, namespace or "stoker-system", kubeconfig, kube_context))
    shown = json.render(checked, datetime.now(UTC)) if form == "json" else text.render(checked, detect_terminal())
    write(shown, None, ctx)
    failed = {one.check.name for one in checked if one.outcome.status is Status.FAILED}
    ctx.exit(EXIT_USAGE if not checked or "api-server" in failed else EXIT_FAILED if failed else 0)


async def _examine(
    ctx: click.Context, access: PrometheusAccess | None, namespace: str, kubeconfig: str | None, context: str | None
) -> "list[Checked]":
    from stoker.adapters.clock import SystemClock
    from stoker.adapters.kubernetes.client import CredentialsError, Kubernetes
    from stoker.inspection.doctor.examination import examine
    from stoker.inspection.doctor.scene import Scene

    try:
        async with (
            await Kubernetes.connect(kubeconfig=kubeconfig, context=context) as api,
            Scene(api, access, SystemClock(), namespace=namespace) as scene,
        ):
            return await examine(scene)
    except CredentialsError as error:
        complain(error)
        ctx.exit(EXIT_USAGE)


__all__ = ["doctor"]
