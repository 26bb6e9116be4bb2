"""docs/architecture.md: its packages are those of the import contract, and its walks name functions that are there."""

import asyncio
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from benchmarks.reclaim.cluster import Scenario, live
from stoker.admission.job_review import JobReviewer
from stoker.cluster.view import ClusterView
from stoker.diagnosis.job import diagnose
from tests.admission.test_job_review import request
from tests.diagnosis.recording import Thresholds, from_dict
from tests.inline_workers import InlineWorkers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
WALKS = dict(re.findall(r"^### (.+?)\n(.+?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
STEP = re.compile(r"^\d+\. \*\*`(\w+)`\*\*(.*?)(?=^\d+\. |^$|\Z)", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"`((?:\w+\.)+\w+)`")


def steps(walk: str) -> Iterator[tuple[str, list[str]]]:
    """The packages of a walk, each with the functions that are named in it, as paths within the package."""
    for package, text in STEP.findall(WALKS[walk]):
        yield package, FUNCTION.findall(text)


NAMED = [
    pytest.param(f"stoker.{package}.{function}", id=f"{package}.{function}")
    for walk in WALKS
    for package, functions in steps(walk)
    for function in functions
]


def test_the_packages_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    assert [sorted(re.findall(r"\w+", row)) for row in PACKAGES] == [sorted(re.findall(r"\w+", row)) for row in layers]


def test_there_are_five_walks_and_each_enters_a_package_once() -> None:
    assert len(WALKS) == 5
    for walk in WALKS:
        entered = [package for package, _ in steps(walk)]
        assert len(entered) > 2
        assert len(entered) == len(set(entered)), walk


@pytest.mark.parametrize("path", NAMED)
def test_every_function_of_a_walk_is_there(path: str) -> None:
    found: Any = None
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        break
    for name in parts[end:]:
        found = getattr(found, name)
    assert callable(found)


class Trace:
    """Notes the functions of Stoker that are called within, in the order of their first call: `package.module.name`."""

    def __init__(self) -> None:
        self.called: dict[str, None] = {}

    def __enter__(self) -> "Trace":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("stoker."):
            self.called[f"{module.removeprefix('stoker.')}.{frame.f_code.co_qualname}"] = None


def test_a_review_calls_what_its_walk_names_in_that_order() -> None:
    """From the request on; the server before it is tested at its port, and the workers in another process."""
    wrong = {"gpusPerNode": 8, "image": "a/b:1", "script": "torchrun --standalone --nproc_per_node=4 train.py"}
    manifest = {"apiVersion": "stoker.dev/v1alpha1", "kind": "DLJob", "metadata": {"name": "a"}, "spec": wrong}
    cluster = ClusterView()
    cluster.namespaces.watched(None, {"metadata": {"name": "team", "resourceVersion": "1"}})
    reviewer = JobReviewer(cluster, InlineWorkers(), lambda: datetime(2026, 11, 21, 12, tzinfo=UTC))
    with Trace() as trace:
        answer = asyncio.run(reviewer(request(new=manifest)))
    assert not answer.allowed
    for package, functions in steps("An AdmissionReview becomes an answer"):
        expected = [f"{package}.{one}" for one in functions if not one.startswith(("server", "admission_review"))]
        assert [name for name in trace.called if name in expected] == expected


def test_a_diagnosis_calls_what_its_walk_names_in_that_order() -> None:
    recording = from_dict({"job": {"gpusPerNode": 2}, "gpus": [{"util": "90x40 0x40"}], "pods": [{"cpu": "0x80"}]})
    facts, series, now = recording.at(80)
    with Trace() as trace:
        diagnose(facts, series, (), Thresholds(), now)
    expected = list(of_series())
    assert [name for name in trace.called if name in expected] == expected


def of_series() -> Iterator[str]:
    """What the walk of a sample names that works on series."""
    for package, functions in steps("A sample becomes a finding in the status"):
        yield from (f"diagnosis.{one}" for one in functions if package == "diagnosis" and "idleness" not in one)


@pytest.mark.parametrize("walk", ["A sample becomes a finding in the status", "An idle job's Job is suspended"])
def test_the_controller_calls_what_its_walks_name(walk: str, simulated: Trace) -> None:
    """Metrics, series and the API server are simulated: what reads the real ones is tested on them."""
    expected = [f"{package}.{one}" for package, functions in steps(walk) for one in functions if package != "adapters"]
    assert [name for name in expected if name not in {*simulated.called, *of_series()}] == []


NEW_FACT = "A new fact reaches a reclaim gate"


def test_a_plan_calls_what_the_walk_of_a_fact_names(simulated: Trace) -> None:
    of_plans = {"workload", "reclaim", "controller"}
    expected = [
        f"{package}.{one}" for package, functions in steps(NEW_FACT) for one in functions if package in of_plans
    ]
    assert len(expected) > 3
    called = {*simulated.called, "reclaim.candidate.Candidate"}  # a class: its generated __init__ has no module
    assert [name for name in expected if name not in called] == []


def test_every_file_that_the_walk_of_a_fact_names_knows_its_example() -> None:
    files = set(re.findall(r"(?:[\w-]+/)+[\w-]+\.(?:py|md|yaml)", WALKS[NEW_FACT]))
    assert len(files) > 8
    for name in files:
        (path,) = (path for top in (ROOT, ROOT / "operator/src/stoker") if (path := top / name).exists())
        assert "snooze" in path.read_text(), name


@pytest.fixture(scope="module")
def simulated() -> Trace:
    """Some hours of a small cluster in simulated time, in which a job is reclaimed."""
    policy = {
        "mode": "Suspend",
        "idleAfter": "30m",
        "startupGrace": "10m",
        "maxGPUPercentPerWindow": 60,
        "trainingWithoutVolume": True,
    }
    with Trace() as trace:
        result = live(Scenario(seed=3, hours=24, faults=False, reclaim=policy))
    assert result.actions > 0
    return trace
