"""What the image is made of: pinned, hashed, without an installer, and not root."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"


def instructions() -> list[str]:
    """The Dockerfile's instructions, one a line, without comments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def stages() -> list[list[str]]:
    """The instructions of each stage, its FROM first."""
    found: list[list[str]] = []
    for line in instructions():
        if line.startswith("FROM "):
            found.append([])
        if found:
            found[-1].append(line)
    return found


def commands(stage: list[str]) -> list[str]:
    """The single commands that the stage's RUN instructions run."""
    joined = " && ".join(line.removeprefix("RUN ") for line in stage if line.startswith("RUN "))
    return [" ".join(command.split()) for command in joined.split(" && ")]


def test_every_stage_is_from_an_image_that_has_to_be_named_by_its_digest() -> None:
    assert "ARG PYTHON_IMAGE" in instructions(), "without a default: a tag is another image next week"
    assert {stage[0].split()[1] for stage in stages()} == {"${PYTHON_IMAGE}"}
    script = (ROOT / "hack" / "pin_image.sh").read_text()
    assert "sha256:[0-9a-f]{64}" in script


def test_a_pinned_base_image_has_a_digest() -> None:
    pinned = REQUIREMENTS / "image.txt"
    if pinned.exists():
        assert re.fullmatch(r"python:[\w.-]+@sha256:[0-9a-f]{64}\n", pinned.read_text())


def test_whatever_is_installed_has_a_hash_or_is_the_wheel_that_was_just_built() -> None:
    installing = [one for stage in stages() for one in commands(stage) if " install " in one or " wheel " in one]
    assert len(installing) == 4
    for one in installing:
        is_hashed = "--require-hashes" in one and "--only-binary=:all:" in one
        is_offline = "--no-index" in one and "--no-deps" in one
        assert is_hashed != is_offline, one
    [building] = [one for one in installing if " wheel " in one]
    assert "--no-build-isolation" in building


@pytest.mark.parametrize("name", ["runtime", "report", "build"])
def test_every_pin_of_the_image_has_a_version_and_a_hash(name: str) -> None:
    pins = re.split(r"\n(?=\S)", (REQUIREMENTS / f"{name}.txt").read_text().strip())
    assert pins
    for pin in pins:
        assert re.match(r"[\w.\[\]-]+==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin


def test_the_image_of_the_report_has_all_that_the_operators_has() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[\w.\[\]-]+==\S+", (REQUIREMENTS / f"{name}.txt").read_text(), re.MULTILINE))

    assert pins("runtime") < pins("report")


def test_the_build_backend_is_pinned_as_in_development() -> None:
    def version(name: str) -> str:
        found = re.search(r"^hatchling==(\S+)", (REQUIREMENTS / f"{name}.txt").read_text(), re.MULTILINE)
        assert found is not None
        return found[1]

    assert version("build") == version("test")


def test_the_last_stage_has_no_installer_and_is_nobodys_root() -> None:
    last = stages()[-1]
    run = commands(last)
    assert run[0] == "python -m pip uninstall --yes --quiet pip setuptools wheel"
    assert "ensurepip" in run[1]
    assert not any("install " in one and "uninstall" not in one for one in run)
    copied = [line for line in last if line.startswith("COPY ")]
    assert copied == ["COPY --from=build /opt/stoker /opt/stoker"]
    made = [one for one in commands(stages()[0]) if one.startswith("python -m venv --without-pip")]
    assert made == ["python -m venv --without-pip /opt/stoker"]
    user = [line for line in last if line.startswith("USER ")]
    assert user == ["USER 65532:65532"]
    assert last.index(user[0]) > last.index(copied[0]), "what was copied is root's: the process can't change itself"


def test_the_same_files_become_the_same_layers() -> None:
    build = commands(stages()[0])
    installed = [one for one in build if "--python /opt/stoker" in one]
    assert len(installed) == 2
    assert all("--no-compile" in one for one in installed), "pip's bytecode holds the time of each file"
    assert build[-1].endswith("compileall -q --invalidation-mode=unchecked-hash /opt/stoker/lib")


def test_make_image_without_a_pinned_base_says_what_to_run(tmp_path: Path) -> None:
    """In a folder with the Makefile alone, so that no docker is asked."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    made = subprocess.run(
        ["make", "image", "IMAGE=x"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert made.returncode != 0
    assert "requirements/image.txt is missing" in made.stderr
    assert "make image-pin" in made.stderr


def test_what_no_process_reads_is_not_in_the_image(tmp_path: Path) -> None:
    read = ["kubernetes/client/models/__init__.py", "kubernetes/aio/client/api_client.py", "numpy/testing/__init__.py"]
    unread = [
        "kubernetes/aio/client/models/v1_pod.py",
        "kubernetes/client/api/core_v1_api.py",
        "numpy/lib/tests/test_io.py",
    ]
    for name in (*read, *unread, "kubernetes/client/api/__init__.py", "kubernetes/aio/client/api/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run([ROOT / "hack" / "slim.sh", tmp_path], check=True)
    assert [name for name in (*read, *unread) if (tmp_path / name).exists()] == read


def test_the_image_is_built_with_what_it_is_made_of_and_where_it_came_from() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "image", "IMAGE=registry.example.com/stoker:1"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "--sbom=true" in shown
    assert "--provenance=mode=max" in shown
    assert "--build-arg PYTHON_IMAGE=" in shown
    assert "--build-arg SOURCE_DATE_EPOCH=" in shown
    assert "rewrite-timestamp=true" in shown
    assert "requirements/image.txt" in shown
