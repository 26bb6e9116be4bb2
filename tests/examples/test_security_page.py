"""docs/security.md names the test that shows each thing it says: they are there, and so is the corpus it counts."""

import re
from pathlib import Path

from e2e.hostile.objects import hostile_objects

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"(?:tests|e2e|benchmarks)/[\w/]*\w(?:\.py)?", PAGE)))


def test_every_test_that_it_names_is_there() -> None:
    assert len(NAMED) > 15
    assert [name for name in NAMED if not (ROOT / name).exists()] == []


def test_a_file_named_beside_another_lies_in_the_same_folder() -> None:
    for folder, files in re.findall(r"(tests/\w+/)\w+\.py(?: \([^)]*\))?((?:, \w+\.py)+)", PAGE):
        for name in re.findall(r"\w+\.py", files):
            assert (ROOT / folder / name).exists(), name


def test_it_counts_the_hostile_objects_rightly() -> None:
    found = hostile_objects()
    assert f"holds {len(found)} writes" in PAGE
    for group in {one.group for one in found}:
        assert f"| {group} | {sum(one.group == group for one in found)} |" in PAGE
