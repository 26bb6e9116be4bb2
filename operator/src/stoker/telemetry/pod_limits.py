"""What the series say of the pods' CPU limits and requests, where their own facts do not.

The facts of a recorded job, or of pods that are gone, have none; kube-state-metrics wrote them into Prometheus.
"""

from dataclasses import replace

import numpy as np

from stoker.telemetry.series import FloatArray, JobFacts, JobSeries, PodFacts, PodSignal


def with_recorded_limits(facts: JobFacts, series: JobSeries) -> JobFacts:
    """The facts with the latest CPU limit and request that the series have of each pod whose own facts lack them."""
    recorded = {pod.pod: pod.signals for pod in series.pods}

    def known(pod: PodFacts) -> PodFacts:
        signals = recorded.get(pod.name, {})
        limit = pod.cpu_limit or _latest(signals.get(PodSignal.CPU_LIMIT))
        return replace(pod, cpu_limit=limit, cpu_request=pod.cpu_request or _latest(signals.get(PodSignal.CPU_REQUEST)))

    return replace(facts, pods=tuple(map(known, facts.pods)), former_pods=tuple(map(known, facts.former_pods)))


def _latest(values: FloatArray | None) -> float | None:
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


__all__ = ["with_recorded_limits"]
