"""CPU limits that only the series tell."""

from dataclasses import replace

import numpy as np

from stoker.telemetry.pod_limits import with_recorded_limits
from stoker.telemetry.series import JobFacts, JobSeries, PodFacts, PodSeries, PodSignal

POD = PodFacts(name="bert-0-x", uid="u", rank=0, gpus=1)
FORMER = PodFacts(name="bert-0-w", uid="t", rank=0, gpus=1)
FACTS = JobFacts(namespace="team", name="bert", uid="j", nodes=1, gpus_per_node=1, pods=(POD,), former_pods=(FORMER,))


def series(pod: str, **signals: list[float]) -> JobSeries:
    recorded = PodSeries(pod=pod, signals={PodSignal(name): np.array(values) for name, values in signals.items()})
    return JobSeries(times=np.arange(3, dtype=np.float64), step=30, pods=(recorded,))


def test_the_latest_recorded_limit_counts() -> None:
    [pod] = with_recorded_limits(FACTS, series(POD.name, cpuLimit=[4, 8, np.nan], cpuRequest=[2, 2, 2])).pods
    assert (pod.cpu_limit, pod.cpu_request) == (8, 2)


def test_what_the_facts_say_stands() -> None:
    facts = replace(FACTS, pods=(replace(POD, cpu_limit=16),))
    [pod] = with_recorded_limits(facts, series(POD.name, cpuLimit=[8, 8, 8])).pods
    assert pod.cpu_limit == 16


def test_a_former_pod_has_its_own_limit() -> None:
    found = with_recorded_limits(FACTS, series(FORMER.name, cpuLimit=[8, 8, 8]))
    assert found.pods[0].cpu_limit is None
    assert found.former_pods[0].cpu_limit == 8


def test_no_sample_is_no_limit() -> None:
    [pod] = with_recorded_limits(FACTS, series(POD.name, cpuLimit=[np.nan] * 3)).pods
    assert pod.cpu_limit is None
