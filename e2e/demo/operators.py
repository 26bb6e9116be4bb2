"""The two ways in which the demo has Stoker run: as two processes beside the cluster, or in it, on a real node."""

from typing import Any, Protocol

from e2e.cluster.node import NodeCluster
from e2e.cluster.provider import Cluster
from e2e.installed import InstalledOperator
from e2e.operator import NAMESPACE, Operator

_GRACE = "1m"
"""Hours elsewhere; the policy of the demo has the same."""


class DemoOperator(Protocol):
    """What the story needs of either."""

    where: str
    """A sentence on where it runs."""

    @property
    def values(self) -> dict[str, Any]:
        """Of the chart, which the story installs itself, by helm."""

    def prepare(self) -> None:
        """Before the chart is installed."""

    def begin(self) -> None:
        """After it: return when Stoker reviews jobs and controls them."""


class BesideTheCluster:
    """Two processes on this machine, with the chart's accounts."""

    where = "Stoker runs as two processes beside it."

    def __init__(self, cluster: Cluster) -> None:
        self._operator = Operator(cluster)

    @property
    def values(self) -> dict[str, Any]:
        return self._operator.values

    def prepare(self) -> None:
        """Nothing to do."""

    def begin(self) -> None:
        self._operator.connect()
        self._operator.start_admission(f"--minimum-warning-grace={_GRACE}")
        self._operator.start_controller(minimum_warning_grace=_GRACE)


class InTheCluster:
    """The chart's Deployments."""

    where = "Stoker runs on one more node, a real one, in the pods of its chart."

    def __init__(self, cluster: NodeCluster) -> None:
        controller = {"minimumWarningGrace": _GRACE, "scanInterval": "2s"}
        values = {"controller": controller, "metrics": {"authentication": False}}
        self._operator = InstalledOperator(cluster, values=values)

    @property
    def values(self) -> dict[str, Any]:
        return self._operator.values

    def prepare(self) -> None:
        self._operator.prepare()

    def begin(self) -> None:
        self._operator.wait()
        self._operator.scrape()
        print(self._operator.cluster.kubectl("get", "pods", "--namespace", NAMESPACE), flush=True)


def operator_in(cluster: Cluster) -> DemoOperator:
    """Stoker in the cluster where that has a real node, otherwise beside it."""
    return InTheCluster(cluster) if isinstance(cluster, NodeCluster) else BesideTheCluster(cluster)
