"""Container images without a registry or a builder: an OCI archive, put together from folders.

Layers are the same byte for byte from the same files: sorted, owned by root, without times.
"""

import contextlib
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image is made of: its name, layers (tar files, the lowest first), and how its containers start."""

    name: str
    layers: Sequence[Path]
    entrypoint: Sequence[str] = ()
    user: str = ""
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})


def write_layer(target: Path, root: Path, *, only: Sequence[str] = (".",), without: Sequence[str] = ()) -> Path:
    """Write what is at these paths below `root` as a layer, at the same places in the image, `without` others.

    Device nodes and the like are left out: the runtime brings them. Returns `target`, which appears at once.
    """
    new = target.with_name(f"{target.name}.new")
    with tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in (path for place in only for path in _paths(root / place)):
            name = path.relative_to(root).as_posix()
            if any(name == left or name.startswith(f"{left}/") for left in without):
                continue
            entry = archive.gettarinfo(path, arcname=name)
            if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
                continue
            if entry.islnk():  # a second name of a file: its content once more
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if entry.isreg() else contextlib.nullcontext() as content:
                archive.addfile(entry, content)
    new.replace(target)
    return target


def _paths(folder: Path) -> Iterator[Path]:
    """What is there, folders before what they hold; links to folders are not followed."""
    yield folder
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted([*folders, *files]))


def write_archive(target: Path, image: Image) -> Path:
    """Write the image as an OCI archive, which `ctr images import` takes. Returns `target`."""
    blobs: dict[str, bytes | Path] = {}
    layers = []
    for layer in image.layers:
        with layer.open("rb") as file:
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        blobs[digest] = layer
        layers.append({"mediaType": f"{_MEDIA}.layer.v1.tar", "digest": digest, "size": layer.stat().st_size})
    configuration = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in image.environment.items()],
            "Entrypoint": list(image.entrypoint),
            "User": image.user,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": {"mediaType": f"{_MEDIA}.config.v1+json", **_blob(blobs, configuration)},
        "layers": layers,
    }
    named = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name.rpartition(":")[2]}
    described = {"mediaType": manifest["mediaType"], **_blob(blobs, manifest), "annotations": named}
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": [described]}
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            _add(archive, f"blobs/{digest.replace(':', '/')}", content)
    return target


def _blob(blobs: dict[str, bytes | Path], content: Any) -> dict[str, Any]:
    text = json.dumps(content, sort_keys=True).encode()
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    blobs[digest] = text
    return {"digest": digest, "size": len(text)}


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if isinstance(content, Path):
        entry.size = content.stat().st_size
        with content.open("rb") as file:
            archive.addfile(entry, file)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
