"""`stoker lint --fix` and `--diff`, from the command line."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.cli import stoker
from stoker.lint.files.manifests import InputError
from stoker.lint.fixes.fixer import Rewritten, replace

HEAD = """\
# The team's job.
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata: {name: bert, namespace: nlp}
spec:
  gpusPerNode: 8
  image: registry.example.com/nlp/bert:1.4
  script: |
"""
SLEEPS = f"{HEAD}    torchrun train.py\n    sleep 600\n"
TOO_FEW = f"{HEAD}    torchrun --nproc_per_node=4 train.py  # four\n    sleep 600\n"
CLEAN = f"{HEAD}    torchrun train.py\n"


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(stoker, ["lint", *arguments], input=given)


@pytest.fixture
def sleeps(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(SLEEPS)
    return path


def test_safe_changes_are_written_and_the_rest_is_told(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TOO_FEW)
    result = run("--fix", str(path))
    assert path.read_text() == TOO_FEW.replace("    sleep 600\n", "")
    assert result.stderr == "Fixed 1 finding (1 more with --unsafe-fixes).\n"
    assert "launcher-too-few" in result.stdout
    assert "trailing-sleep" not in result.stdout
    assert result.exit_code == 1


def test_unsafe_changes_are_made_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TOO_FEW)
    result = run("--fix", "--unsafe-fixes", str(path))
    assert path.read_text() == f"{HEAD}    torchrun --nproc_per_node=8 train.py  # four\n"
    assert result.stderr == "Fixed 2 findings.\n"
    assert result.exit_code == 0


def test_a_second_run_changes_nothing(sleeps: Path) -> None:
    run("--fix", str(sleeps))
    before = sleeps.stat()
    assert run("--fix", str(sleeps)).stderr == "Fixed 0 findings.\n"
    assert (sleeps.stat().st_mtime_ns, sleeps.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_diff_shows_the_changes_and_writes_nothing(sleeps: Path) -> None:
    result = run("--diff", str(sleeps))
    assert result.stdout == (
        f"--- {sleeps}\n+++ {sleeps}\n@@ -7,4 +7,3 @@\n"
        "   image: registry.example.com/nlp/bert:1.4\n"
        "   script: |\n"
        "     torchrun train.py\n"
        "-    sleep 600\n"
    )
    assert result.stderr == "Would fix 1 finding.\n"
    assert (result.exit_code, sleeps.read_text()) == (1, SLEEPS)


def test_diff_without_a_change_is_empty_and_exits_with_0_even_where_there_are_findings(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TOO_FEW.replace("    sleep 600\n", ""))
    result = run("--diff", str(path))
    assert (result.stdout, result.exit_code) == ("", 0)
    assert result.stderr == "Would fix 0 findings (1 more with --unsafe-fixes).\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="no program to apply a diff with")
def test_patch_makes_of_a_diff_what_fix_makes(tmp_path: Path) -> None:
    for name, text in {"a": SLEEPS, "b": SLEEPS.removesuffix("\n"), "c": SLEEPS.replace("\n", "\r\n")}.items():
        (tmp_path / f"{name}.yaml").write_bytes(text.encode())
    result = run("--diff", str(tmp_path))
    command = ["patch", "-p0", "--binary"]
    patch = subprocess.run(command, cwd="/", input=result.stdout_bytes, capture_output=True, check=False)
    assert patch.returncode == 0, patch.stdout
    patched = {path.name: path.read_bytes() for path in sorted(tmp_path.glob("*.yaml"))}
    for name, text in {"a": SLEEPS, "b": SLEEPS.removesuffix("\n"), "c": SLEEPS.replace("\n", "\r\n")}.items():
        (tmp_path / f"{name}.yaml").write_bytes(text.encode())
    run("--fix", str(tmp_path))
    assert patched == {path.name: path.read_bytes() for path in sorted(tmp_path.glob("*.yaml"))}


def test_of_standard_input_the_result_is_printed_and_the_findings_go_to_standard_error() -> None:
    result = run("--fix", "-", given=TOO_FEW)
    assert result.stdout == TOO_FEW.replace("    sleep 600\n", "")
    assert "launcher-too-few" in result.stderr
    assert result.exit_code == 1


def test_standard_input_without_a_fault_comes_out_as_it_went_in() -> None:
    result = run("--fix", "-", given=CLEAN)
    assert (result.stdout, result.exit_code) == (CLEAN, 0)


def test_every_document_and_every_file_is_fixed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{SLEEPS}---\nkind: ConfigMap # kept\n---\n{SLEEPS}")
    (tmp_path / "b.yml").write_text(SLEEPS)
    result = run("--fix", str(tmp_path))
    assert (tmp_path / "a.yaml").read_text() == f"{CLEAN}---\nkind: ConfigMap # kept\n---\n{CLEAN}"
    assert (tmp_path / "b.yml").read_text() == CLEAN
    assert "Fixed 3 findings." in result.stderr


@pytest.mark.parametrize("mark", ["---\n", "...\n---\n# two\n", "---   # a\n", "...\n%YAML 1.1\n---\n"])
def test_documents_are_told_apart_by_their_marks(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "job.yaml"
    text = "{first}{mark}--- # {{\n{mark}{second}"
    path.write_text(text.format(first=SLEEPS, mark=mark, second=SLEEPS))
    assert run("--fix", str(path)).stderr == "Fixed 2 findings.\n"
    assert path.read_text() == text.format(first=CLEAN, mark=mark, second=CLEAN)


def test_a_file_that_is_named_twice_is_fixed_once(sleeps: Path) -> None:
    result = run("--fix", str(sleeps), str(sleeps.parent))
    assert (result.exit_code, result.stderr) == (0, "Fixed 1 finding.\n")
    assert sleeps.read_text() == CLEAN


def test_several_findings_of_one_rule_are_all_fixed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{SLEEPS}    sleep 600\n    echo done\n    sleep 900\n")
    assert run("--fix", str(path)).stderr == "Fixed 3 findings.\n"
    assert path.read_text() == f"{CLEAN}    echo done\n"


def test_equal_lines_of_a_folded_text_are_all_fixed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    head = HEAD.removesuffix("  script: |\n")
    path.write_text(f"{head}  script: 'torchrun --nnodes=2 a.py\n\n    torchrun --nnodes=2 a.py'\n")
    assert run("--fix", "--unsafe-fixes", str(path)).stderr == "Fixed 2 findings.\n"
    assert path.read_text() == f"{head}  script: 'torchrun --nnodes=1 a.py\n\n    torchrun --nnodes=1 a.py'\n"


def test_equal_lines_of_which_a_rule_names_the_first_are_all_fixed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{HEAD}    torchrun train.py\n    sleep infinity\n    sleep infinity\n")
    assert run("--fix", str(path)).stderr == "Fixed 2 findings.\n"
    assert path.read_text() == CLEAN


def test_a_change_that_another_one_makes_way_for_is_made(tmp_path: Path) -> None:
    """While the launcher waits for two nodes it has too few processes as soon as it sees its GPUs."""
    path = tmp_path / "job.yaml"
    script = "    accelerate launch --num_machines {} --machine_rank $STOKER_NODE_RANK train.py\n    python app.py\n"
    env = "  env:\n  - {name: CUDA_VISIBLE_DEVICES, value: '8'}\n"
    path.write_text(f"{HEAD}{script.format(2)}{env}")
    run("--fix", "--unsafe-fixes", str(path))
    assert path.read_text() == f"{HEAD}{script.format(1)}"


def test_what_is_suppressed_or_not_selected_is_not_fixed(sleeps: Path) -> None:
    assert run("--fix", "--ignore", "trailing-sleep", str(sleeps)).stderr == "Fixed 0 findings.\n"
    assert sleeps.read_text() == SLEEPS
    suppressed = SLEEPS.replace("sleep 600", "sleep 600  # stoker: ignore[trailing-sleep] the sidecar uploads")
    sleeps.write_text(suppressed)
    assert run("--fix", str(sleeps)).stderr == "Fixed 0 findings.\n"
    assert sleeps.read_text() == suppressed


def test_mode_byte_order_mark_line_ends_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "job.yaml", tmp_path / "link.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SLEEPS.replace("\n", "\r\n").encode())
    path.chmod(0o640)
    link.symlink_to("job.yaml")
    run("--fix", str(link))
    assert link.is_symlink()
    assert path.read_bytes() == b"\xef\xbb\xbf" + CLEAN.replace("\n", "\r\n").encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert {one.name for one in tmp_path.iterdir()} == {"job.yaml", "link.yaml"}


def test_a_change_that_cannot_be_made_in_place_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    text = HEAD.replace("script: |", "script: &script |") + "    torchrun train.py\n    sleep 600\n"
    path.write_text(text)
    result = run("--fix", str(path))
    assert result.stderr.splitlines() == [
        (
            f"{path}: the fix of trailing-sleep in bert, line 2 of its script could not be applied safely:"
            " it is behind an anchor, an alias or a tag"
        ),
        "Fixed 0 findings.",
    ]
    assert path.read_text() == text
    assert result.exit_code == 1


def test_a_file_that_somebody_else_has_changed_is_left_alone(sleeps: Path) -> None:
    with pytest.raises(InputError, match="changed in the meantime"):
        replace(Rewritten(path=str(sleeps), before=CLEAN, after=CLEAN))
    assert sleeps.read_text() == SLEEPS


def test_a_read_only_file_is_left_alone(sleeps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode != os.W_OK)  # root may write anything
    result = run("--fix", str(sleeps))
    assert f"stoker: {sleeps}: is read-only" in result.stderr
    assert (result.exit_code, sleeps.read_text()) == (2, SLEEPS)


def test_the_text_says_how_many_findings_can_be_fixed(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TOO_FEW)
    assert run(str(path)).stdout.endswith("\n1 finding fixable with --fix (1 more with --unsafe-fixes).\n")
    path.write_text(CLEAN)
    assert "fixable" not in run(str(path)).stdout


def test_unsafe_fixes_alone_is_a_mistake(sleeps: Path) -> None:
    result = run("--unsafe-fixes", str(sleeps))
    assert result.exit_code == 2
    assert re.search("--unsafe-fixes needs --fix or --diff", result.stderr)
