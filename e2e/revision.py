"""An earlier revision of the project: what a test upgrades from."""

import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision's name, and a folder with all its files."""

    name: str
    folder: Path

    @property
    def chart(self) -> Path:
        return self.folder / "charts" / "stoker"


def earlier(folder: Path) -> Revision:
    """The last release before this commit, or the previous commit where there is none, unpacked into a folder.

    A shallow clone knows neither: then it is this working tree, and its name says so.
    """
    parent = _git("rev-parse", "--verify", "--short", "HEAD~1")
    if parent is None:
        return Revision(name="this working tree, as the clone has no history", folder=ROOT)
    release = _git("describe", "--tags", "--abbrev=0", "--match=v*", "HEAD~1")
    name = (release or parent).decode().strip()
    archive = _git("archive", name)
    assert archive is not None, name
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return Revision(name=name, folder=folder)


def _git(*arguments: str) -> bytes | None:
    """What a git command prints; None where it fails."""
    answer = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return answer.stdout if answer.returncode == 0 else None
