import hashlib
import shutil
import sys
from pathlib import Path

import pytest

from e2e.cluster import binaries
from e2e.cluster.provider import ClusterError


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: no cache, no tools, no internet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("STOKER_E2E_OFFLINE", "1")
    monkeypatch.delenv("STOKER_E2E_BIN", raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("STOKER_E2E_KUBERNETES", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: _which(tmp_path / "path" / name))
    return tmp_path


def _which(path: Path) -> str | None:
    return str(path) if path.exists() else None


def test_every_tool_has_its_pinned_version() -> None:
    versions = {tool.name: tool.version for tool in binaries.ALL}
    assert versions["kube-apiserver"] == versions["kubectl"]
    assert all(version.startswith("v") for version in versions.values())
    assert {tool.name: tool.release for tool in binaries.ALL}["promtool"].startswith("v3.")


def test_a_given_folder_comes_first_then_the_cache_then_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = next(tool.version for tool in binaries.ALL if tool.name == "etcd")
    on_path = program(machine / "path" / "etcd", f"etcd Version: {version[1:]}")
    assert binaries.resolve("etcd") == on_path
    cached = program(machine / "cache" / "stoker" / "bin" / f"etcd-{version}" / "etcd", "")
    assert binaries.resolve("etcd") == cached
    given = program(machine / "given" / "etcd", "anything")
    monkeypatch.setenv("STOKER_E2E_BIN", str(given.parent))
    assert binaries.resolve("etcd") == given


@pytest.mark.parametrize(
    "name, says, taken",
    [
        ("etcd", "etcd Version: 3.5.1", False),
        ("kube-apiserver", "Kubernetes v1.30.0", False),
        ("kubectl", "Client Version: v1.35.9", True),
        ("kubectl", "Client Version: v1.32.4-dispatcher", False),
        ("helm", "v3.19.0+g3d8990f", True),
        ("helm", "v2.17.0", False),
        ("helm", "no version at all", False),
    ],
)
def test_path_counts_only_with_a_version_that_fits(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str, taken: bool
) -> None:
    monkeypatch.setattr(binaries, "_build", lambda tool, target, report: program(target, "built"))
    found = program(machine / "path" / name, says)
    assert (binaries.resolve(name) == found) is taken


def test_what_is_missing_is_built_once_into_the_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(tool: binaries.Tool, target: Path, report: binaries.Report) -> None:
        built.append(tool.name)
        program(target, "built")

    monkeypatch.setattr(binaries, "_build", build)
    lines: list[str] = []
    first = binaries.resolve_all(["promtool", "etcd"], lines.append)
    assert first == binaries.resolve_all(["promtool", "etcd"])
    assert built == ["etcd", "promtool"]
    assert first["etcd"].is_relative_to(machine / "cache")
    assert "missing: etcd, promtool" in lines[0]


def test_an_older_control_plane_can_be_chosen_and_nothing_else_changes(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_build", lambda tool, target, report: program(target, "built"))
    monkeypatch.setenv("STOKER_E2E_KUBERNETES", "1.33")
    older = binaries.resolve_all()
    monkeypatch.delenv("STOKER_E2E_KUBERNETES")
    newest = binaries.resolve_all()
    assert {name for name in newest if newest[name] != older[name]} == set(binaries.CONTROL_PLANE)
    assert "v1.33." in str(older["kube-apiserver"])


def test_a_version_without_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_E2E_KUBERNETES", "1.30")
    with pytest.raises(ClusterError, match=r"'1\.30', which is not one of 1\.33, 1\.36"):
        binaries.resolve("kube-apiserver")


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(ClusterError, match="'etdc' is not one of etcd, "):
        binaries.resolve("etdc")


def test_a_download_must_have_its_published_checksum(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_E2E_OFFLINE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(binaries, "_reachable", lambda host: True)
    tool = next(tool for tool in binaries.ALL if tool.name == "kube-scheduler")
    published = {"sum": hashlib.sha256(b"program").hexdigest()}
    monkeypatch.setattr(
        binaries, "_fetch", lambda url: published["sum"].encode() if url.endswith(".sha256") else b"program"
    )
    assert binaries.resolve(tool.name).read_bytes() == b"program"
    binaries.resolve(tool.name).unlink()
    published["sum"] = "0" * 64
    with pytest.raises(ClusterError, match="does not have its published checksum"):
        binaries.resolve(tool.name)


def test_checksums_stand_alone_or_in_a_list() -> None:
    assert binaries._checksum("abc\n", "x") == "abc"
    assert binaries._checksum("abc  x.tar.gz\ndef  y.tar.gz\n", "y.tar.gz") == "def"
    with pytest.raises(ValueError, match=r"no checksum of z"):
        binaries._checksum("abc  x.tar.gz\ndef  y.tar.gz\n", "z")
