"""The jobs whose examination is measured are as large as they are said to be."""

import numpy as np

from benchmarks.examination.exported import exported
from benchmarks.examination.jobs import Size, played
from stoker.diagnosis.job import diagnose
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.series import GpuSignal


def test_a_simulated_job_is_played_longer_and_wider() -> None:
    facts, series, now = played("steady", Size(pods=3, gpus=2, hours=12))
    assert (facts.nodes, facts.gpus_per_node, len(series.gpus), len(series.pods)) == (3, 2, 6, 3)
    assert len(series.times) == 12 * 120
    assert all(len(values) == len(series.times) for gpu in series.gpus for values in gpu.signals.values())
    found = diagnose(facts, series, (), BUILT_IN.thresholds, now)
    assert found.utilization is not None
    assert found.utilization.coverage_percent > 90


def test_what_is_pushed_gives_the_same_use_and_growing_counters() -> None:
    facts, series, _ = played("read-objects", Size(pods=1, gpus=1, hours=2))
    pushed = {labels["__name__"]: values for labels, values in exported(facts, series)}
    use = series.gpus[0].signals[GpuSignal.GRAPHICS]
    known = np.isfinite(use)
    assert np.allclose(100 * pushed["DCGM_FI_PROF_GR_ENGINE_ACTIVE"][known], use[known], atol=1e-3)
    assert (np.diff(pushed["container_network_receive_bytes_total"]) >= 0).all()
    assert all(np.isfinite(values).all() for values in pushed.values())
