"""What krew installs: an archive that can be checked, and a manifest that fits it."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from hack import krew
from stoker import __version__

URI = "https://example.com/v1/kubectl-stoker.tar.gz"


def test_the_manifest_fits_the_archive(tmp_path: Path) -> None:
    assert krew.main([URI, str(tmp_path)]) == 0
    content = (tmp_path / krew.ARCHIVE).read_bytes()
    made = yaml.safe_load((tmp_path / "stoker.yaml").read_text())
    (platform,) = made["spec"]["platforms"]
    assert made["spec"]["version"] == f"v{__version__}"
    assert (platform["uri"], platform["sha256"]) == (URI, hashlib.sha256(content).hexdigest())
    with tarfile.open(tmp_path / krew.ARCHIVE) as archive:
        assert {one["from"] for one in platform["files"]} == set(archive.getnames())
        assert archive.getmember(platform["bin"]).mode == 0o755
        assert {one.mtime for one in archive.getmembers()} == {0}
    assert krew.archive() == content


@pytest.mark.parametrize("arguments", [[], ["ftp://x"], [URI, "a", "b"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    assert krew.main(arguments) == 2


def test_the_plugin_starts_stoker_or_says_how_to_install_it(tmp_path: Path) -> None:
    plugin = krew.ROOT / "krew" / "kubectl-stoker"
    program = tmp_path / "stoker"
    program.write_text('#!/bin/sh\necho "given: $*"\n')
    program.chmod(0o755)
    system = "/usr/bin:/bin"

    def run(path: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PATH": path}
        return subprocess.run([plugin, "lint", "a b"], env=environment, capture_output=True, text=True, check=False)

    assert run(f"{tmp_path}:{system}").stdout == "given: lint a b\n"
    without = run(system)
    assert (without.returncode, "README" in without.stderr) == (2, True)
