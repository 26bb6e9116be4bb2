"""The demo checks each of its claims while it tells them; here it is held to them."""

from e2e.conftest import StartCluster
from e2e.demo.story import tell


def test_every_claim_of_the_demo_holds(start_cluster: StartCluster) -> None:
    """The first claim that does not hold raises, with the claim in words."""
    cluster = start_cluster("demo-test")
    tell(cluster)
    cluster.stop()
