"""A pod plays its part of a job of the physical simulator."""

import numpy as np
import pytest

from e2e.telemetry.metrics import PlayedPod, PodPlayer
from e2e.telemetry.products import product_named
from e2e.telemetry.samples import Program, ScenarioError
from e2e.telemetry.scenario import Scenario
from simulator import simulate
from simulator.timeline import GPU_FIELDS

V100, H100 = product_named("Tesla-V100-SXM2-32GB"), product_named("NVIDIA-H100-80GB-HBM3")
JOB = next(
    job for job in (simulate("checkpoint-remote", seed) for seed in range(99)) if "V100" in job.pods[0].model.name
)
TEXT = f"simulate: {{case: checkpoint-remote, seed: {JOB.seed}}}"


def played() -> Program:
    return Scenario(TEXT).play(rank=0, gpus=1, product=V100)


def test_its_interval_means_and_counters_are_the_simulated_job_s() -> None:
    program, times = played(), np.arange(30.0, JOB.life, 30.0)
    samples = [program.gpu(0, float(t)) for t in times]

    assert 100 * np.mean([sample.engine for sample in samples]) == pytest.approx(JOB.utilization, abs=1)
    total = JOB.pods[0].gpu_total(0, times[-1:])[0, GPU_FIELDS.index("power")]
    assert samples[-1].energy == pytest.approx(total)
    assert program.pod(float(times[-1])).net_tx == pytest.approx(JOB.pods[0].pod_total(times[-1:])[0, 3])


def test_it_shows_its_links_and_what_its_containers_wait_for() -> None:
    """As dcgm-exporter and cAdvisor name them; a scenario written by hand shows neither."""
    job = next(job for job in (simulate("exchange-data-parallel", seed) for seed in range(99)) if job.facts.nodes == 1)
    gpus = len(job.pods[0].gpus)
    scenario = f"simulate: {{case: {job.case}, seed: {job.seed}}}"
    shown = {name: value for name, value in series(scenario, gpus, job.life / 2).items() if "total" in name.lower()}
    assert shown["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"] > 0 or not job.pods[0].model.nvlink
    assert shown["container_cpu_cfs_periods_total"] >= shown["container_cpu_cfs_throttled_periods_total"]
    for resource in ("cpu", "io", "memory"):
        assert 0 <= shown[f"container_pressure_{resource}_waiting_seconds_total"] <= job.life
    painted = series("phases: [{util: 80}]", 1, 60)
    assert not [name for name in painted if "NVLINK" in name or "pressure" in name or "cfs" in name]


def series(scenario: str, gpus: int, t: float) -> dict[str, float]:
    """A pod's series that long after its start, one of each name."""
    pod = PlayedPod(
        uid="5b0e",
        namespace="nlp",
        name="bert-0",
        node="gpu-1",
        container="trainer",
        image="bert:1",
        product="NVIDIA-H100-80GB-HBM3",
        gpus=tuple(range(gpus)),
        rank=0,
        started=0,
        scenario=scenario,
    )
    player = PodPlayer(pod, pod.program())
    return {one.name: one.value for one in (*player.dcgm(t, 30), *player.cadvisor(t))}


def test_on_another_model_it_takes_the_same_share_of_memory_and_power() -> None:
    here, there = played(), Scenario(TEXT).play(rank=0, gpus=1, product=H100)
    ours, theirs = here.gpu(0, 600), there.gpu(0, 600)

    assert theirs.memory / H100.memory == pytest.approx(ours.memory / V100.memory)
    assert (theirs.power - H100.idle) / (H100.limit - H100.idle) == pytest.approx(
        (ours.power - V100.idle) / (V100.limit - V100.idle)
    )
    assert theirs.util == ours.util


def test_before_its_start_and_after_its_end_it_stays_in_its_bounds() -> None:
    program = played()

    assert program.gpu(0, -1).power == V100.idle
    assert program.pod(-1).cpu == 0
    assert program.gpu(0, JOB.life + 3600).energy > program.gpu(0, JOB.life).energy


@pytest.mark.parametrize(
    "text, message",
    [
        ("simulate: {case: no-such}", "simulate.case: 'no-such' is not one of accumulating, "),
        ("simulate: {cases: steady}", "simulate: unknown cases; allowed are case, seed"),
        ("{simulate: {case: steady}, noise: 3}", "scenario: unknown noise; allowed are simulate"),
        ("simulate: steady", "simulate: 'steady' is not a mapping"),
    ],
)
def test_what_cannot_be_simulated_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario(text)


def test_a_pod_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(ScenarioError, match="has no pod of rank 7"):
        Scenario(TEXT).play(rank=7, gpus=1, product=V100)
    with pytest.raises(ScenarioError, match="has 1 GPUs a pod, not 8"):
        Scenario(TEXT).play(rank=0, gpus=8, product=V100)
