from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.admission.submitting import Submitter, Webhook
from e2e.scenarios.lifecycle.workload import POLICIES


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart's objects and the admission process under its own ServiceAccount; no controller.

    In a cluster of its own: these tests kill the process and change the webhook's configuration. The GPUs count as
    scraped so seldom that some policies contradict it.
    """
    operator = Operator(start_cluster("admission"))
    operator.install()
    operator.start_admission(scrape_interval="6m")
    yield operator
    operator.cluster.stop()


@pytest.fixture
def webhook(operator: Operator) -> Webhook:
    """The chart's webhook configuration in the cluster, and the process behind it."""
    return Webhook.of(operator.cluster)


@pytest.fixture
def submitter(operator: Operator) -> Iterator[Submitter]:
    """Submits to a namespace of its own, once the policies of the test before are forgotten; leaves none behind."""
    submitter = Submitter(operator.cluster, operator.cluster.create_namespace("admission"))
    wait_for("the policies of the test before to be forgotten", submitter.judged_without_policies, quiet=True)
    yield submitter
    operator.cluster.api("DELETE", POLICIES)
