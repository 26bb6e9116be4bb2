from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from e2e.change_recorder import ChangeRecorder
from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.hostile.beside import APART, Trial


@contextmanager
def tried(
    start_cluster: StartCluster, rounds: Mapping[str, Sequence[str]], report: Callable[[str], object]
) -> Iterator[Trial]:
    """A cluster in which all rounds have been."""
    cluster = start_cluster("hostile")
    cluster.add_nodes(18)
    cluster.add_nodes(len(rounds) // 2 + 1, prefix="apart", labels={APART.key: "yes"}, taints=[APART])
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.start(scan_interval="1s")
    with ChangeRecorder(cluster) as recorder:
        trial = Trial(operator, recorder, rounds)
        trial.prepare()
        trial.run(report)
        yield trial
    cluster.stop()
