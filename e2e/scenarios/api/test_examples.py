"""Every manifest in examples/ is one that the API server takes; what is wrong with the wrong ones, the webhook says."""

from pathlib import Path

import pytest

from e2e.scenarios.api.applying import Applier

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(EXAMPLES))) for path in sorted(EXAMPLES.rglob("*.yaml"))]
)
def test_every_example_passes_a_server_side_dry_run_with_strict_validation(applier: Applier, path: Path) -> None:
    done = applier.run("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
