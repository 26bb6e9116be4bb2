"""What docs/reclaim.md shows is what holds."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hack.generate import filled
from stoker.api.names import RESUME_ANNOTATION, SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION
from stoker.api.policy import UtilizationPolicy
from stoker.catalogue import admission_rules
from stoker.cli import stoker
from stoker.findings.vocabulary import JobType, ReclaimMode
from stoker.policy.checks import ClusterSettings, review_policy
from stoker.policy.effective import BUILT_IN, EffectiveReclaim, JobTraits
from stoker.policy.resolution import resolve
from tests.reclaim.cases import NOW

PAGE = (Path(__file__).parents[2] / "docs" / "reclaim.md").read_text()


def test_the_policy_of_the_page_is_taken_without_a_remark_and_does_what_the_page_says() -> None:
    (text,) = re.findall(r"```yaml\n# reclaim\n(.*?)```", PAGE, re.DOTALL)
    policy = UtilizationPolicy.model_validate(yaml.safe_load(text))
    review = review_policy(policy, [], admission_rules(), ClusterSettings(), NOW)
    assert (review.contradictions, review.remarks) == ((), ())
    effective = resolve([policy], "nlp", {"stoker.dev/tier": "research"})
    assert effective.reclaim.mode is ReclaimMode.SUSPEND
    h100 = JobTraits(job_type=JobType.TRAINING, gpu_product="NVIDIA-H100-80GB-HBM3", priority_class="batch-low")
    found = effective.class_of(h100)
    assert found is not None
    assert (found.name, effective.reclaim_of(h100).on_pressure_only) == ("h100", False), "the first class counts, alone"


def test_the_defaults_that_the_page_names_are_those_of_the_code() -> None:
    built_in = BUILT_IN.reclaim
    assert built_in == EffectiveReclaim()
    for words, hours in (
        ("`idleAfter` (an hour", built_in.idle_after.total_seconds() / 3600),
        ("`cooldownAfterResume`, an hour", built_in.cooldown_after_resume.total_seconds() / 3600),
    ):
        assert (words in PAGE, hours) == (True, 1)
    assert ("15 minutes later by default" in PAGE, built_in.warning_grace.total_seconds()) == (True, 15 * 60)
    assert ("`maxSnooze`, 24 hours" in PAGE, built_in.max_snooze.total_seconds()) == (True, 24 * 3600)
    assert built_in.mode is ReclaimMode.OBSERVE


@pytest.mark.parametrize("annotation", [RESUME_ANNOTATION, SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION])
def test_the_annotations_of_the_page_are_those_that_are_read(annotation: str) -> None:
    assert f"{annotation}=" in PAGE


@pytest.mark.parametrize(
    "command, options", [("snooze", ["--for", "--reason"]), ("resume", []), ("explain", ["--format"])]
)
def test_the_commands_of_the_page_exist(command: str, options: list[str]) -> None:
    assert f"stoker {command} " in PAGE
    shown = CliRunner().invoke(stoker, [command, "--help"]).output
    assert all(option in shown and option in PAGE for option in options)


def test_a_page_without_a_place_for_its_table_is_an_error() -> None:
    text = "<!-- gates: from there -->\nold\n<!-- end of gates -->\n"
    assert filled(text, "gates", "new\n") == text.replace("old", "new")
    for broken in ("", text + text, text.replace("end of gates", "end of states")):
        with pytest.raises(ValueError, match="one place for gates"):
            filled(broken, "gates", "new\n")
