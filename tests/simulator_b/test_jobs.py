"""All mechanisms: what they may do, and that their labels are deserved."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.diagnosis.score import STUDY
from benchmarks.diagnosis.worlds import WORLDS
from simulator_b import MECHANISMS, DrawnJob, draw
from simulator_b.hardware import HOSTS
from simulator_b.job import FINE, LOW, MAIN
from simulator_b.track import PRESSURES, SHARES, Track
from stoker.findings.vocabulary import JobType

SEED = 17
"""Not one that is reported."""


def rates(track: Track, name: str) -> np.ndarray:
    seconds = np.diff(track.corners)
    kept = seconds > 1e-4  # the quotient of two rounded differences says nothing
    return (np.diff(track.totals[name]) / np.maximum(seconds, 1e-4))[kept]


def check_bounds(job: DrawnJob) -> None:
    card, slack = job.card, 1 + 1e-3
    for track in job.gpus:
        assert track.end == pytest.approx(job.life)
        for name in SHARES:
            assert rates(track, name).min() >= -1e-3
            assert rates(track, name).max() <= slack
        assert (rates(track, "sm") <= rates(track, "busy") + 1e-3).all()
        assert (rates(track, "tensor") <= rates(track, "sm") + 1e-3).all()
        for name, most in {"rx": card.pinned, "tx": card.pinned, "link": card.link, "watts": card.limit}.items():
            assert rates(track, name).max() <= most * slack + 1e-3
        assert rates(track, "watts").min() >= 0.8 * card.idle
        assert track.levels["memory"].max() <= card.memory
        held = track.levels["context"] > 0
        assert (track.levels["memory"][~held] == 0).all()
        assert (track.levels["memory"][held] > 0).all()
    cores, nic = max(host.cores for host in HOSTS), max(host.nic for host in HOSTS)
    for pod, track in zip(job.facts.pods, job.pods, strict=True):
        assert track.end == pytest.approx(job.life)
        assert rates(track, "cpu").max() <= (pod.cpu_limit or cores) * slack
        for name in PRESSURES:
            assert rates(track, name).max() <= slack
        for name in ("net_rx", "net_tx"):
            assert rates(track, name).min() >= -1e-3
            assert rates(track, name).max() <= nic * slack


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_job_stays_within_its_hardware_and_deserves_its_label(name: str) -> None:
    job = draw(name, SEED)

    check_bounds(job)
    worked = sum(float(track.totals["busy"][-1]) for track in job.gpus) / (job.life * len(job.gpus))
    assert worked == pytest.approx(job.utilization, abs=1e-6)
    assert worked + sum(job.lost.values()) == pytest.approx(1.0, abs=1e-6)
    if job.mechanism.low:
        assert worked <= LOW
        assert all(job.lost[cause.value] >= MAIN * (1 - worked) for cause in job.truth)
    if not job.truth:
        assert set(job.lost) <= {"none"}
        assert worked >= FINE or job.facts.job_type is JobType.SERVING
    assert not job.acceptable or job.truth < job.acceptable


@pytest.mark.parametrize("name", ["notebook-cells", "streamed-objects", "parameter-server"])
def test_a_seed_stands_for_one_job(name: str) -> None:
    first, again, other = draw(name, 3), draw(name, 3), draw(name, 4)

    assert first.facts == again.facts
    assert first.gpus[0].totals["watts"].tolist() == again.gpus[0].totals["watts"].tolist()
    assert first.life != other.life


def test_each_of_the_studys_causes_has_three_mechanisms_and_health_has_ten() -> None:
    counts = Counter(cause for one in MECHANISMS.values() if len(one.truth) == 1 for cause in one.truth)

    assert {cause for cause in STUDY if counts[cause] < 3} == set()
    assert sum(not one.truth for one in MECHANISMS.values()) >= 10
    assert sum(len(one.truth) > 1 for one in MECHANISMS.values()) >= 3


def test_the_run_that_is_reported_has_at_most_four_hundred_jobs_and_seeds_of_its_own() -> None:
    world = WORLDS["b"]

    assert len(world.cases) * len(world.reporting) <= 400
    assert SEED not in world.reporting


def test_what_the_diagnosis_is_given_does_not_name_the_mechanism() -> None:
    job = draw("grid-search", SEED)

    assert "grid" not in repr(job.facts)
