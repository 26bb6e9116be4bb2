"""The chart's rule file."""

from typing import Any

import yaml

from e2e.operator import CHART

RULES = CHART / "monitoring" / "rules.yaml"


def rules() -> dict[str, Any]:
    """What is in it."""
    loaded: dict[str, Any] = yaml.safe_load(RULES.read_text())
    return loaded
