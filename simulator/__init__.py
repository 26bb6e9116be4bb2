"""Deep-learning jobs as physics: steps that use GPUs, links, CPUs, disks and networks over time, with what is wrong in
them known. Tests, benchmarks and end-to-end scenarios play the same jobs.

    job = simulate("checkpoint-remote", seed=7)
    facts, series, now = record(job, Tier.DEFAULTS)
"""

from simulator.case import Case, simulate
from simulator.cases import CASES
from simulator.job import SimulatedJob, SimulatedPod
from simulator.recording import Tier, record

__all__ = ["CASES", "Case", "SimulatedJob", "SimulatedPod", "Tier", "record", "simulate"]
