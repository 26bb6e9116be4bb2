"""What an author sets aside, with a reason, where the policy lets them; and what has no effect."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.findings.verdict import Verdict
from stoker.lint import messages
from stoker.lint.review import introduced, review
from stoker.lint.suppression import MAX_FAULTS
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.policy.resolution import resolve

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SLEEP = "python train.py\nsleep 3600"
TOO_FEW = "torchrun --nproc_per_node=4 train.py"


def judge(
    script: str, by: EffectivePolicy = BUILT_IN, annotations: dict[str, str] | None = None, **spec: Any
) -> Verdict:
    job = DLJob.model_validate(
        {
            "metadata": {"name": "bert", "namespace": "nlp", "annotations": annotations or {}},
            "spec": {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:1", "script": script, **spec},
        }
    )
    return review(job, by, now=NOW)


def policy(**spec: Any) -> EffectivePolicy:
    return resolve([UtilizationPolicy.model_validate({"metadata": {"name": "default"}, "spec": spec})], "nlp", {})


def aside(verdict: Verdict) -> list[tuple[str, str]]:
    return [(one.finding.rule, one.reason) for one in verdict.suppressed]


def faults(verdict: Verdict) -> list[str]:
    return [fault.detail for fault in verdict.suppression_faults]


def rules(verdict: Verdict) -> set[str]:
    return {finding.rule for finding in verdict.findings}


@pytest.mark.parametrize(
    "script",
    [
        f"{SLEEP}  # stoker: ignore[trailing-sleep] a debugger attaches",
        "python train.py\n# stoker: ignore[trailing-sleep] a debugger attaches\nsleep 3600",
        "python train.py\n# stoker: ignore[trailing-sleep] a debugger attaches\n# and more words\nsleep 3600",
        "python train.py\n  #stoker:ignore[ trailing-sleep , endless-tail ]: a debugger attaches\nsleep 3600",
        "python train.py\n# stoker: ignore[trailing-sleep] a debugger attaches\nsleep \\\n  3600",
        "python train.py\nsleep \\\n  3600 # stoker: ignore[trailing-sleep] a debugger attaches",
        "python train.py\r\nsleep 3600  # stoker: ignore[trailing-sleep] a debugger attaches\r",
        "echo 日本; python train.py\nsleep 3600  # 日本 # stoker: ignore[trailing-sleep] a debugger attaches",
    ],
    ids=["end", "above", "above-comments", "spaced", "above-continued", "end-of-continued", "crlf", "wide"],
)
def test_a_comment_sets_aside_what_its_command_is_found_guilty_of(script: str) -> None:
    verdict = judge(script)
    assert aside(verdict) == [("trailing-sleep", "a debugger attaches")]
    assert "trailing-sleep" not in rules(verdict)


@pytest.mark.parametrize(
    "script",
    [
        "# stoker: ignore[trailing-sleep] reason\n\npython train.py\nsleep 3600",
        "# stoker: ignore[trailing-sleep] reason\npython train.py\nsleep 3600",
        f"echo '# stoker: ignore[trailing-sleep] reason'\n{SLEEP}",
        "python train.py\nsleep 3600; echo '# stoker: ignore[trailing-sleep] reason'",
        f"cat <<EOF\n# stoker: ignore[trailing-sleep] reason\nEOF\n{SLEEP}",
        f"{SLEEP} # ignore[trailing-sleep] reason",
        f"{SLEEP} # stoker: ignored[trailing-sleep] reason",
        f"{SLEEP} # stoker: ignore[trailing-sleep]",
        f"{SLEEP} # stoker: ignore[trailing-sleep] --",
        f"{SLEEP} # stoker: ignore[endless-tail] reason",
    ],
    ids=["apart", "elsewhere", "string", "string-beside", "heredoc", "unsigned", "word", "bare", "signs", "other-rule"],
)
def test_nothing_else_does(script: str) -> None:
    verdict = judge(script)
    assert "trailing-sleep" in rules(verdict)
    assert verdict.suppressed == ()


def test_an_annotation_sets_aside_all_that_a_rule_finds_in_the_object() -> None:
    annotations = {"ignore.stoker.dev/image-unpinned": "tags are immutable here", "other.example.com/x": "y"}
    verdict = judge("python train.py", annotations=annotations, image="registry.example.com/nlp/bert:latest")
    assert aside(verdict) == [("image-unpinned", "tags are immutable here")]
    assert faults(verdict) == []


def test_by_default_nobody_suppresses_what_denies_and_the_refusal_says_so() -> None:
    verdict = judge(f"# stoker: ignore[launcher-too-few] four are enough\n{TOO_FEW}")
    assert [finding.rule for finding in verdict.denied] == ["launcher-too-few"]
    said = '"# stoker: ignore[launcher-too-few]" has no effect: the policy does not allow to suppress this rule.'
    assert faults(verdict) == [said]
    (cause,) = messages.denial("bert", verdict).causes
    assert cause.message.endswith(f"\n  spec.script:1: {said}")


def test_what_such_a_rule_only_warns_of_may_be_suppressed() -> None:
    """A rule that denies what is certain warns of what is likely."""
    verdict = judge("mpirun -np 4 python train.py  # stoker: ignore[launcher-too-few] two GPUs each")
    assert aside(verdict) == [("launcher-too-few", "two GPUs each")]


@pytest.mark.parametrize(
    "suppressible,suppressed",
    [(["*"], True), (["launcher-too-few"], True), (["image-unpinned"], False), ([], False)],
)
def test_the_policy_says_what_may_be_suppressed(suppressible: list[str], suppressed: bool) -> None:
    verdict = judge(f"{TOO_FEW}  # stoker: ignore[launcher-too-few] ok", policy(suppressible=suppressible))
    assert bool(verdict.suppressed) is suppressed
    assert bool(verdict.denied) is not suppressed


@pytest.mark.parametrize(
    "comment,said",
    [
        ("# stoker: ignore because", '"# stoker: ignore[]" does not name a rule.'),
        ("# stoker: ignore[] because", '"# stoker: ignore[]" does not name a rule.'),
        ("# stoker: ignore[trailing-slep] x", '"# stoker: ignore[trailing-slep]" does not name an admission rule.'),
        ("# stoker: ignore[endless-tail] x", '"# stoker: ignore[endless-tail]" suppresses nothing.'),
        (
            "# stoker: ignore[trailing-sleep]",
            '"# stoker: ignore[trailing-sleep]" has no effect, because it gives no reason.',
        ),
    ],
    ids=["no-list", "empty-list", "unknown", "unused", "no-reason"],
)
def test_a_suppression_without_effect_is_told_with_its_place(comment: str, said: str) -> None:
    verdict = judge(f"{SLEEP}  {comment}")
    assert faults(verdict) == [said]
    (fault,) = verdict.suppression_faults
    assert (fault.location.field_path, fault.location.line, fault.location.column) == ("spec.script", 2, 13)


def test_the_rule_that_was_meant_is_suggested() -> None:
    (fault,) = judge(f"{SLEEP}  # stoker: ignore[trailing-slep] x").suppression_faults
    assert fault.fix == "Did you mean trailing-sleep?"


def test_a_rule_that_did_not_run_leaves_its_suppressions_alone() -> None:
    off = policy(rules={"trailing-sleep": {"action": "Off"}})
    assert faults(judge(f"{SLEEP}  # stoker: ignore[trailing-sleep] x", off)) == []


def test_a_script_that_was_not_followed_to_its_end_has_no_idle_suppressions() -> None:
    assert faults(judge("if true; then\n# stoker: ignore[trailing-sleep] x\nsleep 10")) == []


def test_audited_findings_are_suppressed_as_well() -> None:
    audit = policy(rules={"trailing-sleep": {"action": "Audit"}})
    assert aside(judge(f"{SLEEP}  # stoker: ignore[trailing-sleep] x", audit)) == [("trailing-sleep", "x")]


def test_taking_a_suppression_back_does_not_lock_the_job() -> None:
    anyone = policy(suppressible=["*"])
    old = judge(TOO_FEW, anyone, {"ignore.stoker.dev/launcher-too-few": "four are enough"})
    new = judge(TOO_FEW, anyone)
    assert [finding.rule for finding in new.denied] == ["launcher-too-few"]
    assert introduced(old, new).denied == ()


def test_a_script_full_of_suppressions_is_told_of_a_few() -> None:
    script = "\n".join(["true # stoker: ignore[trailing-slep] x"] * 1_000)
    assert len(judge(script).suppression_faults) == MAX_FAULTS
