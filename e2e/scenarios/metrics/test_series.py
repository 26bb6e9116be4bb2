"""One job's series out of a real Prometheus: exporters' names, units and quirks end in one meaning."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from e2e.scenarios.metrics.recorded import NAMESPACE, History, RecordedPrometheus, Track, Value, constant, until
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.telemetry.series import Attempt, FloatArray, GpuSignal, JobFacts, JobSeries, PodFacts, PodSignal

pytestmark = pytest.mark.e2e

HOURS = 3
LIFE = HOURS * 3600.0
STEP = timedelta(seconds=30)
AGO = 5400.0
"""Where in the history things change, in seconds before its end."""
UTIL, GRAPHICS = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
USED, FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
POWER, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
SPEC = "kube_pod_container_resource"
LINKS = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
BUSY: dict[str, Value] = {UTIL: constant(90), GRAPHICS: constant(0.8), USED: constant(20_000), FREE: constant(60_000)}


def total(watts: Value, *, renewed: float = 30.0, reset_at: float | None = None) -> Value:
    """An energy counter in mJ, renewed every so many seconds, and begun anew at an age."""

    def value(age: float) -> float:
        since = LIFE if reset_at is None or age > reset_at else reset_at
        ticks = int((since - age) // renewed)
        return 1000 * sum((watts(since - renewed * tick) or 0.0) * renewed for tick in range(ticks))

    return value


def late(value: Value) -> Value:
    """As scraped with a gap of 45 s every ten minutes."""
    return lambda age: None if age % 600 < 30 else value(age)


def noisy(mean: float) -> Value:
    """Some value around a mean."""
    return lambda age: mean * (0.9 + 0.2 * ((age // 30) * 37 % 11) / 10)


def history(end: datetime) -> History:
    story = History(end=end, seconds=LIFE, step=15.0)
    story.gpu("energy", 0, BUSY | {ENERGY: total(until(AGO, 400, 120)), POWER: constant(999)})
    story.gpu("energy-anew", 0, BUSY | {ENERGY: total(constant(400), reset_at=AGO)})
    story.gpu("energy-late", 0, BUSY | {ENERGY: late(lambda age: 120_000 * (LIFE - age))})
    story.gpu("power-only", 0, BUSY | {POWER: constant(333)})
    story.gpu("links-rate", 0, BUSY | {LINKS: noisy(50_000)})
    story.gpu("links-total", 0, BUSY | {LINKS: lambda age: 5_000 * (LIFE - age)})
    story.gpu(
        "links-profiled",
        0,
        BUSY
        | {
            LINKS: noisy(1),
            "DCGM_FI_PROF_NVLINK_TX_BYTES": constant(2e9),
            "DCGM_FI_PROF_NVLINK_RX_BYTES": constant(3e9),
        },
    )
    story.gpu(
        "errors",
        0,
        BUSY
        | {
            "DCGM_FI_DEV_XID_ERRORS": until(AGO, 0, 79),
            "DCGM_FI_DEV_SM_CLOCK": constant(1980),
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": until(AGO, 2, 5),
        },
    )
    wide = {POWER: constant(650), LINKS: noisy(9_000), "DCGM_FI_PROF_PCIE_RX_BYTES": constant(8e9)}
    slices: dict[str, Value] = {GRAPHICS: constant(0.4), USED: constant(4_000), FREE: constant(5_000), **wide}
    story.gpu("slice", 0, slices, uuid="GPU-mig", GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")
    story.gpu("sharer", 0, BUSY | wide, uuid="GPU-shared", vgpu="1")
    story.gpu("unmatched", 0, BUSY | {UTIL: constant(0), USED: constant(0)} | wide, uuid="GPU-shared", vgpu="2")
    story.gpu("rescaled", 0, BUSY | {UTIL: constant(0.97)}, namespace="open-data-hub")
    story.gpu("lazy", 0, {UTIL: lambda age: 2.0 * (age % 240 == 0)}, namespace="lazy")
    story.gpu("untold", 0, {UTIL: constant(1)}, namespace="untold")
    new = {
        "DCGM_FI_DEV_GPU_UTIL_RATIO": constant(0.9),
        "DCGM_FI_DEV_FB_USED_BYTES": constant(20_000 * 1024.0**2),
        "DCGM_FI_DEV_BOARD_POWER_WATTS": constant(500),
    }
    story.gpu("renamed", 0, new, Hostname="", hostname="gpu-1")
    for job in ("dcgm", "dcgm-again"):
        story.gpu("scraped-twice", 0, BUSY, job=job, instance="gpu-1:9400")
    # A node with two exporters, one of which may not read the profiling counters.
    story.gpu("two-exporters", 0, BUSY, instance="gpu-1:9400")
    story.gpu("two-exporters", 0, BUSY | {GRAPHICS: constant(0)}, instance="gpu-1:9500")
    alternating: Value = lambda age: 100.0 if age % 60 < 30 else 0.0  # noqa: E731 - a Value, as those beside it
    story.gpu("two-phases", 0, {UTIL: alternating}, instance="gpu-1:9400")
    story.gpu("two-phases", 0, {UTIL: lambda age: 100 - (alternating(age) or 0)}, instance="gpu-1:9500")
    story.gpu("moved", 0, BUSY, uuid="GPU-new", Hostname="gpu-2")
    story.gpu("moved-before", 0, BUSY | {GRAPHICS: constant(0.3)}, uuid="GPU-old")
    amd = {"namespace": NAMESPACE, "gpu_id": "1", "card_model": "MI300X", "gpu_compute_partition_type": "spx"}
    for pod, more in (("amd", {}), ("amd-part", {"gpu_compute_partition_type": "cpx", "gpu_partition_id": "0"})):
        labels = amd | {"pod": pod, "serial_number": f"S-{pod}", "gpu_partition_id": "0"} | more
        values: dict[str, Value] = {
            "amd_gpu_gfx_activity": constant(71),
            "amd_gpu_used_vram": constant(100_000),
            "amd_gpu_energy_consumed": lambda age: 550e6 * (LIFE - age),
        }
        story.tracks += [Track(metric=metric, labels=labels, value=value) for metric, value in values.items()]
    for name in ("energy",):
        story.pod(name, "container_cpu_cfs_periods_total", constant(10), container="trainer")
        story.pod(name, "container_cpu_cfs_throttled_periods_total", until(AGO, 2.5, 0), container="trainer")
        for resource, share in (("cpu", 0.4), ("io", 0.25), ("memory", 0.01)):
            story.pod(
                name, f"container_pressure_{resource}_waiting_seconds_total", constant(share), container="trainer"
            )
            # The pod's own cgroup, which says it once more.
            story.pod(name, f"container_pressure_{resource}_waiting_seconds_total", constant(share), container="")
        # A burst of 30 s that belongs to one step.
        burst: Value = lambda age: 3e8 if AGO <= age < AGO + 30 else 0.0  # noqa: E731 - a Value, as those beside it
        story.pod(name, "container_network_transmit_bytes_total", burst, interface="eth0")
    for name, limits in {"limited": {"trainer": 8, "log": 0.5}, "half-limited": {"log": 0.5}}.items():
        story.gpu(name, 0, BUSY)
        for container in ("trainer", "log"):
            story.pod(name, "kube_pod_container_info", constant(1), counter=False, container=container)
        for container, cores in limits.items():
            labels = {"container": container, "resource": "cpu", "unit": "core"}
            story.pod(name, f"{SPEC}_limits", constant(cores), counter=False, **labels)
            # A replica of kube-state-metrics says the same.
            story.pod(name, f"{SPEC}_limits", constant(cores), counter=False, **labels, instance="ksm-1:8080")
            story.pod(name, f"{SPEC}_requests", constant(cores / 2), counter=False, **labels)
            memory = labels | {"resource": "memory", "unit": "byte"}
            story.pod(name, f"{SPEC}_limits", constant(64e9), counter=False, **memory)
    # A container that was started anew: its counter begins at 0 again.
    story.pod(
        "power-only",
        "container_cpu_usage_seconds_total",
        lambda age: 2.0 * ((LIFE if age > AGO else AGO) - age),
        counter=False,
        container="trainer",
        cpu="total",
    )
    return story


@pytest.fixture(scope="module")
def now() -> datetime:
    """At the end of a step, as the history's changes are."""
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() // 30 * 30, UTC)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> Iterator[RecordedPrometheus]:
    with RecordedPrometheus(tmp_path_factory.mktemp("prom"), history(now).lines()) as running:
        yield running


def facts(pod: str, now: datetime, *, namespace: str = NAMESPACE, **more: Any) -> JobFacts:
    started = now - timedelta(hours=HOURS)
    own = PodFacts(name=pod, uid=pod, rank=0, node="gpu-1", gpus=1, started_at=started, ready=True)
    job = JobFacts(namespace=namespace, name="bert", uid="j", nodes=1, gpus_per_node=1, pods=(own,))
    return replace(job, **more)


async def read(source: PrometheusSource, job: JobFacts, now: datetime) -> JobSeries:
    return await source.series(job, now - timedelta(hours=HOURS), now, STEP)


async def signals(
    source: PrometheusSource, pod: str, now: datetime, **more: Any
) -> tuple[dict[GpuSignal, FloatArray], FloatArray]:
    """The signals of a pod's only GPU, and the age of each step's end."""
    series = await read(source, facts(pod, now, **more), now)
    [gpu] = series.gpus
    return dict(gpu.signals), now.timestamp() - series.times


def known(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


async def test_power_is_the_mean_of_the_energy_counter_though_it_is_told_twice(
    source: PrometheusSource, now: datetime
) -> None:
    """Collected each 30 s, scraped each 15 s; POWER_USAGE (999 here) stands only where no energy is known."""
    found, age = await signals(source, "energy", now)
    power = found[GpuSignal.POWER]
    np.testing.assert_allclose(power[(age > AGO + 60) & (age < LIFE - 90)], 400)
    np.testing.assert_allclose(power[(age < AGO - 60) & (age > 60)], 120)
    assert np.count_nonzero(power == 999) <= 4


async def test_a_late_scrape_makes_no_spike_of_power(source: PrometheusSource, now: datetime) -> None:
    """An idle GPU that seemed to work once in ten minutes would never be reclaimed."""
    found, _ = await signals(source, "energy-late", now)
    np.testing.assert_allclose(known(found[GpuSignal.POWER]), 120, rtol=0.05)


async def test_a_counter_that_begins_anew_makes_no_spike(source: PrometheusSource, now: datetime) -> None:
    found, _ = await signals(source, "energy-anew", now)
    np.testing.assert_allclose(known(found[GpuSignal.POWER]), 400)
    assert np.isnan(found[GpuSignal.POWER]).sum() <= 5


async def test_a_cpu_counter_that_begins_anew_makes_no_spike(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("power-only", now), now)
    [pod] = series.pods
    np.testing.assert_allclose(known(pod.signals[PodSignal.CPU])[4:].mean(), 2, rtol=0.02)
    assert known(pod.signals[PodSignal.CPU]).max() < 2.1


async def test_power_without_an_energy_counter_is_what_is_exported(source: PrometheusSource, now: datetime) -> None:
    found, _ = await signals(source, "power-only", now)
    np.testing.assert_allclose(known(found[GpuSignal.POWER]), 333)


@pytest.mark.parametrize("pod", ["links-rate", "links-total", "links-profiled"])
async def test_links_are_bytes_a_second_whatever_the_exporter_makes_of_them(
    source: PrometheusSource, now: datetime, pod: str
) -> None:
    found, _ = await signals(source, pod, now)
    expected = {"links-rate": 50e9, "links-total": 5e9, "links-profiled": 5e9}[pod]
    np.testing.assert_allclose(known(found[GpuSignal.NVLINK]).mean(), expected, rtol=0.02)


async def test_codes_and_clocks_are_not_averaged_away(source: PrometheusSource, now: datetime) -> None:
    found, age = await signals(source, "errors", now)
    assert set(known(found[GpuSignal.XID])) == {0, 79}
    assert set(known(found[GpuSignal.XID][age < AGO - 60])) == {79}
    assert known(found[GpuSignal.PCIE_REPLAY]).max() == 5
    np.testing.assert_allclose(known(found[GpuSignal.SM_CLOCK]), 1980)


async def test_a_slice_has_only_what_is_its_own(source: PrometheusSource, now: datetime) -> None:
    """Power, links and PCIe are the whole device's."""
    series = await read(source, facts("slice", now), now)
    [gpu] = series.gpus
    assert gpu.gpu == "GPU-mig/3"
    assert set(gpu.signals) == {GpuSignal.GRAPHICS, GpuSignal.MEMORY_USED, GpuSignal.MEMORY_FREE}
    assert gpu.context_idle_watts is None


async def test_a_shared_gpu_says_so_and_keeps_what_is_the_pods(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("sharer", now), now)
    [gpu] = series.gpus
    assert gpu.shared
    assert set(gpu.signals) == {GpuSignal.UTIL, GpuSignal.MEMORY_USED}
    np.testing.assert_allclose(known(gpu.signals[GpuSignal.UTIL]), 90)


async def test_a_zero_for_a_pod_whose_processes_the_exporter_does_not_find_is_unknown(
    source: PrometheusSource, now: datetime
) -> None:
    found, _ = await signals(source, "unmatched", now)
    assert GpuSignal.UTIL not in found or not len(known(found[GpuSignal.UTIL]))


async def test_a_product_shared_in_time_is_shared_though_its_exporter_does_not_say_so(
    source: PrometheusSource, now: datetime
) -> None:
    series = await read(source, facts("power-only", now, gpu_product="NVIDIA-H100-80GB-HBM3-SHARED"), now)
    [gpu] = series.gpus
    assert gpu.shared
    assert GpuSignal.POWER not in gpu.signals


async def test_a_rescaled_utilization_is_told_by_its_fractions(source: PrometheusSource, now: datetime) -> None:
    found, _ = await signals(source, "rescaled", now, namespace="open-data-hub")
    np.testing.assert_allclose(known(found[GpuSignal.UTIL]), 97)


async def test_the_means_of_a_nearly_idle_gpu_are_not_taken_for_ratios(source: PrometheusSource, now: datetime) -> None:
    """2 % for one sample in sixteen: its means are at most 1, and its samples more."""
    found, _ = await signals(source, "lazy", now, namespace="lazy")
    assert known(found[GpuSignal.UTIL]).max() == 1


async def test_a_utilization_that_may_be_one_percent_or_all_is_unknown(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("untold", now, namespace="untold"), now)
    assert series.gpus == ()


async def test_new_names_and_labels_mean_the_same(source: PrometheusSource, now: datetime) -> None:
    found, _ = await signals(source, "renamed", now)
    for signal, value in ((GpuSignal.UTIL, 90), (GpuSignal.MEMORY_USED, 20_000), (GpuSignal.POWER, 500)):
        np.testing.assert_allclose(known(found[signal]), value)


@pytest.mark.parametrize("pod", ["scraped-twice", "two-exporters"])
async def test_a_device_that_is_told_twice_is_one_device(source: PrometheusSource, now: datetime, pod: str) -> None:
    found, _ = await signals(source, pod, now)
    np.testing.assert_allclose(known(found[GpuSignal.UTIL]), 90)
    np.testing.assert_allclose(known(found[GpuSignal.GRAPHICS]), 80)
    np.testing.assert_allclose(known(found[GpuSignal.MEMORY_USED]), 20_000)


async def test_two_exporters_do_not_add_their_peaks(source: PrometheusSource, now: datetime) -> None:
    """Two samples of a GPU that is busy half of the time: half, not always."""
    found, _ = await signals(source, "two-phases", now)
    assert known(found[GpuSignal.UTIL]).mean() == pytest.approx(50, abs=2)


async def test_a_former_pods_series_belong_to_the_job(source: PrometheusSource, now: datetime) -> None:
    """Rescheduled to another node half-way: each pod's samples count in its own life only."""
    moved, start = now - timedelta(seconds=AGO), now - timedelta(hours=HOURS)
    former = PodFacts(name="moved-before", uid="a", rank=0, node="gpu-1", gpus=1, started_at=start, finished_at=moved)
    latest = PodFacts(name="moved", uid="b", rank=0, node="gpu-2", gpus=1, started_at=moved, ready=True)
    series = await read(source, facts("moved", now, pods=(latest,), former_pods=(former,)), now)
    age = now.timestamp() - series.times
    uses = {gpu.gpu: gpu.signals[GpuSignal.GRAPHICS] for gpu in series.gpus}
    np.testing.assert_allclose(uses["GPU-old"][(age > AGO + 60) & (age < LIFE - 60)], 30)
    np.testing.assert_allclose(uses["GPU-new"][age < AGO - 60], 80)
    assert not np.isfinite(uses["GPU-old"][age < AGO - 60]).any()
    assert not np.isfinite(uses["GPU-new"][age > AGO + 60]).any()


async def test_what_lies_between_two_runs_of_a_container_is_a_gap(source: PrometheusSource, now: datetime) -> None:
    again, end = now - timedelta(seconds=AGO), now - timedelta(seconds=AGO + 1200)
    attempt = Attempt(started_at=now - timedelta(hours=HOURS), finished_at=end)
    pod = PodFacts(
        name="power-only", uid="a", rank=0, node="gpu-1", gpus=1, started_at=again, attempts=(attempt,), restarts=1
    )
    found, age = await signals(source, "power-only", now, pods=(pod,))
    util = found[GpuSignal.UTIL]
    assert np.isfinite(util[(age < AGO - 30) | ((age > AGO + 1260) & (age < LIFE - 60))]).all()
    assert not np.isfinite(util[(age > AGO + 30) & (age < AGO + 1170)]).any()


async def test_an_amd_exporter_with_a_prefix_is_read(prometheus: RecordedPrometheus, now: datetime) -> None:
    access = PrometheusAccess(url=prometheus.url, profile="amd", metric_prefix="amd_")
    async with PrometheusSource(access, max_skew=None) as source:
        found, age = await signals(source, "amd", now)
        np.testing.assert_allclose(known(found[GpuSignal.UTIL]), 71)
        np.testing.assert_allclose(known(found[GpuSignal.MEMORY_USED]), 100_000)
        np.testing.assert_allclose(known(found[GpuSignal.POWER][age < LIFE - 90]), 550)
        # Its first partition shows what all of the device does.
        part, _ = await signals(source, "amd-part", now)
        assert set(part) == {GpuSignal.MEMORY_USED}


async def test_pressure_and_throttling_are_percent_of_time(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("energy", now), now)
    [pod] = series.pods
    age = now.timestamp() - series.times
    for signal, value in (
        (PodSignal.CPU_PRESSURE, 40),
        (PodSignal.IO_PRESSURE, 25),
        (PodSignal.MEMORY_PRESSURE, 1),
    ):
        np.testing.assert_allclose(known(pod.signals[signal])[4:], value, rtol=0.01)
    throttled = pod.signals[PodSignal.CPU_THROTTLED]
    np.testing.assert_allclose(known(throttled[(age > AGO + 60) & (age < LIFE - 120)]), 25)
    np.testing.assert_allclose(known(throttled[age < AGO - 60]), 0, atol=1e-9)


async def test_cpu_limits_are_those_of_all_containers_of_a_pod(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("limited", now), now)
    [pod] = series.pods
    assert set(known(pod.signals[PodSignal.CPU_LIMIT])) == {8.5}
    assert set(known(pod.signals[PodSignal.CPU_REQUEST])) == {4.25}


async def test_the_limit_of_one_container_is_not_the_pods(source: PrometheusSource, now: datetime) -> None:
    series = await read(source, facts("half-limited", now), now)
    assert not any(PodSignal.CPU_LIMIT in pod.signals for pod in series.pods)


async def test_a_burst_is_not_smeared_over_minutes(source: PrometheusSource, now: datetime) -> None:
    """9 GB within 30 s: over two steps at most, and all of it."""
    series = await read(source, facts("energy", now), now)
    [pod] = series.pods
    sent = np.nan_to_num(pod.signals[PodSignal.NET_TX])
    assert 1 <= np.count_nonzero(sent > 1e6) <= 3
    assert sent.sum() * 30 == pytest.approx(9e9, rel=0.5)


async def test_a_large_job_is_read_in_parts_and_a_larger_one_at_a_coarser_step(
    source: PrometheusSource, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("energy", "power-only", "links-rate", "errors")
    start = now - timedelta(hours=HOURS)
    pods = tuple(
        PodFacts(name=name, uid=name, rank=rank, node="gpu-1", gpus=1, started_at=start)
        for rank, name in enumerate(names)
    )
    whole = await read(source, facts("-", now, nodes=4, pods=pods), now)
    monkeypatch.setattr("stoker.adapters.prometheus.series.MAX_CELLS", 10_000)
    parts = await read(source, facts("-", now, nodes=4, pods=pods), now)
    assert parts.step == whole.step == 30
    for one, other in zip(whole.gpus, parts.gpus, strict=True):
        assert one.pod == other.pod
        for signal in one.signals:
            np.testing.assert_allclose(one.signals[signal], other.signals[signal])
    monkeypatch.setattr("stoker.adapters.prometheus.series.MAX_CELLS", 1_000)
    coarse = await read(source, facts("-", now, nodes=4, pods=pods), now)
    assert coarse.step > 30
    np.testing.assert_allclose(known(coarse.gpus[0].signals[GpuSignal.UTIL]), 90)
