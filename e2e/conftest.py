"""Clusters for end-to-end tests.

`cluster` is one cluster for the whole session; each test takes a `namespace` of its own in it. A test that breaks parts
of its cluster starts another one with `start_cluster`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from e2e.cluster.provider import Cluster, create
from e2e.cluster.waiting import wait_for
from e2e.permissions import listed, unused, used

_SCENARIOS = Path(__file__).parent / "scenarios"
BY_FILE = frozenset({"e2e/scenarios/metrics", "e2e/scenarios/reclaim"})
"""Packages whose modules share no cluster."""


class StartCluster(Protocol):
    """Starts a cluster of its own; it is stopped at the end of the session at the latest."""

    def __call__(self, name: str) -> Cluster: ...


class SharedClusters(LoadScopeScheduling):  # type: ignore[misc]  # an untyped base
    """Gives the tests of one package of scenarios, which share a cluster, to one worker of pytest-xdist; and all other
    tests by their file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        package = file.rpartition("/")[0]
        return package if package.startswith("e2e/scenarios/") and package not in BY_FILE else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharedClusters | None:
    """With `--dist loadscope`."""
    return SharedClusters(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below e2e/scenarios needs a control plane."""
    for item in items:
        if item.path.is_relative_to(_SCENARIOS):
            item.add_marker("e2e")


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Callable[[str], object]:
    """Prints a line on the terminal at once: for what takes long."""
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        if terminal is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                terminal.write_line(text)

    return line


@pytest.fixture(scope="session")
def started() -> list[Cluster]:
    """The clusters that `start_cluster` has started."""
    return []


@pytest.fixture(scope="session")
def start_cluster(report: Callable[[str], object], started: list[Cluster]) -> Iterator[StartCluster]:
    """Starts clusters that a test has for itself."""
    with ExitStack() as stack:

        def start(name: str) -> Cluster:
            started.append(stack.enter_context(create(name=name, report=report)))
            return started[-1]

        yield start


@pytest.fixture(scope="session")
def cluster(start_cluster: StartCluster) -> Cluster:
    """The session's cluster, with four nodes of eight GPUs each. Prometheus is not started."""
    cluster = start_cluster("e2e")
    cluster.add_nodes(4)
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the session's cluster; it is deleted, with all in it, after the test."""
    name = cluster.create_namespace()
    yield name
    cluster.api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(autouse=True)
def shown_permissions(request: pytest.FixtureRequest, started: list[Cluster]) -> Iterator[None]:
    """After a test that shows what permissions of the chart are for (permissions.yaml): the operator has used them."""
    shown = [permission for permission, test in listed().items() if test == request.node.nodeid]
    yield
    audited = [cluster.audit_log for cluster in started if cluster.audit_log.exists()]
    assert audited or not shown or os.environ.get("STOKER_E2E_PROVIDER") == "kind", (
        "no API server has kept an audit log"
    )

    def all_used() -> bool:
        requests = [one for log in audited for one in used(log)]
        assert unused(shown, requests) == []
        return True

    if shown and audited:
        wait_for("the permissions to be used", all_used)
