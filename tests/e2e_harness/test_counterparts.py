from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import binaries
from e2e.counterparts import known
from e2e.counterparts.controller import Controller, Place

CONTROLLERS = [one for one in vars(known).values() if isinstance(one, Controller)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(host="127.0.0.1", webhook_port=1, health_port=2, spare_port=3, certificates=tmp_path)


def test_each_controller_is_a_program_with_a_version_and_checksums() -> None:
    tools = {tool.name: tool for tool in binaries.ALL}
    for one in CONTROLLERS:
        tool = tools[one.name]
        assert tool.version.startswith("v")
        assert f"{tool.module} {tool.version} h1:" in (binaries.TOOLS / tool.folder / "go.sum").read_text()


@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda one: one.name)
def test_each_controller_listens_on_loopback_only_and_elects_no_leader(controller: Controller, place: Place) -> None:
    said = " ".join(controller.arguments(place))
    settings: dict[str, Any] = dict(controller.configuration(place)) if controller.configuration else {}
    if controller.readiness is not None:
        assert "127.0.0.1:2" in (said or settings["health"]["healthProbeBindAddress"])
    assert settings.get("leaderElection", {"leaderElect": False}) == {"leaderElect": False}
    if controller.service is not None and settings:
        assert (settings["webhook"]["host"], settings["webhook"]["port"]) == ("127.0.0.1", 1)


def test_what_belongs_to_a_program_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def make() -> str:
        made.append("objects")
        return "objects"

    for _ in range(2):
        path = binaries.cached_beside("kueue", "manifests.json", make)
        assert path.read_text() == "objects"
    assert made == ["objects"]
    assert path.parent.name.startswith("kueue-v")
