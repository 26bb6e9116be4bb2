"""The process that keeps the webhook's certificate. It watches nothing and nobody connects to it but the kubelet."""

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
"""Seconds between two looks: whatever was changed by others is put right within that time."""
RETRY = 5.0
"""Seconds until another try after a failure."""
STALE = 3600.0
"""Seconds without a look that went through, after which the process is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """How the process runs."""

    place: CertificateLocation
    health_address: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    health_port: int = 8081


class RenewalChecks:
    """Looks for ever, and knows how it went."""

    def __init__(self, keeper: CertificateKeeper, clock: SystemClock) -> None:
        self._keeper = keeper
        self._clock = clock
        self._last: float | None = None
        self._problem = "the certificate has not been checked yet"

    async def run(self) -> None:
        """Look every minute, after a failure every few seconds."""
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
        """Why the certificate is not known to be in order, or None."""
        if self._last is not None and self._clock.monotonic() - self._last < STALE:
            return None
        return self._problem or "the certificate has not been checked for an hour"


async def serve(settings: CertificateSettings) -> None:
    """The whole process; see `run`."""
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
    """Keep the certificate until SIGTERM or SIGINT.

    Raises CredentialsError without credentials, and OSError for a port that is taken.
    """
    asyncio.run(serve(settings))
