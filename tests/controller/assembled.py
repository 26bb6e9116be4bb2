"""A controller as production wires it, on an API server and a clock of the test's own."""

from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import KubernetesApi
from stoker.adapters.notifications import Mail
from stoker.controller.assembly import NO_SUBSTITUTES, Controller, Ports, Substitutes, Timing, assemble
from stoker.telemetry.screen import MetricsSource
from tests.inline_workers import InlineWorkers


class NoMetrics:
    """A MetricsSource that must not be asked."""

    async def screen(self, *_: Any) -> Any:
        raise AssertionError("no metrics are read here")

    async def series(self, *_: Any) -> Any:
        raise AssertionError("no metrics are read here")


def assembled(
    api: KubernetesApi,
    clock: Clock,
    *,
    metrics: MetricsSource | None = None,
    substitutes: Substitutes = NO_SUBSTITUTES,
    **ports: Any,
) -> Controller:
    """The parts of a controller; `ports` are fields of `Ports` beyond those that every test has."""
    given = {"workers": InlineWorkers(), "post": Mail(None), "instance": "test", **ports}
    return assemble(Ports(api=api, clock=clock, metrics=metrics or NoMetrics(), **given), Timing(), substitutes)
