"""Gets the packages of packages.yaml from their registries, by pip and by the go command, and holds them to the hashes.

Source distributions are found by pip's own finder, so that its configuration (index, proxy, certificates) counts, and
are only downloaded: `pip download` would run each one's set-up to learn its dependencies.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("packages.yaml")
CACHE = Path.home() / ".cache" / "stoker" / "corpus"
MAX_BYTES = 64 << 20
"""No package of launch scripts is larger; a download that is gets refused."""


class FetchError(Exception):
    """A package that is not to be had, too large, or not the one that the list names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One entry of the list. hash: `sha256:...` of a source distribution, `h1:...` of a Go module."""

    registry: str
    name: str
    version: str | None = None
    hash: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def slug(self) -> str:
        """A name for files."""
        return f"{self.name.replace('/', '_')}-{self.version}"


def packages() -> list[Package]:
    """The list."""
    listed = yaml.safe_load(LIST.read_text())
    return [Package(registry=registry, **entry) for registry, entries in listed.items() for entry in entries]


def fetch(package: Package) -> Path:
    """The archive of a pinned package. Raises FetchError."""
    path, digest = _from_go(package) if package.registry == "go" else _from_pypi(package)
    if digest != package.hash:
        raise FetchError(f"{package}: its hash is {digest}, the list says {package.hash}")
    return path


def lock() -> None:
    """Write the list anew, with the newest version where none is named and the hash of each."""
    entries: dict[str, list[str]] = {}
    for package in packages():
        pinned = package if package.version is not None else replace(package, version=_newest(package.name))
        _, digest = _from_go(pinned) if pinned.registry == "go" else _from_pypi(pinned)
        line = f'- {{name: {pinned.name}, version: "{pinned.version}", hash: "{digest}"}}'
        entries.setdefault(pinned.registry, []).append(line)
    head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    body = [line for registry, lines in entries.items() for line in (f"{registry}:", *lines)]
    LIST.write_text("\n".join([*head, *body]) + "\n")


@contextmanager
def _pip() -> Iterator[tuple[Any, Any]]:
    """The session of pip and its finder of source distributions, as its configuration wants them."""
    from pip._internal.commands.download import DownloadCommand  # noqa: PLC0415 - pip is only needed for a download

    command = DownloadCommand("download", "")
    options, _ = command.parse_args(["--no-binary", ":all:", "--disable-pip-version-check"])
    with command.main_context():
        session = command.get_default_session(options)
        yield session, command._build_package_finder(options, session)  # noqa: SLF001 - pip has no public interface


def _candidates(finder: Any, name: str) -> list[Any]:
    return [
        candidate
        for candidate in finder.find_all_candidates(name)
        if not candidate.link.is_wheel and not candidate.version.is_prerelease
    ]


def _newest(name: str) -> str:
    with _pip() as (_, finder):
        found = _candidates(finder, name)
    if not found:
        raise FetchError(f"{name}: the index has no source distribution of it")
    return str(max(found, key=lambda candidate: candidate.version).version)


def _from_pypi(package: Package) -> tuple[Path, str]:
    kept = CACHE / "archives" / f"{package.slug}.tar.gz"
    if not kept.exists():
        with _pip() as (session, finder):
            wanted = [one for one in _candidates(finder, package.name) if str(one.version) == package.version]
            if not wanted:
                raise FetchError(f"{package}: the index has no such source distribution")
            with session.get(wanted[0].link.url_without_fragment, stream=True) as response:
                response.raise_for_status()
                content = response.raw.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FetchError(f"{package}: larger than {MAX_BYTES} bytes")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(content)
    return kept, f"sha256:{hashlib.sha256(kept.read_bytes()).hexdigest()}"


def _from_go(package: Package) -> tuple[Path, str]:
    wanted = f"{package.name}@{package.version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "mod", "download", "-json", wanted], check=False, capture_output=True, text=True, cwd=CACHE
    )
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "Zip" not in answer:
        raise FetchError(f"{wanted}: {answer.get('Error') or done.stderr.strip()}")
    return Path(answer["Zip"]), answer["Sum"]
