"""Every case is what it says: its causes cost what their mechanism takes, and seeds make it again."""

import numpy as np
import pytest

from simulator import CASES, SimulatedJob, simulate
from simulator.timeline import GPU_FIELDS
from stoker.findings.vocabulary import Category

SEEDS = (1, 2)
ENGINE, MEMORY = GPU_FIELDS.index("engine"), GPU_FIELDS.index("memory")

COSTS = {
    Category.INTERACTIVE_JOB: {"thinking"},
    Category.UNRELEASED_JOB: {"asleep"},
    Category.NON_DL_JOB: {"computing-on-cpus"},
    Category.MODEL_CHECKPOINTING: {"checkpoint"},
    Category.INEFFICIENT_HOST_GPU_TRANSFER: {"copy"},
    Category.DATA_PREPROCESSING: {"preprocessing", "preparing"},
    Category.REMOTE_DATA_READ: {"reading"},
    Category.EXTERNAL_DATA_USAGE: {"download"},
    Category.INTERMEDIATE_RESULT_UPLOAD: {"upload"},
    Category.DATA_EXCHANGE: {"exchange"},
    Category.LONG_LIBRARY_INSTALLATION: {"install"},
    Category.STALLED: {"hung"},
}
"""What a job spends its time on where the cause holds. The others are seen in its GPUs."""


def share(job: SimulatedJob, activities: set[str]) -> float:
    return sum(job.activities.get(one, 0.0) for one in activities) / sum(job.activities.values())


def lost(job: SimulatedJob) -> float:
    """The largest share of the job's time that goes to any of the mechanisms."""
    return max(share(job, activities) for activities in COSTS.values())


def peak_memory(job: SimulatedJob) -> float:
    """As a share of a GPU's, over all GPUs and the whole life."""
    times = np.arange(0.0, job.life, 20.0)
    used = [pod.gpu_value(slot, times)[:, MEMORY].max() for pod in job.pods for slot in range(len(pod.gpus))]
    return float(max(used)) / job.pods[0].model.memory


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if one.truth & COSTS.keys()])
def test_each_cause_takes_a_good_part_of_the_job(case: str) -> None:
    for seed in SEEDS:
        job = simulate(case, seed)
        for category in job.truth & COSTS.keys():
            least = 0.08 if category is Category.LONG_LIBRARY_INSTALLATION else 0.15
            assert share(job, COSTS[category]) > least, f"seed {seed}: {category}"


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if not one.truth])
def test_a_healthy_job_loses_hardly_anything_to_any_mechanism(case: str) -> None:
    for seed in SEEDS:
        job = simulate(case, seed)
        if job.life > 1800:  # a young job is all start-up
            assert lost(job) < 0.1, f"seed {seed}: {job.activities}"


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if Category.IMPROPER_BATCH_SIZE in one.truth])
def test_a_small_batch_leaves_most_of_the_time_and_of_the_memory_unused(case: str) -> None:
    for seed in SEEDS:
        job = simulate(case, seed)
        assert job.utilization <= 55
        assert peak_memory(job) <= 0.5


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if Category.INSUFFICIENT_GPU_MEMORY in one.truth])
def test_a_model_that_hardly_fits_leaves_time_unused_and_no_memory(case: str) -> None:
    for seed in SEEDS:
        job = simulate(case, seed)
        assert job.utilization <= 50
        assert peak_memory(job) > 0.8


@pytest.mark.parametrize(
    "case", [name for name, one in CASES.items() if one.truth & {Category.API_MISUSE, Category.GPU_OVERSUBSCRIPTION}]
)
def test_a_gpu_that_no_process_uses_is_at_rest_and_empty(case: str) -> None:
    for seed in SEEDS:
        job = simulate(case, seed)
        unused = [(pod, slot) for pod in job.pods for slot, role in enumerate(pod.gpus) if role == "unused"]
        assert unused
        for pod, slot in unused:
            values = pod.gpu_value(slot, np.arange(0.0, job.life, 60.0))
            assert values[:, [ENGINE, MEMORY]].max() == 0


@pytest.mark.parametrize("case", CASES)
def test_a_case_and_a_seed_always_make_the_same_job(case: str) -> None:
    times = np.linspace(0, 3000, 40)

    def totals(job: SimulatedJob) -> list[bytes]:
        return [pod.gpu_total(0, times).tobytes() + pod.pod_total(times).tobytes() for pod in job.pods]

    one, again = simulate(case, 4), simulate(case, 4)
    assert totals(one) == totals(again)
    assert (one.facts, one.life) == (again.facts, again.life)


def test_other_seeds_make_other_jobs() -> None:
    assert len({simulate("steady", seed).life for seed in range(5)}) == 5


def test_every_category_has_cases_and_so_do_pairs_and_jobs_of_all_sizes() -> None:
    assert {category for case in CASES.values() for category in case.truth} == set(Category)
    assert sum(len(case.truth) == 2 for case in CASES.values()) >= 5
    sizes = {simulate("steady", seed).facts.gpus for seed in range(60)}
    assert {1, 2, 4, 8, 16, 32} <= sizes
