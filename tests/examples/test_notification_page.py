"""What docs/notifications.md shows can be applied, and its addresses are such."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.adapters import notifications
from stoker.adapters.notifications import Mail
from stoker.api.notification import PLACEHOLDERS, template_faults
from stoker.api.policy import UtilizationPolicySpec
from stoker.findings.vocabulary import NotificationResult

PAGE = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PARTS = [yaml.safe_load(block) for block in BLOCKS if block.startswith("# part of spec\n")]
(SECRET,) = (yaml.safe_load(block)["stringData"] for block in BLOCKS if "kind: Secret" in block)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_a_policy_is_one(part: dict[str, Any]) -> None:
    notification = UtilizationPolicySpec.model_validate(part).notification
    assert notification is not None
    warned = notification.templates.warned if notification.templates is not None else None
    assert list(template_faults(warned or "")) == []


@pytest.mark.parametrize("key", SECRET)
def test_every_address_is_one_that_apprise_knows(key: str, tmp_path: Path) -> None:
    (tmp_path / key).write_text(SECRET[key])
    found = Mail(tmp_path).addresses(key, {"owner": "ada", "team": "nlp", "namespace": "lab"})
    library = notifications._apprise()
    assert found
    assert all(library.module.Apprise.instantiate(one.url, asset=library.asset) is not None for one in found)


def test_every_placeholder_and_every_end_of_a_message_is_explained() -> None:
    assert all(f"`{{{name}}}`" in PAGE for name in PLACEHOLDERS)
    assert all(f"*{result}*" in PAGE for result in NotificationResult)
