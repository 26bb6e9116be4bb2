"""The process that keeps the webhook's certificate valid, started by `stoker run certificates`.

It checks the certificate every minute and has no watch. It serves only its probes.
"""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass

from stoker.adapters.clock import SystemClock
from stoker.adapters.http.health import HealthServer
from stoker.adapters.kubernetes.client import ApiError, Kubernetes
from stoker.certificates.renewal import CertificateKeeper, CertificateLocation

logger = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two checks. A change by somebody else is corrected within this time."""
RETRY = 5.0
"""Seconds until the next check after a failed one."""
STALE = 3600.0
"""Seconds without a successful check after which the process is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """How the process runs. place: where the certificate is kept and whom it is for."""

    place: CertificateLocation
    health_address: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    health_port: int = 8081


class RenewalChecks:
    """Runs the periodic checks and remembers the result for the readiness probe."""

    def __init__(self, keeper: CertificateKeeper, clock: SystemClock) -> None:
        self._keeper = keeper
        self._clock = clock
        self._last: float | None = None
        self._problem = "the certificate has not been checked yet"

    async def run(self) -> None:
        """Check every INTERVAL seconds, after a failure in RETRY seconds, until cancelled."""
        while True:
            try:
                await self._keeper.look()
            except ApiError as error:
                if str(error) != self._problem:
                    logger.warning("The certificate can't be kept, trying again every %g s: %s", RETRY, error)
                self._problem = str(error)
                await asyncio.sleep(RETRY)
            else:
                self._last, self._problem = self._clock.monotonic(), ""
                await asyncio.sleep(INTERVAL)

    def not_ready(self) -> str | None:
        """For the readiness probe: why the certificate may be invalid, or None."""
        if self._last is not None and self._clock.monotonic() - self._last < STALE:
            return None
        return self._problem or "the certificate has not been checked for an hour"


async def serve(settings: CertificateSettings) -> None:
    """Run the process on the running event loop; see `run`."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(await Kubernetes.connect())
        looking = RenewalChecks(CertificateKeeper(api, settings.place, clock), clock)
        await stack.enter_async_context(
            HealthServer(
                address=settings.health_address,
                port=settings.health_port,
                live={},
                ready={"certificate": looking.not_ready},
            )
        )
        task = asyncio.create_task(looking.run())
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


def run(settings: CertificateSettings) -> None:
    """Keep the certificate valid until SIGTERM or SIGINT.

    Raises CredentialsError without credentials, and OSError for a port in use.
    """
    asyncio.run(serve(settings))
