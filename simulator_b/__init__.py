"""A second simulator of GPU jobs, written without knowledge of the diagnosis and of the first one: see
docs/accuracy-worlds.md. `benchmarks/diagnosis --world b` scores the diagnosis on it.

    job = draw("save-on-each-record", seed=3)
    facts, series, now = record(job, Tier.DEFAULTS)
"""

import simulator_b.mechanisms  # noqa: F401 - importing it fills the register
from simulator_b.job import DrawnJob, draw
from simulator_b.mechanism import MECHANISMS, Mechanism
from simulator_b.monitoring import record

__all__ = ["MECHANISMS", "DrawnJob", "Mechanism", "draw", "record"]
