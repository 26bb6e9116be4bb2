"""The project's wheel in an environment of its own, which has nothing but chosen packages.

Used by the tests of the package: tests/hack/test_wheel.py and e2e/scenarios/doctor/test_plugin.py. Nothing is fetched:
the wheel is built by the pinned backend, and the packages are links to those of the environment that runs the tests.
"""

import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(folder: Path) -> Path:
    """Build the project's wheel into a folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=300)
    (wheel,) = folder.glob("stoker-*.whl")
    return wheel


def install(wheel: Path, folder: Path, requirements: str) -> Path:
    """Make an environment with the wheel and what requirements/<requirements>.txt names; return its folder of programs.

    A package that these requirements name and this system has no use for is left out, as an installer would do.
    """
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python3*/site-packages"))
    for name in _pinned(requirements):
        _link(name, site)
    command = [sys.executable, "-m", "pip", f"--python={folder / 'bin' / 'python'}", "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True, timeout=300)
    return folder / "bin"


def _pinned(requirements: str) -> list[str]:
    text = (ROOT / "requirements" / f"{requirements}.txt").read_text()
    return re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==", text, re.MULTILINE)


def _link(name: str, site: Path) -> None:
    """Everything that a distribution has at the top of its environment."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in {"..", "__pycache__"}}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(top))))


__all__ = ["build_wheel", "install"]
