"""A Debian root with Python, from packages of this machine's own Debian; and the operator's image on it.

What takes long is kept in the cache: the root by the packages' versions, the dependencies by requirements/runtime.txt.
"""

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.binaries import cache_folder
from e2e.cluster.provider import ClusterError
from e2e.node.images import PATH, Image, write_archive, write_layer
from e2e.node.settings import PAUSE_IMAGE
from stoker import __version__

ROOT = Path(__file__).resolve().parents[2]
OPERATOR_IMAGE = f"docker.io/library/stoker:{__version__}"
"""What `stoker:VERSION`, the chart's default, is short for."""
PYTHON_IMAGE = "localhost/python:1"
"""Debian with Python and a shell, for the small programs that tests run."""

_PACKAGES = ("base-files", "bash", "coreutils", "python3", "python3-venv", "ca-certificates", "libstdc++6")
_UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/info",
    "usr/share/perl",
)
_VENV = "opt/stoker"
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_STARTER = """\
#!/opt/stoker/bin/python3
import sys
from stoker.__main__ import main
if __name__ == "__main__":  # a worker process imports this file, too
    sys.exit(main())
"""


class Builder:
    """Builds the images that a real node needs. One process at a time works in the cache."""

    def __init__(self) -> None:
        self._cache = cache_folder() / "images"
        self._cache.mkdir(parents=True, exist_ok=True)

    def pause(self, target: Path) -> Path:
        """The image of pods' sandboxes, whose process does nothing."""
        with self._root() as root:
            image = Image(name=PAUSE_IMAGE, layers=[_base_layer(root)], entrypoint=["sleep", "infinity"])
            return write_archive(target, image)

    def python(self, target: Path) -> Path:
        """PYTHON_IMAGE, as an archive."""
        with self._root() as root:
            return write_archive(target, Image(name=PYTHON_IMAGE, layers=[_base_layer(root)]))

    def operator(self, target: Path, *, source: Path = ROOT, name: str = OPERATOR_IMAGE) -> Path:
        """The operator's image, from a working tree and its pinned dependencies: as the Dockerfile makes it."""
        with self._root() as root, tempfile.TemporaryDirectory() as scratch:
            dependencies = _dependencies_layer(root, source)
            image = Image(
                name=name,
                layers=[_base_layer(root), dependencies, _program_layer(root, source, Path(scratch))],
                entrypoint=["stoker"],
                user="65532",
                environment={
                    "PATH": f"/{_VENV}/bin:{PATH}",
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )
            return write_archive(target, image)

    @contextlib.contextmanager
    def _root(self) -> Iterator[Path]:
        """The Debian root, unpacked, for this process alone. No maintainer script has run in it."""
        with (self._cache / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # With an empty status nothing counts as installed: apt names the packages with all that they depend on.
            options = ["-o", "Dir::State::status=/dev/null", "-o", "Debug::NoLocking=1", "--no-install-recommends"]
            listed = _output("apt-get", "install", "--print-uris", "-qq", *options, *_PACKAGES)
            versions = sorted(line.split()[1] for line in listed.splitlines() if line.startswith("'"))
            root = self._cache / f"debian-{hashlib.sha256(' '.join(versions).encode()).hexdigest()[:12]}"
            if not root.exists():
                with tempfile.TemporaryDirectory(dir=self._cache) as scratch:
                    archives, new = Path(scratch) / "archives", Path(scratch) / "root"
                    (archives / "partial").mkdir(parents=True)
                    place = ["-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root"]
                    _output("apt-get", "install", "--download-only", "-qq", "-y", *options, *place, *_PACKAGES)
                    _unpack(sorted(archives.glob("*.deb")), new)
                    new.replace(root)
            yield root


def _base_layer(root: Path) -> Path:
    layer = root.with_suffix(".base.tar")
    return layer if layer.exists() else write_layer(layer, root, without=["opt"])


def _dependencies_layer(root: Path, source: Path) -> Path:
    """The environment /opt/stoker with the pinned dependencies."""
    requirements = source / "requirements" / "runtime.txt"
    slim = source / "hack" / "slim.sh"
    key = hashlib.sha256(requirements.read_bytes() + slim.read_bytes()).hexdigest()[:12]
    layer = root.with_suffix(f".dependencies-{key}.tar")
    if not layer.exists():
        shutil.rmtree(root / _VENV, ignore_errors=True)
        _output("chroot", str(root), "python3", "-m", "venv", "--without-pip", f"/{_VENV}")
        _pip_install(root, "--require-hashes", "--requirement", str(requirements))
        _output(str(slim), str(_site_packages(root)))
        _compile(root, _site_packages(root))
        write_layer(layer, root, only=["opt"])
    return layer


def _program_layer(root: Path, source: Path, scratch: Path) -> Path:
    """The wheel of a working tree, installed beside its dependencies, and the command `stoker`."""
    building = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(scratch)]
    _output(sys.executable, "-m", "pip", "wheel", *building, str(source))
    [wheel] = scratch.glob("*.whl")
    site = _site_packages(root)
    for former in _program(site):
        shutil.rmtree(former)
    _pip_install(root, "--no-deps", str(wheel))
    _compile(root, *_program(site))
    starter = root / _VENV / "bin" / "stoker"
    starter.write_text(_STARTER)
    starter.chmod(0o755)
    made = [path.relative_to(root).as_posix() for path in (starter, *_program(site))]
    return write_layer(scratch / "program.tar", root, only=made)


def _site_packages(root: Path) -> Path:
    [site] = (root / _VENV / "lib").glob("python*/site-packages")
    return site


def _pip_install(root: Path, *what: str) -> None:
    """Install into the root's environment, for its Python, which may be another than ours."""
    site = _site_packages(root)
    options = ["--quiet", "--no-compile", "--only-binary=:all:", "--upgrade", "--root-user-action=ignore"]
    version = ["--python-version", site.parent.name.removeprefix("python"), "--target", str(site)]
    _output(sys.executable, "-m", "pip", "install", *options, *version, *what)


def _compile(root: Path, *folders: Path) -> None:
    """Times are not in a layer, so Python must not compare them with those in what it has compiled."""
    inside = [f"/{folder.relative_to(root)}" for folder in folders]
    options = ["-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"]
    _output("chroot", str(root), f"/{_VENV}/bin/python3", *options, *inside)


def _program(site: Path) -> list[Path]:
    """The folders in which the wheel is installed."""
    return [folder for folder in sorted(site.glob("stoker*")) if folder.is_dir()]


def _unpack(packages: list[Path], root: Path) -> None:
    for folder in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / folder).mkdir(parents=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for folder in ("etc/ssl/certs", "tmp", "proc", "sys", "dev", "run", "root"):
        (root / folder).mkdir(parents=True)
    left_out = [f"--exclude=./{folder}/*" for folder in _UNUSED]
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as source:
            unpacking = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", *left_out, "-C", str(root)]
            subprocess.run(unpacking, stdin=source.stdout, check=True)
    # What the packages' scripts would do, as far as it is needed here.
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(file.read_bytes() for file in authorities))
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    shell = root / "usr/bin/sh"
    if not shell.is_symlink():
        shell.symlink_to("bash")
    (root / "tmp").chmod(0o1777)


def _output(*argv: str) -> str:
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if answer.returncode != 0:
        raise ClusterError(f"{' '.join(argv)} ended with {answer.returncode}:\n{answer.stderr.strip()[-1000:]}")
    return answer.stdout
