"""The scripts that set up a machine for the tests, and what makes a test that can't run there show."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from e2e.cluster.waiting import slowness
from hack.uv import environment

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "env", "chmod")
INSTALLS = """#!/usr/bin/env bash
echo "$@" >> "{folder}/asked"
for package in "$@"; do
  if [ "$package" = chromium ]; then printf '#!/bin/sh\\n' > "{folder}/chromium"; chmod +x "{folder}/chromium"; fi
done
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is the whole PATH: the few tools that scripts need, root's id, and an apt-get that installs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    _script(folder / "id", "#!/bin/sh\necho 0\n")
    _script(folder / "apt-get", INSTALLS.format(folder=folder))
    return folder


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def packages(programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs), "HOME": str(programs), **variables}
    script = [str(programs / "bash"), str(ROOT / "hack/packages.sh")]
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)


def asked(programs: Path) -> list[str]:
    log = programs / "asked"
    return [line for line in log.read_text().splitlines() if "chromium" in line] if log.exists() else []


def test_a_machine_without_a_browser_gets_one(programs: Path) -> None:
    result = packages(programs)
    (line,) = asked(programs)
    assert line.startswith("install")
    assert "fonts-dejavu-core" in line
    assert "chromium" not in result.stderr, "it is there now"


@pytest.mark.parametrize("name", ["chromium", "google-chrome"])
def test_a_machine_with_a_browser_keeps_it(programs: Path, name: str) -> None:
    _script(programs / name, "#!/bin/sh\n")
    packages(programs)
    assert asked(programs) == []


def test_a_browser_elsewhere_can_be_named(programs: Path, tmp_path: Path) -> None:
    _script(tmp_path / "my-chrome", "#!/bin/sh\n")
    packages(programs, CHROMIUM=str(tmp_path / "my-chrome"))
    assert asked(programs) == []


@pytest.mark.parametrize("variables, fails", [({}, False), ({"CI": "true"}, True)])
def test_what_can_not_be_installed_is_said_and_on_ci_is_an_error(
    programs: Path, variables: Mapping[str, str], fails: bool
) -> None:
    (programs / "apt-get").unlink()
    result = packages(programs, **variables)
    assert "missing chromium fonts-dejavu-core" in result.stderr
    assert bool(result.returncode) is fails


# ------------------------------------------------------------------------------------------------------- skipped tests

SKIPS = {
    "by_itself": "def test_one():\n    pytest.skip('no browser')\n",
    "mark": "@pytest.mark.skip(reason='no browser')\ndef test_one():\n    pass\n",
    "fixture": "@pytest.fixture\ndef it():\n    pytest.skip('no browser')\ndef test_one(it):\n    pass\n",
    "module": "pytest.skip('no browser', allow_module_level=True)\n",
}


def test_a_skipped_test_fails_on_ci_with_its_reason(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for name, text in SKIPS.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\n{text}\n")
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")

    def run(ci: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        result = subprocess.run(
            [*command, "--rootdir", str(tmp_path), str(tmp_path)],
            env={**os.environ, "CI": ci},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return result.stdout

    assert "1 passed, 4 skipped" in run("")
    on_ci = run("true")
    assert all(f"test_{name}.py" in on_ci for name in SKIPS)
    assert on_ci.count("on CI no test may be skipped ($CI is set): no browser") >= len(SKIPS)
    assert "skipped" not in on_ci.splitlines()[-1]
    assert "1 passed" in on_ci.splitlines()[-1]


# ---------------------------------------------------------------------------------------------------------- the index


def test_uv_takes_packages_from_where_pip_takes_them() -> None:
    listing = """:env:.find-links='/opt/wheels /srv/wheels'
global.cert='/etc/ca.crt'
global.index-url='https://index.example.com/simple'
global.quiet='1'
user.index-url='https://mine.example.com/simple'
"""
    assert environment(listing, {}) == {
        "UV_DEFAULT_INDEX": "https://mine.example.com/simple",
        "UV_FIND_LINKS": "/opt/wheels,/srv/wheels",
        "SSL_CERT_FILE": "/etc/ca.crt",
    }


def test_what_is_set_for_uv_counts_before_what_is_set_for_pip() -> None:
    own = {"UV_DEFAULT_INDEX": "https://own.example.com/simple", "PATH": "/bin"}
    assert environment("global.index-url='https://index.example.com/simple'\n", own) == own


# ------------------------------------------------------------------------------------------------------- busy machines


def test_no_property_fails_because_the_machine_is_busy() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_who_waits_on_a_busy_machine_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    factors = []
    for load in (0.0, 2.0, 20.0):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        factors.append(slowness())
    assert factors == [1.0, 1.0, 10.0]
