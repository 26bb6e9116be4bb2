import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.scenarios.harness.jobs import Jobs, ago

TRAINED_FOR_2_OF_6_HOURS = "phases: [{for: 2h, util: 90, cpu: 4, netRx: 10MB/s}, {util: 0, memory: 50%}]"


@pytest.fixture(autouse=True, scope="module")
def _prometheus(cluster: Cluster) -> None:
    cluster.start_prometheus()


def ask(url: str, promql: str, timeout: float = 10) -> dict[str, Any]:
    """The whole answer of an instant query."""
    with urllib.request.urlopen(
        f"{url}/api/v1/query?{urllib.parse.urlencode({'query': promql})}", timeout=timeout
    ) as http:
        answer: dict[str, Any] = json.load(http)
    return answer


def values(cluster: Cluster, promql: str) -> list[float]:
    return [float(result["value"][1]) for result in cluster.query(promql)]


def test_a_back_dated_job_has_its_past_and_goes_on_live(cluster: Cluster, jobs: Jobs) -> None:
    jobs.create("train", pods=2, gpus=2, started_at=ago(hours=6), scenario=TRAINED_FOR_2_OF_6_HOURS)
    jobs.running("train", 2)
    samples = cluster.backfill(jobs.namespace)
    assert samples > 2 * 6 * 120 * (2 * 15)

    mine = f'{{namespace="{jobs.namespace}",container="trainer"}}'
    assert values(cluster, f"avg_over_time(DCGM_FI_DEV_GPU_UTIL{mine}[7h])") == pytest.approx([30] * 4, abs=1)
    assert values(cluster, f"count_over_time(DCGM_FI_DEV_GPU_UTIL{mine}[7h])") == pytest.approx([721] * 4, abs=10)
    # live samples follow, and neither a counter nor a gauge jumps where they begin
    wait_for("live samples", lambda: len(values(cluster, f"DCGM_FI_DEV_GPU_UTIL{mine} and on() vector(1)")) == 4)
    wait_for(
        "samples of now",
        lambda: min(values(cluster, f"timestamp(DCGM_FI_DEV_GPU_UTIL{mine}) - time()"), default=-99) > -3,
    )
    assert values(cluster, f"resets(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{mine}[7h])") == [0] * 4
    # Over half an hour: a rate leaves out up to a step of the past, 30 s, where live samples are closer.
    assert values(cluster, f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{mine}[30m]) / 1000") == pytest.approx(
        values(cluster, f"DCGM_FI_DEV_POWER_USAGE{mine}"), rel=0.05
    )
    assert values(cluster, f"max_over_time(rate(container_cpu_usage_seconds_total{mine}[5m])[6h:1m])") == pytest.approx(
        [4, 4], rel=0.05
    )


def test_a_second_past_keeps_the_first_and_what_was_scraped(cluster: Cluster, jobs: Jobs) -> None:
    jobs.create("one", started_at=ago(hours=2), scenario="phases: [{util: 80}]")
    jobs.running("one")
    cluster.backfill(jobs.namespace)
    one = f'DCGM_FI_DEV_GPU_UTIL{{namespace="{jobs.namespace}",pod=~"one-.*"}}'
    wait_for("three live samples", lambda: values(cluster, f"count_over_time({one}[10s])") >= [3])
    before = values(cluster, f"count_over_time({one}[3h])")
    jobs.create("two", started_at=ago(hours=4), scenario="phases: [{util: 70}]")
    jobs.running("two")
    assert cluster.backfill(jobs.namespace) > 0
    assert values(cluster, f"count_over_time({one}[3h])") >= before
    two = f'DCGM_FI_DEV_GPU_UTIL{{namespace="{jobs.namespace}",pod=~"two-.*"}}'
    assert values(cluster, f"count_over_time({two}[5h])") >= [480]


def test_nobody_but_its_pod_tells_of_a_gpu_once_the_pod_has_its_past(cluster: Cluster, jobs: Jobs) -> None:
    """As free it was scraped until then: a series that ends while Prometheus is down is told for five minutes more."""
    jobs.create("whole", gpus=8, started_at=ago(hours=2), scenario="phases: [{util: 80}]")
    jobs.running("whole")
    cluster.backfill(jobs.namespace)
    mine = f'DCGM_FI_DEV_GPU_UTIL{{namespace="{jobs.namespace}"}}'
    told = f"count(DCGM_FI_DEV_GPU_UTIL and on (UUID) {mine})"
    assert (values(cluster, f"count({mine})"), values(cluster, told)) == ([8], [8])


def test_every_gpu_is_exported_once_and_a_pod_has_its_own(cluster: Cluster, jobs: Jobs) -> None:
    # whole nodes first: the smaller pods fit into what they leave wherever the scheduler puts them, not the reverse
    jobs.create("b", pods=2, gpus=8, scenario="phases: [{util: 60}]")
    jobs.running("b", 2)
    jobs.create("a", pods=3, gpus=3, scenario="phases: [{util: 50}]")
    jobs.running("a", 3)
    mine = f'DCGM_FI_DEV_GPU_UTIL{{namespace="{jobs.namespace}"}}'
    wait_for("their series", lambda: values(cluster, f"count(count by (UUID) ({mine}))") == [25])
    # of the last scrapes: a series that ended while Prometheus was down looks alive for five minutes more, and one
    # that ended just before it went down is still among the last
    live = "(DCGM_FI_DEV_GPU_UTIL and timestamp(DCGM_FI_DEV_GPU_UTIL) > time() - 3)"
    once = f"count(count by (UUID) ({live}) == 1)"
    wait_for("each GPU once", lambda: values(cluster, once) == [32] == values(cluster, f"count({live})"))


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[str]:
    """A proxy that passes everything on; it does so again after the test."""
    url = cluster.start_prometheus_proxy()
    yield url
    cluster.set_prometheus_fault("none")


def test_the_proxy_passes_on_what_prometheus_says(proxy: str) -> None:
    assert ask(proxy, "vector(7)")["data"]["result"][0]["value"][1] == "7"


def test_the_proxy_is_slow(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("slow", seconds=60)
    with pytest.raises(TimeoutError):
        ask(proxy, "vector(1)", timeout=0.2)


def test_the_proxy_answers_errors(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("error", status=502)
    with pytest.raises(urllib.error.HTTPError, match="502") as caught:
        ask(proxy, "vector(1)")
    caught.value.close()


def test_the_proxy_resets_connections(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("reset")
    with pytest.raises(OSError, match="reset"):
        ask(proxy, "vector(1)")


def test_the_proxy_truncates_answers(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("truncate")
    with pytest.raises(Exception, match="IncompleteRead"):
        ask(proxy, "vector(1)")


def test_the_proxy_answers_with_nothing(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("empty")
    assert ask(proxy, "vector(1)")["data"]["result"] == []


def test_the_proxy_makes_partial_answers_with_a_warning(proxy: str, cluster: Cluster) -> None:
    cluster.set_prometheus_fault("partial", keep=0.5)
    answer = ask(proxy, 'label_replace(vector(1), "x", "1", "", "") or vector(2)')
    assert len(answer["data"]["result"]) == 1
    assert "remote_read" in answer["warnings"][0]


def test_prometheus_goes_down_and_comes_back_partial(cluster: Cluster) -> None:
    """The real thing: a failing remote storage makes Prometheus itself warn of partial data."""
    try:
        cluster.stop_prometheus()
        with pytest.raises(OSError, match="refused"):
            cluster.query("vector(1)")
        cluster.start_prometheus(failing_remote_read=True)
        assert "warnings" in ask(cluster.prometheus_url, "DCGM_FI_DEV_GPU_UTIL")
    finally:
        cluster.start_prometheus()
    assert "warnings" not in ask(cluster.prometheus_url, "DCGM_FI_DEV_GPU_UTIL")
