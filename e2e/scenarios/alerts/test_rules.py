"""The chart's recording rules and alerts: each alert fires where it should and not where it nearly should, as the real
promtool evaluates them.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries
from e2e.scenarios.alerts.rules import RULES, rules

CASES = Path(__file__).with_name("cases.yaml")


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [str(binaries.resolve("promtool")), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def alerts() -> dict[str, Any]:
    return {rule["alert"]: rule for group in rules()["groups"] for rule in group["rules"] if "alert" in rule}


def cases() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CASES.read_text())
    return loaded


def test_prometheus_takes_the_rules() -> None:
    checked = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("case", cases()["tests"], ids=lambda case: case["name"])
def test_alerts_fire_as_their_cases_say(case: dict[str, Any], tmp_path: Path) -> None:
    """The cases hold the summary alone, whose numbers they decide; what to do is the same text each time."""
    copied = rules()
    for group in copied["groups"]:
        for rule in group["rules"]:
            rule.get("annotations", {}).pop("description", None)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(copied))
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump({**cases(), "rule_files": ["rules.yaml"], "tests": [case]}))
    tested = promtool("test", "rules", str(path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("fires", [True, False])
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(fires: bool) -> None:
    shown = {
        one["alertname"]
        for case in cases()["tests"]
        for one in case.get("alert_rule_test", ())
        if bool(one["exp_alerts"]) == fires
    }
    assert shown == set(alerts())


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for name, alert in alerts().items():
        assert set(alert["annotations"]) == {"summary", "description"}, name
        assert all(alert["annotations"].values()), name
        assert alert["labels"]["severity"] in {"info", "warning", "critical"}, name
