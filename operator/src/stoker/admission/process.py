"""The admission process, started by `stoker run admission`. kopf watches policies and namespaces and runs the server.

It is separate from the controller, so that the controller's pauses don't delay reviews. Any number of replicas may
serve at the same time, because they keep no shared state. The only write to the cluster is the time of a session in a
job's status, where that is enabled. The chart owns the webhook configuration.
"""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import kopf

from stoker.adapters.clock import SystemClock
from stoker.adapters.http.health import HealthServer
from stoker.adapters.http.metrics_server import MetricsServer, MetricsSettings
from stoker.adapters.kubernetes.client import NAMESPACES, PODS, POLICIES, Kubernetes
from stoker.adapters.workers import Workers
from stoker.admission import judgement
from stoker.admission.job_review import JobReviewer
from stoker.admission.judgement import warm_up
from stoker.admission.metrics import AdmissionMetrics
from stoker.admission.policy_review import PolicyReviewer
from stoker.admission.response_cache import ResponseCache
from stoker.admission.server import AdmissionServer, Route, ServerSettings
from stoker.admission.sessions import Sessions
from stoker.api import dljob, policy
from stoker.api.names import GROUP
from stoker.catalogue import all_rules
from stoker.cluster.process import until_one_ends, watch_only, watches, watching
from stoker.cluster.view import ClusterView
from stoker.policy.checks import ClusterSettings

logger = logging.getLogger(__name__)

JOBS_PATH = "/validate/dljobs"
POLICIES_PATH = "/validate/utilizationpolicies"
SESSIONS_PATH = "/validate/sessions"
"""The paths that the chart's webhook configuration names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """How the admission process runs. Times in seconds.

    surroundings: the settings of the cluster that policies must fit. notes_sessions: whether the server also receives
    sessions in pods and notes them. review_workers: processes that review jobs; with several, a namespace with long
    reviews leaves at least one to other namespaces. list_interval, list_retry: between two lists of policies and
    namespaces, and after a failed one. exit_timeout: how long stopping may take before the process kills itself;
    shorter than the pod's terminationGracePeriodSeconds, longer than the server's drain_longest and shutdown_timeout.
    """

    server: ServerSettings
    surroundings: ClusterSettings = field(default_factory=ClusterSettings)
    notes_sessions: bool = False
    health_port: int = 8081
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    review_workers: int = 2
    list_interval: float = 120.0
    list_retry: float = 2.0
    exit_timeout: float = 25.0


def run(settings: AdmissionSettings) -> None:
    """Answer reviews until SIGTERM or SIGINT. Credentials are found as kubectl finds them.

    Raises CredentialsError without credentials, and OSError for a port in use.
    """
    with suppress(asyncio.CancelledError):
        asyncio.run(serve(settings))


async def serve(settings: AdmissionSettings) -> None:
    """Run the process on the running event loop; see `run`."""
    view = ClusterView()
    workers = Workers(settings.review_workers, warm_up=warm_up, modules=[judgement.__name__])
    cache = ResponseCache()
    metrics = AdmissionMetrics(view.in_force, cache)
    jobs = metrics.counting(dljob.KIND, JobReviewer(view, workers, _now, cache))
    policies = metrics.counting(
        policy.KIND, PolicyReviewer(view.in_force, view.namespaces, all_rules(), settings.surroundings, _now)
    )
    sessions = Sessions(SystemClock(), metrics.session)
    routes = [
        Route(path=JOBS_PATH, group=GROUP, resource=dljob.PLURAL, reviewer=jobs),
        Route(path=POLICIES_PATH, group=GROUP, resource=policy.PLURAL, reviewer=policies),
    ]
    if settings.notes_sessions:
        opened = metrics.counting("Session", sessions)
        routes.append(Route(path=SESSIONS_PATH, group=PODS.group, resource=PODS.plural, reviewer=opened))
    server = AdmissionServer(settings.server, routes, on_overload=metrics.refused)
    metrics.follow(server.certificate)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(workers)
        await stack.enter_async_context(
            HealthServer(
                address=settings.server.address,
                port=settings.health_port,
                live={"watch": view.stalled, "reviews": workers.stuck},
                ready={"cluster": view.not_listed, "server": server.not_ready, "reviews": workers.not_ready},
            )
        )
        api = await stack.enter_async_context(await Kubernetes.connect())
        await stack.enter_async_context(MetricsServer(metrics.page, settings.metrics, api))
        listing = view.keep_listed(api, interval=settings.list_interval, retry=settings.list_retry)
        await until_one_ends(listing, sessions.run(api), _watch(view, server, settings))


async def _watch(view: ClusterView, server: AdmissionServer, settings: AdmissionSettings) -> None:
    """Run kopf until SIGTERM or SIGINT; it drains the server before it ends.

    kopf discovers the resources to watch once, at its start. So it starts only after the first list of policies, which
    needs their CRD.
    """
    await view.listed.wait()
    registry = watches({POLICIES: view.policies.watched, NAMESPACES: view.namespaces.watched})
    await watching(registry, kopf_settings(settings, server))


def kopf_settings(settings: AdmissionSettings, server: AdmissionServer) -> kopf.OperatorSettings:
    """Settings with which kopf only watches and runs `server` as its admission server."""
    kopfs = watch_only(exit_timeout=settings.exit_timeout)
    kopfs.admission.server = server
    return kopfs


def _now() -> datetime:
    return datetime.now(UTC)


__all__ = ["AdmissionSettings", "JOBS_PATH", "POLICIES_PATH", "SESSIONS_PATH", "ServerSettings", "run", "serve"]
