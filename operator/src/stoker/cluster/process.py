"""Building blocks of the controller's and admission's processes: watches by kopf, periodic lists, and running
coroutines until one of them ends.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import kopf

from stoker.adapters.kubernetes.client import ApiError, Object, Resource
from stoker.adapters.kubernetes.kopf_session import with_bounded_depth
from stoker.api.names import GROUP

logger = logging.getLogger(__name__)

LOGIN_AGAIN = 2.0
"""Seconds before the same credentials are tried again after the API server has refused them."""

WatchHandler = Callable[[str | None, Object], object]
"""Takes an event of a watch: ADDED, MODIFIED, DELETED, or None for an object of its initial list; and the object."""


def watches(handlers: Mapping[Resource, WatchHandler]) -> kopf.OperatorRegistry:
    """A registry for kopf with a watch of each resource that calls its handler. Credentials are found as kubectl finds
    them.
    """
    registry = kopf.OperatorRegistry()

    refused: list[kopf.ConnectionInfo] = []

    # A coroutine, because the session that it creates belongs to the event loop.
    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:
        found = None if os.environ.get("KUBECONFIG") else kopf.login_with_service_account(**kwargs)
        found = found or kopf.login_with_kubeconfig(**kwargs)
        if found is None:
            return None
        if found in refused:
            # kopf logs in again only when the API server has refused the last credentials; these are the same.
            await asyncio.sleep(LOGIN_AGAIN)
        refused[:] = [found]
        return with_bounded_depth(found)

    for resource, handler in handlers.items():
        _watch(registry, resource, handler)
    return registry


def _watch(registry: kopf.OperatorRegistry, resource: Resource, handler: WatchHandler) -> None:
    # A coroutine, because kopf runs other handlers in threads.
    @kopf.on.event(
        resource.group, resource.version, resource.plural, id=f"{resource.plural}-changed", registry=registry
    )
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        handler(event["type"], dict(event["object"]))


def when_stopping(registry: kopf.OperatorRegistry, stopping: Callable[[], object]) -> None:
    """Call `stopping` when kopf begins to stop at SIGTERM or SIGINT. It then waits 5 s for all tasks of the event loop
    that began after it, unless it is cancelled.
    """

    @kopf.on.cleanup(id="stopping", registry=registry)
    async def cleanup(**_: Any) -> None:
        stopping()


async def watching(
    registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings, namespaces: Sequence[str] = ()
) -> None:
    """Run kopf's watches in these namespaces, or in the whole cluster, until SIGTERM or SIGINT. What has no namespace
    is watched in either case.

    kopf wants to know who it is, for a peering that is off here. Without an identity it asks for the user's name, which
    a user of a container may not have.
    """
    identity: Any = "stoker"  # kopf does not export the type
    await kopf.operator(
        registry=registry,
        settings=settings,
        identity=identity,
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
    )


def watch_only(*, exit_timeout: float) -> kopf.OperatorSettings:
    """Settings with which kopf only watches: it does no peering and writes no events, finalizers, annotations or
    webhook configuration.

    `exit_timeout`: seconds that stopping may take before the process kills itself.
    """
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.admission.managed = None
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.inactivity_timeout = 70
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 30
    settings.queueing.idle_timeout = 0.5
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.execution.max_workers = 2
    settings.process.ultimate_exiting_timeout = exit_timeout
    return settings


async def keep_listed(
    list_once: Callable[[], Awaitable[None]], what: str, *, due: Callable[[], Awaitable[object]], retry: float
) -> None:
    """Call `list_once` at once and then whenever `due` returns, after an ApiError in `retry` seconds, until cancelled.

    `what` names the listed objects in the log. An outage is logged once when it begins and once when it ends.
    """
    failing = False
    while True:
        try:
            await list_once()
        except ApiError as error:
            if not failing:
                logger.warning("Can't list %s, trying again every %g s: %s", what, retry, error)
            failing = True
            await asyncio.sleep(retry)
        else:
            if failing:
                logger.info("Listing %s works again.", what)
            failing = False
            await due()


async def until_one_ends(*forever: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines until one ends or fails, then cancel the others and raise its exception, if any.

    The process must not go on with one part missing, because its probes could still succeed.
    """
    tasks = [asyncio.create_task(one) for one in forever]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
