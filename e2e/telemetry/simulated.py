"""Pods that play a job of the physical simulator instead of phases written by hand."""

from functools import lru_cache

import numpy as np

from e2e.telemetry.products import Product
from e2e.telemetry.samples import GpuSample, PodSample, ScenarioError, idle_gpu
from simulator import CASES, SimulatedJob, SimulatedPod, simulate
from simulator.timeline import gpu_use, pod_use


@lru_cache(maxsize=64)
def simulated(case: str, seed: int) -> SimulatedJob:
    """The job, made once for all its pods. Raises ScenarioError for an unknown case."""
    if case not in CASES:
        raise ScenarioError(f"simulate.case: {case!r} is not one of {', '.join(sorted(CASES))}")
    return simulate(case, seed)


class SimulatedProgram:
    """One pod of a simulated job, on GPUs of a model that may be another than the simulated one.

    Memory and power are then those of the GPU at hand in proportion. What the job does at the end of its life goes on.
    """

    clock = 0.0

    def __init__(self, case: str, seed: int, *, rank: int, gpus: int, product: Product) -> None:
        """Raises ScenarioError for a pod that the job doesn't have, or that has other GPUs there."""
        job = simulated(case, seed)
        self._pod = _pod(job, rank)
        if len(self._pod.gpus) != gpus:
            raise ScenarioError(f"simulate: {case} with seed {seed} has {len(self._pod.gpus)} GPUs a pod, not {gpus}")
        model = self._pod.model
        self._product = product
        self._idle = model.idle
        self._watts = (product.limit - product.idle) / (model.limit - model.idle)
        self._memory = product.memory / model.memory

    def gpu(self, index: int, t: float, interval: float = 30.0) -> GpuSample:
        """The pod's GPU `index` at `t` seconds after the container's start.

        `util` is the mean over the driver's window, `power` over the last second, `engine`, `tensor`, `dram`, `rx` and
        `tx` over the last `interval` seconds. Before the start it is at rest.
        """
        if t < 0:
            return idle_gpu(self._product)
        window = self._pod.model.window
        totals = self._pod.gpu_total(index, np.array([t, t - window, t - 1.0, t - interval]))
        now, level = totals[0], self._pod.gpu_value(index, np.array([t]))[0]
        # before the start there was nothing: the means of the first moments are over less
        seconds = [max(min(t, span), 1e-9) for span in (window, 1.0)]
        short, second = (gpu_use((now - totals[1 + i]) / seconds[i]) for i in range(2))
        mean, use, total = gpu_use((now - totals[3]) / interval), gpu_use(level), gpu_use(now)
        return GpuSample(
            util=100 * short.engine,
            engine=mean.engine,
            memory=use.memory * self._memory,
            tensor=mean.tensor,
            dram=mean.dram,
            rx=mean.rx,
            tx=mean.tx,
            power=self._power(second.power) if t > 0 else self._product.idle,
            encoder=0,
            decoder=0,
            xid=use.xid,
            links=mean.nvlink if self._pod.model.nvlink else None,
            energy=self._product.idle * t + (total.power - self._idle * t) * self._watts,
        )

    def pod(self, t: float) -> PodSample:
        """The pod at `t` seconds after the container's start."""
        at = np.array([max(t, 0.0)])
        total, level = pod_use(self._pod.pod_total(at)[0]), pod_use(self._pod.pod_value(at)[0])
        return PodSample(
            cpu=total.cpu,
            rss=level.memory if t >= 0 else 0,
            net_rx=total.net_rx,
            net_tx=total.net_tx,
            disk_read=total.disk_read,
            disk_write=total.disk_write,
            stopped=total.throttled,
            cpu_waiting=total.cpu_pressure,
            io_waiting=total.io_pressure,
            memory_waiting=total.memory_pressure,
        )

    def _power(self, watts: float) -> float:
        return self._product.idle + (watts - self._idle) * self._watts


def _pod(job: SimulatedJob, rank: int) -> SimulatedPod:
    names = {facts.rank: facts.name for facts in job.facts.pods}
    if any(facts.attempts for facts in job.facts.pods):
        raise ScenarioError(f"simulate: {job.case} has earlier attempts, which one container can't play")
    for pod in job.pods:
        if pod.name == names.get(rank):
            return pod
    raise ScenarioError(f"simulate: {job.case} with seed {job.seed} has no pod of rank {rank} that starts")
