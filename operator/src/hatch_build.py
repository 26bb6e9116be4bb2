"""Compiles the interpreter of shell scripts to machine code while the wheel is built, if STOKER_MYPYC=1.

    STOKER_MYPYC=1 make wheel

hatchling runs it (pyproject.toml). A review of a long script then takes two thirds of its processor time
(docs/performance.md). It needs mypy, setuptools and a C compiler, and the wheel fits one platform and one version of
Python. Without the variable the wheel is pure Python, and nothing here does anything.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("stoker", "shell")
PLAIN = frozenset({"__init__.py", "model.py"})
"""Modules that stay Python: the values of model.py have cached properties, which mypyc computes each time."""
SETUP = """\
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(name="shell", packages=[], ext_modules=mypycify(["--ignore-missing-imports", *sys.argv[1:]], opt_level="3"),
      script_args=["--quiet", "build_ext", "--inplace"])
"""


class CompiledShell(BuildHookInterface[Any]):
    """Adds the compiled modules to the wheel, where Python prefers them to the modules of the same names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run before the wheel is written. Raises CalledProcessError if the modules can't be compiled."""
        if version == "editable" or os.environ.get("STOKER_MYPYC") != "1":
            return
        folder = Path(self.directory) / "compiled"
        made = compiled(Path(self.root) / "operator" / "src", folder)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(one): str(one.relative_to(folder)) for one in made})


def compiled(source: Path, folder: Path) -> list[Path]:
    """Compile the package in a fresh copy of it, and return the libraries that were made."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / PACKAGE, folder / PACKAGE)
    shutil.copy(source / "stoker" / "__init__.py", folder / "stoker")
    modules = sorted(str(one.relative_to(folder)) for one in (folder / PACKAGE).rglob("*.py") if one.name not in PLAIN)
    subprocess.run([sys.executable, "-c", SETUP, *modules], cwd=folder, check=True)
    return [one for one in folder.rglob("*.so") if "build" not in one.relative_to(folder).parts]


__all__ = ["CompiledShell", "compiled"]
