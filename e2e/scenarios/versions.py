"""What differs between the API servers of the oldest and of the newest Kubernetes that are tested."""

import re

import pytest

from e2e.cluster.provider import Cluster

NEWEST = 36
"""The minor version that e2e/tools/kubernetes pins."""
NAMES_TYPES = 33
"""Up to this minor version a rule's refusal names the type of a value and not the value."""


def minor(cluster: Cluster) -> int:
    """The API server's minor version."""
    found: str = cluster.api("GET", "/version")["minor"]
    # Some providers' versions end with a plus sign.
    return int(found.rstrip("+"))


def require_newest(cluster: Cluster, why: str) -> None:
    """Skip the test on an older API server."""
    if (found := minor(cluster)) < NEWEST:
        pytest.skip(f"Kubernetes 1.{found}: {why}")


def missing(cluster: Cluster, expected: list[str], said: str) -> list[str]:
    """The expected parts of a refusal that are not in it."""
    if minor(cluster) > NAMES_TYPES:
        return [part for part in expected if part not in said]
    return [part for part in expected if part not in said and re.sub(r'"[^"]*"', '"string"', part) not in said]
