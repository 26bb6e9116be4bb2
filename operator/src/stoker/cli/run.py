"""`stoker run`: the operator's two processes."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.cli.duration import DURATION
from stoker.cli.prometheus_options import prometheus_options


class PlainFormatter(logging.Formatter):
    """Formats log lines so that no text in them, which users may have written, reaches the terminal as a command or
    looks like a line of its own. A traceback keeps its lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """The line without a traceback."""
        from stoker.findings.finding import single_line

        return single_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """The traceback."""
        from stoker.findings.finding import printable

        return printable(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """Formats log lines as JSON objects, one a line; what is not ASCII is escaped. Fields of `extra={"about": ...}`
    stand beside the message.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # DEL is the one control character that JSON leaves as it is.
        return json.dumps(line, default=str).replace("\x7f", "\\u007f")


C = TypeVar("C", bound=Callable[..., None])


def metrics_options(command: C) -> C:
    """The options of both processes' metrics: port, whether tokens are asked for, and a certificate."""
    for option in (
        click.option(
            "--metrics-certificate-folder",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder with tls.crt and tls.key for /metrics. Without it, /metrics gets a self-signed certificate.",
        ),
        click.option(
            "--metrics-authentication/--no-metrics-authentication",
            default=True,
            show_default=True,
            help="Serve /metrics over TLS and only to ServiceAccounts that may get it, or to everybody.",
        ),
        click.option(
            "--metrics-port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="Port of /metrics."
        ),
    ):
        command = option(command)
    return command


@click.group()
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="STOKER_LOG_LEVEL",
    show_envvar=True,
    help="What is logged on standard error, and what is worse.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="STOKER_LOG_FORMAT",
    show_envvar=True,
    help="Format of the log on standard error. The audit on standard output is always JSON.",
)
def run(log_level: str, log_format: str) -> None:
    """Run a part of the operator, in the cluster of $KUBECONFIG or of the pod's ServiceAccount."""
    handler = logging.StreamHandler(sys.stderr)
    text = PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    # The audit is JSON alone, on the other stream: whoever collects it need not tell it from text.
    audit = logging.getLogger("stoker.audit")
    audit.handlers = [logging.StreamHandler(sys.stdout)]
    audit.setLevel(logging.INFO)
    audit.propagate = False
    # kopf tells of every event of every object; what the controller does with it is told by the controller.
    logging.getLogger("kopf").setLevel(max(logging.getLogger().level, logging.WARNING))


@run.command()
@prometheus_options
@click.option(
    "--scan-interval", type=DURATION, default="30s", show_default=True, help="Time between two scans of the metrics."
)
@click.option(
    "--minimum-warning-grace",
    type=DURATION,
    default="5m",
    show_default=True,
    help="Minimum time between a warning and the reclaim, whatever a policy sets.",
)
@click.option(
    "--scrape-interval",
    type=DURATION,
    default="30s",
    show_default=True,
    help="Scrape interval of the GPU metrics; policies are checked against it.",
)
@click.option(
    "--notification-folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="STOKER_NOTIFICATION_FOLDER",
    show_envvar=True,
    help="Folder with one file of addresses for each channel that policies name; read again for each message.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Elect a leader: of several replicas only one acts.",
)
@click.option(
    "--ask-jupyter/--no-ask-jupyter",
    default=True,
    show_default=True,
    help="Ask the notebook servers in an idle job's pods when they were last used, before the job is reclaimed.",
)
@click.option(
    "--watch-workloads/--no-watch-workloads",
    default=False,
    show_default=True,
    help="Watch workloads besides DLJobs, of the kinds that policies name.",
)
@click.option(
    "--namespace", envvar="POD_NAMESPACE", default="stoker-system", show_default=True, help="Namespace of the Lease."
)
@click.option(
    "--watch-namespace",
    "watched",
    multiple=True,
    help="Namespace whose DLJobs are controlled. May be repeated. Without it, all are.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Port of /healthz and /readyz.",
)
@click.option(
    "--review-workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of processes that read jobs' manifests. With two or more, one namespace cannot occupy all of them.",
)
@metrics_options
def controller(
    access: PrometheusAccess,
    scan_interval: timedelta,
    minimum_warning_grace: timedelta,
    scrape_interval: timedelta,
    notification_folder: Path | None,
    leader_elect: bool,
    ask_jupyter: bool,
    watch_workloads: bool,
    namespace: str,
    watched: tuple[str, ...],
    health_port: int,
    review_workers: int,
    metrics_port: int,
    metrics_authentication: bool,
    metrics_certificate_folder: Path | None,
) -> None:
    """Make Jobs of DLJobs, watch their GPUs, report, and reclaim what is idle where a policy says so."""
    from stoker.adapters.http.metrics_server import MetricsSettings
    from stoker.adapters.kubernetes.client import CredentialsError
    from stoker.controller.assembly import Timing
    from stoker.controller.process import ControllerSettings, SilentWatchError
    from stoker.controller.process import run as run_controller

    if scan_interval <= timedelta(0):
        raise click.BadParameter("must be longer than 0s", param_hint="--scan-interval")
    _refuse_short_grace(minimum_warning_grace)
    settings = ControllerSettings(
        namespace=namespace,
        watched=watched,
        prometheus=access,
        timing=Timing(
            scan_interval=scan_interval,
            scrape_interval=scrape_interval,
            minimum_warning_grace=minimum_warning_grace,
        ),
        notification_folder=notification_folder,
        leader_elect=leader_elect,
        asks_jupyter=ask_jupyter,
        watches_workloads=watch_workloads,
        review_workers=review_workers,
        health_port=health_port,
        metrics=MetricsSettings(
            port=metrics_port,
            authentication=metrics_authentication,
            certificate_folder=metrics_certificate_folder,
        ),
    )
    try:
        run_controller(settings)
    except (CredentialsError, SilentWatchError, OSError) as error:
        raise click.ClickException(str(error)) from error


LEAST_WARNING_GRACE = timedelta(minutes=1)
"""The shortest warningGrace that a policy may have: a lower floor would be none."""


def _refuse_short_grace(grace: timedelta) -> None:
    if grace < LEAST_WARNING_GRACE:
        raise click.BadParameter(
            f"{grace.total_seconds():g}s is less than 1m, the shortest warningGrace that a policy may have",
            param_hint="--minimum-warning-grace",
        )


@run.command()
@click.option("--address", default="0.0.0.0", show_default=True, help="Address to listen on.")  # noqa: S104 - a pod's
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="Port of the webhook.")
@click.option(
    "--certificate-folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder with tls.crt and tls.key, read again when they change.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Port of /healthz and /readyz.",
)
@click.option(
    "--scrape-interval",
    type=DURATION,
    default="30s",
    show_default=True,
    help="Scrape interval of the GPU metrics: a policy's times must be at least two intervals.",
)
@click.option(
    "--minimum-warning-grace",
    type=DURATION,
    default="5m",
    show_default=True,
    help="The controller's --minimum-warning-grace; policies with less get a warning.",
)
@click.option(
    "--review-workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of processes that review jobs. With two or more, one namespace cannot occupy all of them.",
)
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM file with authorities: only clients with a certificate signed by one of them are answered.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    help="Common name that a client's certificate must have. May be repeated.",
)
@click.option(
    "--note-sessions/--no-note-sessions",
    default=False,
    show_default=True,
    help="Review exec, attach and port-forward, and write the time of the last session to the job's status."
    " Needs --client-ca-file or --trust-network.",
)
@click.option(
    "--trust-network/--no-trust-network",
    default=False,
    show_default=True,
    help="Declare that only the API server can reach the port: sessions are then noted without --client-ca-file.",
)
@metrics_options
def admission(
    address: str,
    port: int,
    certificate_folder: Path,
    health_port: int,
    scrape_interval: timedelta,
    minimum_warning_grace: timedelta,
    review_workers: int,
    client_ca_file: Path | None,
    client_names: tuple[str, ...],
    note_sessions: bool,
    trust_network: bool,
    metrics_port: int,
    metrics_authentication: bool,
    metrics_certificate_folder: Path | None,
) -> None:
    """Answer the API server's reviews of DLJobs and UtilizationPolicies."""
    from stoker.adapters.http.metrics_server import MetricsSettings
    from stoker.adapters.kubernetes.client import CredentialsError
    from stoker.admission.process import AdmissionSettings, ServerSettings
    from stoker.admission.process import run as run_admission
    from stoker.policy.checks import ClusterSettings

    if note_sessions and client_ca_file is None and not trust_network:
        raise click.UsageError(
            "--note-sessions needs --client-ca-file: otherwise anyone who reaches the port can report false sessions"
            " and so prevent reclaims. If only the API server can reach the port, use --trust-network."
        )
    if client_names and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file")
    _refuse_short_grace(minimum_warning_grace)
    settings = AdmissionSettings(
        server=ServerSettings(
            address=address,
            port=port,
            certificate_folder=certificate_folder,
            client_ca=client_ca_file,
            client_names=frozenset(client_names),
        ),
        surroundings=ClusterSettings(scrape_interval=scrape_interval, minimum_warning_grace=minimum_warning_grace),
        notes_sessions=note_sessions,
        review_workers=review_workers,
        health_port=health_port,
        metrics=MetricsSettings(
            address=address,
            port=metrics_port,
            authentication=metrics_authentication,
            certificate_folder=metrics_certificate_folder,
        ),
    )
    try:
        run_admission(settings)
    except (CredentialsError, OSError) as error:
        raise click.ClickException(str(error)) from error


@run.command()
@click.option(
    "--namespace", envvar="POD_NAMESPACE", default="stoker-system", show_default=True, help="Namespace of the Secret."
)
@click.option("--secret", required=True, help="Secret that holds the certificate. It must exist and may be empty.")
@click.option("--webhook", required=True, help="ValidatingWebhookConfiguration whose caBundle is kept up to date.")
@click.option("--dns-name", "dns_names", required=True, multiple=True, help="DNS name of the server. May be repeated.")
@click.option("--valid", type=DURATION, default="2160h", show_default=True, help="How long a certificate is valid.")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Port of /healthz and /readyz.",
)
def certificates(
    namespace: str, secret: str, webhook: str, dns_names: tuple[str, ...], valid: timedelta, health_port: int
) -> None:
    """Create and renew the webhook's certificate, and keep the caBundle of the webhook configuration up to date."""
    from stoker.adapters.kubernetes.client import CredentialsError
    from stoker.certificates.process import CertificateSettings
    from stoker.certificates.process import run as run_certificates
    from stoker.certificates.renewal import SETTLE, CertificateLocation

    if valid < 12 * SETTLE:
        raise click.BadParameter("must be at least 1h, to leave time for a renewal", param_hint="--valid")
    place = CertificateLocation(namespace=namespace, secret=secret, webhook=webhook, names=dns_names, valid=valid)
    try:
        run_certificates(CertificateSettings(place=place, health_port=health_port))
    except (CredentialsError, OSError) as error:
        raise click.ClickException(str(error)) from error
