"""The wheel works in an empty environment: with all of its dependencies, and with those of `stoker lint` alone."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from e2e.wheel import build_wheel, install

ROOT = Path(__file__).resolve().parents[2]
JOB = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata: {name: bert}
spec:
  image: pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime
  gpusPerNode: 8
  script: torchrun --nproc_per_node=4 train.py
"""


IMPORT_ALL = """\
import importlib, pkgutil, stoker
for module in pkgutil.walk_packages(stoker.__path__, "stoker.", onerror=lambda _: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        print(error.name.partition(".")[0])
"""
"""Prints the packages that are missing."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def run(program: Path, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a program that must find its modules in its own environment."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    return subprocess.run(
        [program, *arguments], input=given, capture_output=True, text=True, check=False, timeout=120, env=environment
    )


def test_the_same_files_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "operator" / "src"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "stoker"],
        cwd=package, capture_output=True, text=True, check=True,
    )  # fmt: skip
    kept = {path for path in listed.stdout.splitlines() if (package / path).is_file()}
    assert kept <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("requirements", ["runtime", "lint"])
def test_it_lints_with_nothing_but_what_is_pinned(wheel: Path, tmp_path: Path, requirements: str) -> None:
    programs = install(wheel, tmp_path / "environment", requirements)
    linted = run(programs / "stoker", "lint", "-", given=JOB)
    assert (linted.returncode, linted.stderr) == (1, ""), linted
    assert "too-few-processes" in linted.stdout or "nproc_per_node" in linted.stdout
    assert run(programs / "kubectl-stoker", "--help").stdout.startswith("Usage: kubectl stoker ")


def test_every_module_imports_with_what_is_pinned(wheel: Path, tmp_path: Path) -> None:
    """The libraries of `stoker report`'s page and pyarrow are extras."""
    programs = install(wheel, tmp_path / "environment", "runtime")
    found = run(programs / "python", "-c", IMPORT_ALL)
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) <= {"jinja2", "matplotlib", "pyarrow"}


def test_a_machine_that_only_lints_is_told_what_the_other_commands_need(wheel: Path, tmp_path: Path) -> None:
    programs = install(wheel, tmp_path / "environment", "lint")
    told = run(programs / "stoker", "doctor")
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert "this command needs " in told.stderr
