"""What is generated is up to date, and the check says so when it is not."""

from pathlib import Path

import pytest

from hack import generate


def test_committed_files_are_what_the_models_give() -> None:
    assert generate.stale(generate.expected()) == []


def test_changed_missing_and_left_over_files_are_stale(tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    for name, text in (("right", "a"), ("changed", "b"), ("left-over", "c")):
        (tmp_path / f"crds/{name}.yaml").write_text(text)
    files = {"crds/right.yaml": "a", "crds/changed.yaml": "a", "crds/missing.yaml": "a"}
    paths = generate.stale(files, tmp_path, ["crds/*.yaml"])
    assert paths == ["crds/changed.yaml", "crds/left-over.yaml", "crds/missing.yaml"]
    generate.write(files, paths, tmp_path)
    assert generate.stale(files, tmp_path, ["crds/*.yaml"]) == []
    assert not (tmp_path / "crds/left-over.yaml").exists()


def test_check_names_what_is_stale_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "expected", lambda: {"crds/nowhere.yaml": "x"})
    assert generate.main(["--check"]) == 1
    assert "stale: crds/nowhere.yaml" in capsys.readouterr().out
