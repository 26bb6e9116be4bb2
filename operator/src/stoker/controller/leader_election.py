"""Leader election over a Lease: at most one of the controller's replicas acts at a time.

Used by the controller's process. `LeaderElector` acquires and renews the Lease; `LeaderOnlyApi` refuses writes while
this process is not the leader.

A candidate acquires and renews the Lease by compare-and-swap on its resource version. The holder trusts the Lease for
RENEW_DEADLINE seconds of its own monotonic clock, counted from the start of the request that renewed it. Other
candidates take the Lease over when it has not changed for its whole duration by their monotonic clock. Nobody compares
the times written in the Lease, so skewed wall clocks do no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    LEASES,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KubernetesApi,
    NotFoundError,
    Object,
    Resource,
    UnavailableError,
    Warn,
    patiently,
)
from stoker.adapters.kubernetes.events import micro_time

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

LEASE = "stoker-controller"
"""The name of the controller's Lease."""
DURATION = 15.0
"""Seconds that a Lease is valid after its last change (client-go's default LeaseDuration)."""
RENEW_DEADLINE = 10.0
"""Seconds after which the holder stops trusting a Lease that it could not renew (client-go's default RenewDeadline).
Shorter than DURATION by more than REQUEST_TIMEOUT, so that no write of the old leader meets a new one.
"""
RETRY = 2.0
"""Seconds between two tries to take or renew the Lease (client-go's default RetryPeriod)."""
REQUEST_TIMEOUT = 4.0
"""Seconds that one request for the Lease may take: two fit before a renewal is overdue."""
LEADER_POLL = 0.1
"""Seconds between two checks by a write that waits for the Lease to be renewed."""


class LeadershipLostError(Exception):
    """This process no longer holds the Lease, and another one may lead: stop at once."""


class LeaderElector:
    """One candidate for one Lease. `identity` is unique for each process; `sleep` is replaced in tests."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._sleep = sleep
        self._lease: Object | None = None
        self._seen: tuple[str, float] | None = None
        """The resource version of a Lease that another candidate holds, and when this process first read that version,
        by the monotonic clock.
        """
        self._trusted_until = 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the Lease and may act now."""
        return self._lease is not None and self._clock.monotonic() < self._trusted_until

    async def acquire(self) -> None:
        """Try every RETRY seconds until this process holds the Lease."""
        while not await self._try():
            await self._sleep(RETRY)
        logger.info("leading as %s", self._identity)

    async def hold(self) -> None:
        """Renew the Lease every RETRY seconds. Raises LeadershipLostError as soon as it can't be trusted any more."""
        while True:
            await self._sleep(RETRY)
            await self._try()
            if not self.is_leader:
                self._lease = None
                msg = f"{self._identity} no longer leads"
                raise LeadershipLostError(msg)

    async def release(self) -> None:
        """Give the Lease back at shutdown, so that the next leader need not wait. A failure is only logged."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            await self._give_back(lease)
        except ApiError as error:
            logger.info("lease not released: %s", error)

    async def _give_back(self, lease: Object) -> None:
        try:
            await self._write(lease, holder="", duration=1)
        except ConflictError:
            # A renewal that was cut off by the shutdown may still have been written.
            await self._write(await self._still_ours(), holder="", duration=1)

    async def _try(self) -> bool:
        """Try once to acquire or renew the Lease; True if this process leads afterwards."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                self._lease = await self._swap()
        except (ConflictError, AlreadyExistsError):
            logger.info("another candidate wrote the lease first")
            self._lease, self._trusted_until = None, 0.0
        except (ApiError, TimeoutError) as error:
            # A failed request does not take the Lease away: it stays valid until the renew deadline.
            logger.warning("lease not renewed: %s", error)
            return self.is_leader
        if self._lease is None:
            self._trusted_until = 0.0
            return False
        self._trusted_until = started + RENEW_DEADLINE
        return self.is_leader

    async def _swap(self) -> Object | None:
        if self._lease is not None:
            try:
                return await self._write(self._lease)
            except ConflictError:
                # An earlier renewal that timed out here may still have been written by the API server.
                return await self._write(await self._still_ours())
        try:
            found = await self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            fresh = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": {"leaseTransitions": -1}}
            return await self._api.create(LEASES, self._namespace, self._body(fresh, holder=self._identity))
        if self._is_held(found):
            return None
        return await self._write(found)

    async def _still_ours(self) -> Object:
        """The Lease as it is now. Raises ConflictError where another candidate holds it."""
        found = await self._api.get(LEASES, self._namespace, self._name)
        if found.get("spec", {}).get("holderIdentity") != self._identity:
            raise ConflictError(self._name, code=None, reason="another candidate holds the lease")
        return found

    async def _write(self, lease: Object, *, holder: str | None = None, duration: float = DURATION) -> Object:
        """Write the Lease with a holder, by default this process. Raises ConflictError if it has changed since it was
        read.
        """
        body = self._body(lease, holder=self._identity if holder is None else holder, duration=duration)
        return await self._api.replace(LEASES, self._namespace, self._name, body, timeout=REQUEST_TIMEOUT)

    def _is_held(self, lease: Object) -> bool:
        spec = lease.get("spec", {})
        if not spec.get("holderIdentity") or spec["holderIdentity"] == self._identity:
            return False
        version, now = lease["metadata"]["resourceVersion"], self._clock.monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
        return now < self._seen[1] + float(spec.get("leaseDurationSeconds") or DURATION)

    def _body(self, lease: Object, *, holder: str, duration: float = DURATION) -> dict[str, Any]:
        spec = dict(lease.get("spec", {}))
        now = micro_time(self._clock.now())
        if spec.get("holderIdentity") != holder and holder:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec |= {"holderIdentity": holder, "leaseDurationSeconds": int(duration), "renewTime": now}
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": lease["metadata"],
            "spec": spec,
        }


class LeaderOnlyApi:
    """A KubernetesApi that writes only while this process leads.

    A process that was paused (a frozen machine, SIGSTOP) resumes in the middle of its work and learns by its next
    renewal whether it still leads. A write waits for that renewal, at most RETRY + REQUEST_TIMEOUT seconds, and then
    raises UnavailableError with the reason NotLeading. Reads pass at any time. A write that the API server refuses with
    429 is repeated after its Retry-After, if this process still leads then.
    """

    def __init__(
        self,
        api: KubernetesApi,
        may_write: Callable[[], bool],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._may_write = may_write
        self._sleep = sleep

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await self._api.get(resource, namespace, name)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        return await self._api.list(resource, namespace, labels=labels, fields=fields)

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], *, warn: Warn | None = None
    ) -> Object:
        return await self._leading("create", lambda: self._api.create(resource, namespace, body, warn=warn))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> Object:
        return await self._leading(
            "patch", lambda: self._api.patch(resource, namespace, name, body, subresource=subresource)
        )

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        return await self._leading(
            "replace",
            lambda: self._api.replace(resource, namespace, name, body, subresource=subresource, timeout=timeout),
        )

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str, resource_version: str | None = None
    ) -> None:
        await self._leading(
            "delete",
            lambda: self._api.delete(resource, namespace, name, uid=uid, resource_version=resource_version),
        )

    async def _leading(self, verb: str, send: Callable[[], Awaitable[_T]]) -> _T:
        async def send_leading() -> _T:
            await self._lead(verb)
            return await send()

        return await patiently(send_leading, sleep=self._sleep)

    async def _lead(self, verb: str) -> None:
        waited = 0.0
        while not self._may_write():
            if waited >= RETRY + REQUEST_TIMEOUT:
                raise UnavailableError(verb, code=None, reason="NotLeading")
            await self._sleep(LEADER_POLL)
            waited += LEADER_POLL
