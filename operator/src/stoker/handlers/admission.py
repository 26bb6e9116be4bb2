"""The admission process: kopf watches the policies and the namespaces and runs our server, which answers the reviews.

It is a process of its own, since the controller's pauses must not hold up reviews. Any number of replicas serve side
by side: nothing is written to the cluster, but when people open sessions in jobs' pods where that is asked for, and the
webhook's configuration is the chart's alone.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import kopf

from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes import NAMESPACES, PODS, POLICIES, Kubernetes
from stoker.admission.policies import Surroundings
from stoker.catalogue import all_rules
from stoker.handlers.admission_metrics import AdmissionMetrics
from stoker.handlers.admission_review import AdmissionRequest, Operation
from stoker.handlers.cluster_view import ClusterView
from stoker.handlers.health import HealthServer
from stoker.handlers.job_review import JobReviewer, judge
from stoker.handlers.metrics_server import MetricsServer, MetricsSettings
from stoker.handlers.policy_review import PolicyReviewer
from stoker.handlers.process import until_one_ends, watch_only, watches
from stoker.handlers.review_pool import ReviewPool
from stoker.handlers.server import AdmissionServer, Route, ServerSettings
from stoker.handlers.sessions import Sessions
from stoker.models import dljob, policy
from stoker.models.meta import API_VERSION, GROUP
from stoker.models.policy import BUILT_IN

logger = logging.getLogger(__name__)

JOBS_PATH = "/validate/dljobs"
POLICIES_PATH = "/validate/utilizationpolicies"
SESSIONS_PATH = "/validate/sessions"
"""The paths that the chart's webhook configuration names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """How the admission process runs. Times in seconds.

    `surroundings`: what policies must fit. `notes_sessions`: whether sessions in pods are reviewed, too.
    `list_interval`: how often the watched policies and namespaces are compared with a list. `exit_timeout`: how long
    stopping may take before the process kills itself; below the pod's terminationGracePeriodSeconds, above the
    server's delay and timeout. `review_threads`: reviews compute, and computing threads of Python take turns; two
    of them fight for it with each other and with the loop (docs/performance.md).
    """

    server: ServerSettings
    surroundings: Surroundings = field(default_factory=Surroundings)
    notes_sessions: bool = False
    health_port: int = 8081
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    review_threads: int = 1
    list_interval: float = 120.0
    list_retry: float = 2.0
    exit_timeout: float = 25.0


def run(settings: AdmissionSettings) -> None:
    """Answer reviews until SIGTERM or SIGINT. Credentials are found as kubectl finds them.

    Raises CredentialsError without credentials, and OSError for a port that is taken.
    """
    with suppress(asyncio.CancelledError):
        asyncio.run(serve(settings))


async def serve(settings: AdmissionSettings) -> None:
    """The whole process; see `run`."""
    view = ClusterView()
    pool = ReviewPool(settings.review_threads)
    metrics = AdmissionMetrics(view.in_force)
    jobs = metrics.counting(dljob.KIND, JobReviewer(view, pool, _now))
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
    server = AdmissionServer(settings.server, routes)
    metrics.follow(server.certificate)
    warm_up()
    async with AsyncExitStack() as stack:
        stack.callback(pool.close)
        await stack.enter_async_context(
            HealthServer(
                address=settings.server.address,
                port=settings.health_port,
                live={"watch": view.stalled, "reviews": pool.stuck},
                ready={"cluster": view.not_listed, "server": server.not_ready},
            )
        )
        api = await stack.enter_async_context(await Kubernetes.connect())
        await stack.enter_async_context(MetricsServer(metrics.page, settings.metrics, api))
        listing = view.keep_listed(api, interval=settings.list_interval, retry=settings.list_retry)
        await until_one_ends(listing, sessions.run(api), _watch(view, server, settings))


async def _watch(view: ClusterView, server: AdmissionServer, settings: AdmissionSettings) -> None:
    """Kopf: ends on SIGTERM and SIGINT, after the server has been drained.

    It looks once for what it is to watch, so it must not start before the policies' CRD is there.
    """
    await view.listed.wait()
    registry = watches({POLICIES: view.policies.watched, NAMESPACES: view.namespaces.watched})
    await kopf.operator(registry=registry, settings=kopf_settings(settings, server), clusterwide=True, standalone=True)


def kopf_settings(settings: AdmissionSettings, server: AdmissionServer) -> kopf.OperatorSettings:
    """Watch only, beside our server."""
    kopfs = watch_only(exit_timeout=settings.exit_timeout)
    kopfs.admission.server = server
    return kopfs


WARM_UP: Mapping[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": dljob.KIND,
    "metadata": {"name": "warm-up"},
    "spec": {"gpusPerNode": 8, "image": "warm-up:1", "script": "pip install x\ntorchrun --nproc_per_node=4 train.py\n"},
}


COLLECT_AFTER = 100_000
"""Objects, some ten reviews of long scripts: Python's 700 are collected dozens of times within one such review, a fifth
of its time, and now and then for 100 ms.
"""


SWITCH_INTERVAL = 0.0005
"""Seconds after which a computing review lets the loop have the interpreter: of Python's 5 ms each step of a connection
would wait, beside busy reviews several times for one answer.
"""


def warm_up() -> None:
    """Review once, then take what is there by then out of the garbage collector's sight.

    Everything is imported and compiled after one review. A full collection walks all that is alive, which stops the
    loop for tens of milliseconds, and what was there before the first review stays for ever.
    """
    request = AdmissionRequest(
        uid="warm-up",
        operation=Operation.CREATE,
        group=GROUP,
        kind=dljob.KIND,
        resource=dljob.PLURAL,
        subresource="",
        name="warm-up",
        namespace="default",
        new_object=WARM_UP,
        old_object=None,
        dry_run=True,
    )
    judge(request, BUILT_IN, _now())
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)
    sys.setswitchinterval(SWITCH_INTERVAL)


def _now() -> datetime:
    return datetime.now(UTC)


__all__ = ["AdmissionSettings", "JOBS_PATH", "POLICIES_PATH", "SESSIONS_PATH", "ServerSettings", "run", "serve"]
