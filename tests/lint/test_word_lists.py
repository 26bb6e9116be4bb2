"""The word lists: each fits its schema, names each thing once, and an added entry takes effect without code."""

import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from stoker.lint.kinds.image_reference import families_of
from stoker.lint.launch.launchers.table import READERS as LAUNCHER_READERS
from stoker.lint.launch.launchers.table import launchers, launchers_of
from stoker.lint.launch.packages import known_packages_of
from stoker.lint.launch.plan import Command, Launcher, Role, plan
from stoker.lint.launch.tools import READERS as TOOL_READERS
from stoker.lint.launch.tools import tools, tools_of
from stoker.lint.word_lists.loader import (
    NAMES,
    SITE_FOLDER,
    WordListError,
    check_site_lists,
    read_word_list,
    schema,
    word_lists,
)
from stoker.shell.script import read_script

JOB = """
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata: {name: train}
spec:
  image: registry.example.com/ml/train:1.0
  gpusPerNode: 8
  script: |
    %s
"""


@pytest.mark.parametrize("name", NAMES)
def test_each_list_fits_its_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    text = files("stoker.lint.word_lists").joinpath(f"{name}.toml").read_text("utf-8")
    assert list(Draft202012Validator(schema(name)).iter_errors(tomllib.loads(text))) == []


def test_each_list_has_its_schema_and_is_read() -> None:
    folder = [Path(str(one)).name for one in files("stoker.lint.word_lists").iterdir()]
    assert sorted(one.removesuffix(".toml") for one in folder if one.endswith(".toml")) == sorted(NAMES)
    assert {f"{name}.schema.json" for name in NAMES} == {one for one in folder if one.endswith(".json")}


def test_the_schemas_name_the_readers_that_there_are() -> None:
    entry = schema("launchers")["properties"]["launchers"]["items"]["properties"]
    assert sorted(entry["reader"]["enum"]) == sorted(LAUNCHER_READERS)
    properties = schema("tools")["properties"]
    assert sorted(properties["readers"]["properties"]) == sorted(TOOL_READERS)
    assert set(properties["commands"]["properties"]) <= set(Role)


def names() -> Iterator[str]:
    """Every name of a program in Stoker's own lists."""
    (listed,) = word_lists("tools")
    for table in (listed["commands"], listed["readers"]):
        for programs in table.values():
            yield from programs
    for field in listed["non-dl"].values():
        yield from field["commands"]
    for entry in word_lists("launchers")[0]["launchers"]:
        yield from entry.get("commands", ())


def test_a_program_is_one_thing() -> None:
    assert [name for name, number in Counter(names()).items() if number > 1] == []


def test_every_name_of_the_lists_is_known() -> None:
    assert set(names()) == {*tools().roles, *tools().readers, *launchers().commands}


def test_a_field_says_by_which_options_its_programs_use_gpus() -> None:
    assert "hwaccel" in tools().gpu_words["ffmpeg"]
    site = tools_of([*word_lists("tools"), {"non-dl": {"astronomy": {"commands": ["own-fits"], "gpu-words": ["gl"]}}}])
    assert (site.roles["own-fits"], site.gpu_words["own-fits"]) == (Role.NON_DL, ("gl",))


def only_command(script: str) -> Command:
    (command,) = plan(read_script(script), nodes=1, gpus_per_node=8).commands
    return command


def test_subcommands_come_before_what_is_said_of_the_program() -> None:
    assert only_command("dvc pull").role is Role.DOWNLOAD
    assert only_command("dvc repro").role is Role.OPAQUE


def test_a_launcher_without_arguments_can_be_read() -> None:
    for program, word in launchers().subcommands:
        assert only_command(f"{program} {word}").launch is not None


def test_a_later_list_wins() -> None:
    site = {"launchers": [{"reader": "deepspeed", "commands": ["torchrun", "own-launch"]}]}
    found = launchers_of([*word_lists("launchers"), site]).commands
    assert found["own-launch"] is found["torchrun"] is LAUNCHER_READERS["deepspeed"]
    known = tools_of([*word_lists("tools"), {"commands": {"non-dl": ["pip", "own-etl"]}}])
    assert "pip" not in known.readers
    assert known.roles["pip"] is known.roles["own-etl"] is Role.NON_DL
    packages = known_packages_of([*word_lists("packages"), {"slow": {"compiled-for-minutes": ["own-kernels"]}}])
    assert packages.slow["own-kernels"] == "is compiled for minutes"
    family = {"name": "Ours", "kind": "framework", "repositories": ["python"]}
    assert families_of([*word_lists("image_families"), {"families": [family]}])[0].name == "Ours"


def stoker(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with a site's lists."""
    return subprocess.run(
        [sys.executable, "-m", "stoker", *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, SITE_FOLDER: str(folder)},
    )


def test_a_sites_launcher_is_judged_without_code(tmp_path: Path) -> None:
    job = JOB % "own-launch --nproc_per_node=4 train.py"
    assert "launcher-too-few" not in stoker(tmp_path, "lint", "-", text=job).stdout
    (tmp_path / "launchers.toml").write_text('[[launchers]]\nreader = "torchrun"\ncommands = ["own-launch"]\n')
    assert "launcher-too-few" in stoker(tmp_path, "lint", "-", text=job).stdout


def test_a_sites_tool_is_judged_without_code(tmp_path: Path) -> None:
    job = JOB % "own-notebook --port 8888"
    assert "interactive-entry" not in stoker(tmp_path, "lint", "-", text=job).stdout
    (tmp_path / "tools.toml").write_text('[commands]\ninteractive = ["own-notebook"]\n')
    assert "interactive-entry" in stoker(tmp_path, "lint", "-", text=job).stdout


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("tools", '[commands]\ntrivail = ["x"]', "commands.trivail: unknown field: did you mean trivial?"),
        ("tools", "[commands]\ntrivial = [7]", "commands.trivial[0]: 7: must be a text"),
        ("tools", '[subcommands]\nopaque = ["own"]', "subcommands.opaque[0]: 'own': must match"),
        ("launchers", '[[launchers]]\nreader = "tochrun"', "launchers[0].reader: 'tochrun': must be one of"),
        ("packages", "[cpuBuilds]\nown = {framework = 'PyTorch'}", "cpuBuilds.own.gpuBuild: required"),
        ("image_families", "[[families]]\nname = 'Ours'\nkind = 'cuda'", "families[0].repositories: required"),
        ("tools", "[commands", "Expected ']'"),
    ],
)
def test_a_broken_list_stops_the_command_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    with pytest.raises(WordListError) as refused:
        read_word_list(path, schema(name))
    assert str(refused.value).startswith(f"{path}: {message}")


def test_no_command_starts_with_a_broken_list(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text("[commands]\ntrivial = 7\n")
    done = stoker(tmp_path, "lint", "-", text=JOB % "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'tools.toml'}: commands.trivial: 7: must be a list" in done.stderr


@pytest.mark.parametrize("given", ["missing", "tool.toml"])
def test_a_folder_without_lists_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    (tmp_path / "tool.toml").write_text("")
    monkeypatch.setenv(SITE_FOLDER, str(tmp_path if given == "tool.toml" else tmp_path / given))
    with pytest.raises(WordListError, match=rf"{given}.*image_families\.toml, launchers\.toml"):
        check_site_lists()


def test_a_tool_that_decides_by_itself_has_no_count() -> None:
    launch = only_command("trl sft --config a.yaml").launch
    assert launch is not None
    assert (launch.launcher, launch.total.value) == (Launcher.OTHER, None)
