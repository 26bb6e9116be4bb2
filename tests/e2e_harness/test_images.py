import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from e2e.node.images import Image, write_archive, write_layer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a program, a link to it, a second name of it, and a pipe."""
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    program = root / "usr" / "bin" / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    os.link(program, root / "usr" / "bin" / "same")
    os.mkfifo(root / "pipe")
    (root / "left").mkdir()
    (root / "left" / "out").touch()
    return root


def test_a_layer_holds_files_folders_and_links_of_root(root: Path, tmp_path: Path) -> None:
    with tarfile.open(write_layer(tmp_path / "layer.tar", root, without=["left"])) as layer:
        entries = {entry.name: entry for entry in layer}
    assert set(entries) == {".", "bin", "usr", "usr/bin", "usr/bin/program", "usr/bin/same"}
    assert entries["bin"].linkname == "usr/bin"
    assert entries["usr/bin/program"].mode == 0o755
    assert entries["usr/bin/same"].isreg()
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}


def test_the_same_files_make_the_same_layer_whenever_they_were_written(root: Path, tmp_path: Path) -> None:
    first = write_layer(tmp_path / "first.tar", root).read_bytes()
    for path in root.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    assert write_layer(tmp_path / "second.tar", root).read_bytes() == first


def test_an_archive_names_its_image_and_every_blob_has_its_digest(root: Path, tmp_path: Path) -> None:
    layer = write_layer(tmp_path / "layer.tar", root, only=["usr"])
    image = Image(name="localhost/program:1", layers=[layer], entrypoint=["program"], user="65532")
    with tarfile.open(write_archive(tmp_path / "image.tar", image)) as archive:
        files = {entry.name: _content(archive, entry) for entry in archive}
    blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/sha256/")}
    assert all(hashlib.sha256(content).hexdigest() == digest for digest, content in blobs.items())
    [described] = json.loads(files["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "localhost/program:1"
    manifest = json.loads(blobs[described["digest"].removeprefix("sha256:")])
    configuration = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert configuration["config"]["User"] == "65532"
    assert configuration["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]]


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    assert file is not None
    return file.read()
