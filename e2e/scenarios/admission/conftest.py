from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.operator import Operator
from e2e.scenarios.admission.submitting import Submitter, Webhook


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Operator:
    """The chart's objects and the admission process under its own ServiceAccount; no controller."""
    operator = Operator(cluster)
    operator.install()
    operator.start_admission()
    return operator


@pytest.fixture
def webhook(operator: Operator) -> Webhook:
    """The chart's webhook configuration in the cluster, and the process behind it."""
    return Webhook(operator.cluster)


@pytest.fixture
def submitter(operator: Operator) -> Iterator[Submitter]:
    """Submits to a namespace of its own; leaves no policy behind."""
    yield Submitter(operator.cluster, operator.cluster.create_namespace("admission"))
    operator.cluster.kubectl("delete", "utilizationpolicies", "--all")
