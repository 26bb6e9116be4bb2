"""What `review` does with what the rules find."""

import gc
import itertools
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.catalogue import admission_rules
from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action, Category, Confidence, Maturity, ReviewOutcome, Severity
from stoker.lint.review import introduced, review, review_without_scripts
from stoker.lint.submission import Submission
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.policy.resolution import resolve
from stoker.shell.model import Shortfall

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG = Path(__file__).parents[2] / "benchmarks" / "long.sh"


def job(labels: dict[str, str] | None = None, **spec: Any) -> DLJob:
    return DLJob.model_validate(
        {
            "metadata": {"name": "bert", "namespace": "nlp", "labels": labels or {}},
            "spec": {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:1", "script": "python train.py", **spec},
        }
    )


def rule(
    name: str = "fault",
    *confidences: Confidence,
    action: Action = Action.WARN,
    maturity: Maturity = Maturity.STABLE,
    severity: Severity = Severity.WARNING,
    category: Category = Category.API_MISUSE,
) -> Rule[Submission]:
    found = [Problem(detail=f"{name}.", confidence=one) for one in confidences or (Confidence.CERTAIN,)]

    def check(_: Submission) -> Iterable[Problem]:
        return found

    return Rule(
        id=name,
        name=name,
        category=category,
        severity=severity,
        summary="A fault.",
        fix="Mend it.",
        check=check,
        action=action,
        maturity=maturity,
    )


def policy(**spec: Any) -> EffectivePolicy:
    return resolve([UtilizationPolicy.model_validate({"metadata": {"name": "default"}, "spec": spec})], "nlp", {})


def judge(*rules: Rule[Submission], by: EffectivePolicy = BUILT_IN, of: DLJob | None = None) -> Verdict:
    return review(of or job(), by, now=NOW, rules=rules)


def names(verdict: Verdict) -> dict[str, list[str]]:
    parts = {"denied": verdict.denied, "warned": verdict.warned, "audited": verdict.audited}
    return {part: [finding.rule for finding in findings] for part, findings in parts.items() if findings}


def test_a_job_without_findings_is_allowed() -> None:
    assert judge().outcome is ReviewOutcome.ALLOW


def test_by_default_only_what_is_certain_is_denied() -> None:
    verdict = judge(rule("f", Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE, action=Action.DENY))
    assert [finding.confidence for finding in verdict.denied] == [Confidence.CERTAIN]
    assert [finding.confidence for finding in verdict.warned] == [Confidence.LIKELY, Confidence.POSSIBLE]


def test_a_policy_that_says_deny_denies_what_is_likely_but_never_what_is_only_possible() -> None:
    verdict = judge(rule("f", Confidence.LIKELY, Confidence.POSSIBLE), by=policy(rules={"f": {"action": "Deny"}}))
    assert [finding.confidence for finding in verdict.denied] == [Confidence.LIKELY]
    assert [finding.confidence for finding in verdict.warned] == [Confidence.POSSIBLE]


def test_parameters_alone_leave_the_rules_own_action() -> None:
    own = rule("f", Confidence.LIKELY, action=Action.DENY)
    assert names(judge(own, by=policy(rules={"f": {"parameters": {"a": 1}}}))) == {"warned": ["f"]}


def test_a_preview_rule_never_denies() -> None:
    preview = rule("f", action=Action.DENY, maturity=Maturity.PREVIEW)
    assert names(judge(preview, by=policy(rules={"f": {"action": "Deny"}}))) == {"warned": ["f"]}


@pytest.mark.parametrize(
    "action,expected", [("Warn", {"warned": ["f"]}), ("Audit", {"audited": ["f"]}), ("Off", {})], ids=str
)
def test_a_policy_lowers_a_denial(action: str, expected: dict[str, list[str]]) -> None:
    lowered = policy(rules={"f": {"action": action}})
    assert names(judge(rule("f", action=Action.DENY), by=lowered)) == expected


def test_what_is_audited_only_is_allowed() -> None:
    assert judge(rule("f"), by=policy(rules={"f": {"action": "Audit"}})).outcome is ReviewOutcome.ALLOW


@pytest.mark.parametrize(
    "exemption,expected",
    [
        ({"rules": ["f"], "jobSelector": {"matchLabels": {"team": "a"}}}, {"warned": ["g"]}),
        ({"rules": ["*"], "jobSelector": {"matchLabels": {"team": "a"}}}, {}),
        ({"rules": ["f"], "jobSelector": {"matchLabels": {"team": "b"}}}, {"warned": ["f", "g"]}),
        ({"namespaceSelector": {}, "until": "2026-11-21T13:00:00Z"}, {}),
        ({"namespaceSelector": {}, "until": "2026-11-21T12:00:00Z"}, {"warned": ["f", "g"]}),
        ({"namespaceSelector": {"matchLabels": {"tier": "research"}}}, {"warned": ["f", "g"]}),
    ],
    ids=["one-rule", "all-rules", "another-team", "in-force", "expired", "another-namespace"],
)
def test_an_exemption_lets_its_jobs_pass_its_rules(exemption: dict[str, Any], expected: dict[str, list[str]]) -> None:
    exempting = policy(exemptions=[{"reason": "agreed", **exemption}])
    assert names(judge(rule("f"), rule("g"), by=exempting, of=job({"team": "a"}))) == expected


def test_a_rule_that_raises_is_named_and_stops_neither_the_others_nor_the_job() -> None:
    broken = rule("broken", action=Action.DENY)

    def check(_: Submission) -> Iterable[Problem]:
        yield Problem(detail="half.")
        raise RecursionError("deep")

    object.__setattr__(broken, "check", check)
    verdict = judge(broken, rule("f"))
    assert names(verdict) == {"warned": ["f"]}
    assert verdict.unfinished == ("broken",)
    assert [(name, failure.splitlines()[-1]) for name, failure in verdict.failures] == [
        ("broken", "RecursionError: deep")
    ]


def test_a_job_that_cannot_be_read_is_allowed_and_the_fault_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any, **__: Any) -> Submission:
        raise ValueError("ours")

    monkeypatch.setattr(sys.modules["stoker.lint.review"], "read_job", unreadable)
    verdict = judge(rule("f", action=Action.DENY))
    assert verdict.outcome is ReviewOutcome.ALLOW
    assert verdict.unfinished == ("submission",)


class Clock:
    """Processor time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taking(name: str, seconds: float, clock: Clock, **given: Any) -> Rule[Submission]:
    """A rule that finds something in a submission with a script, and takes its time for that."""
    slow = rule(name, **given)

    def check(submission: Submission) -> Iterable[Problem]:
        if submission.script is not None and submission.script.source:
            clock.now += seconds
            yield Problem(detail="of the script.")

    object.__setattr__(slow, "check", check)
    return slow


def test_a_rule_beyond_the_time_budget_judges_what_needs_no_script_and_is_named() -> None:
    clock = Clock()
    rules = [taking("a", 0.9, clock), taking("b", 0.15, clock), taking("c", 0.0, clock), rule("d", action=Action.DENY)]
    verdict = review(job(), BUILT_IN, now=NOW, rules=rules, clock=clock)
    assert names(verdict) == {"denied": ["d"], "warned": ["a", "b"]}
    assert verdict.unfinished == ("b", "c", "d")
    assert verdict.shortfall is Shortfall.OVER_BUDGET
    assert BUILT_IN.analysis.review_budget == timedelta(seconds=1)


def test_beyond_a_tenth_more_than_the_budget_no_rule_is_asked() -> None:
    clock = Clock()
    verdict = review(job(), BUILT_IN, now=NOW, rules=[taking("a", 1.2, clock), rule("b")], clock=clock)
    assert names(verdict) == {"warned": ["a"]}
    assert verdict.unfinished == ("a", "b")


TWO_LAUNCHES = "torchrun --nproc_per_node=4 a.py\n" + "echo $((1 + $N)) >> log\n" * 800 + "torchrun b.py\n"


def test_reading_ends_with_its_share_of_the_budget_and_what_was_read_is_judged() -> None:
    ticks = itertools.count(step=0.01)
    seen: list[list[str | None]] = []
    watching = rule("watching")

    def check(submission: Submission) -> Iterable[Problem]:
        assert submission.script is not None
        seen.append([one.name for one in submission.script.invocations])
        return ()

    object.__setattr__(watching, "check", check)
    verdict = review(job(script=TWO_LAUNCHES), BUILT_IN, now=NOW, rules=[watching], clock=lambda: next(ticks))
    assert verdict.failures == ()
    ((first, *others),) = seen
    assert (first, set(others)) == ("torchrun", {"echo"})
    assert verdict.unfinished == ("script",)
    assert verdict.shortfall is Shortfall.OVER_BUDGET


def test_init_containers_are_read_within_the_same_budget_and_length() -> None:
    """Together they are no longer than what one may be; the program itself comes first."""
    containers = [
        {
            "name": f"i{number}",
            "image": "a.example/b:1",
            "command": ["bash", "-c", "# x\n" * 10_000],
        }
        for number in range(8)
    ]
    verdict = judge(
        *admission_rules(),
        of=job(script="torchrun --nproc_per_node=4 a.py", podTemplate={"spec": {"initContainers": containers}}),
    )
    assert [finding.rule for finding in verdict.denied] == ["launcher-too-few"]
    assert verdict.unfinished == ("script",)
    assert verdict.shortfall is Shortfall.TOO_LARGE


def test_a_review_without_scripts_judges_the_manifest_alone() -> None:
    """What is wrong with the image is found there; of the script nothing, nor is anything made of its absence."""
    verdict = review_without_scripts(
        job(script="torchrun --nproc_per_node=4 a.py; sleep infinity", image="a b"), BUILT_IN, now=NOW
    )
    assert [finding.rule for finding in verdict.findings] == ["image-invalid"]
    assert verdict.shortfall is Shortfall.OVER_BUDGET


def test_a_shortage_of_memory_is_no_fault_of_a_rule() -> None:
    """Only the process that has set the limit can say what it means."""
    greedy = rule("greedy")

    def check(_: Submission) -> Iterable[Problem]:
        raise MemoryError

    object.__setattr__(greedy, "check", check)
    with pytest.raises(MemoryError):
        judge(greedy)


@pytest.mark.parametrize(
    "over, shortfall, action",
    [
        (None, Shortfall.OVER_BUDGET, Action.AUDIT),
        (None, Shortfall.BUSY, Action.AUDIT),
        ("Deny", Shortfall.OVER_BUDGET, Action.DENY),
        ("Deny", Shortfall.TOO_LARGE, Action.DENY),
        ("Deny", Shortfall.UNREADABLE, Action.AUDIT),
        ("Deny", Shortfall.BUSY, Action.AUDIT),
        ("Deny", Shortfall.FAULT, Action.WARN),
    ],
)
def test_a_policy_can_deny_what_exceeds_the_budget_and_nothing_else(
    over: str | None, shortfall: Shortfall, action: Action
) -> None:
    analysis = {"onNotAnalysed": "Audit"} | ({} if over is None else {"onOverBudget": over})
    assert policy(analysis=analysis).analysis.action(shortfall) is action


def test_findings_are_ordered_by_severity_then_by_the_cost_of_their_cause() -> None:
    verdict = judge(
        rule("download", category=Category.EXTERNAL_DATA_USAGE),
        rule("tail", category=Category.UNRELEASED_JOB),
        rule("advice", category=Category.NON_DL_JOB, severity=Severity.ADVICE),
        rule("half", category=Category.GPU_OVERSUBSCRIPTION),
        rule("error", category=Category.STARTUP_HOLD, severity=Severity.ERROR),
    )
    assert names(verdict)["warned"] == ["error", "half", "tail", "download", "advice"]


def test_a_job_type_counts_only_where_the_policy_trusts_it() -> None:
    untrusting = policy(trustedJobTypes={"namespaceSelector": {"matchLabels": {"jobs": "trusted"}}})
    notebook = job(script="jupyter lab", jobType="Interactive")
    assert "job-type-untrusted" in {f.rule for f in review(notebook, untrusting, now=NOW).warned}
    assert review(notebook, BUILT_IN, now=NOW).outcome is ReviewOutcome.ALLOW


def test_an_update_is_denied_only_for_what_it_introduces() -> None:
    old = judge(rule("a", action=Action.DENY))
    new = judge(rule("a", action=Action.DENY), rule("b", action=Action.DENY))
    assert names(introduced(old, new)) == {"denied": ["b"], "warned": ["a"]}
    assert names(introduced(new, new)) == {"warned": ["a", "b"]}


def test_an_update_that_only_meets_a_stricter_policy_is_let_pass() -> None:
    """The old object is reviewed under the policy of now, too."""
    strict = policy(rules={"f": {"action": "Deny"}})
    assert introduced(judge(rule("f"), by=strict), judge(rule("f"), by=strict)).outcome is ReviewOutcome.WARN


def test_where_the_old_object_could_not_be_judged_nothing_counts_as_introduced() -> None:
    new = judge(rule("a", action=Action.DENY))
    assert introduced(Verdict(unfinished=("a",)), new).outcome is ReviewOutcome.WARN
    assert introduced(Verdict(unfinished=("submission",)), new).outcome is ReviewOutcome.WARN
    assert introduced(Verdict(unfinished=("b",)), new).outcome is ReviewOutcome.DENY


@pytest.mark.parametrize("script", ["torchrun --nproc_per_node=4 t.py", LONG.read_text()], ids=["refused", "long"])
def test_a_review_leaves_no_circles(script: str) -> None:
    """What refers to itself waits for the garbage collector, and a collection stops the server for all who wait."""
    subject = job(script=script)
    review(subject, BUILT_IN, now=NOW)  # what is made once, stays
    gc.collect()
    gc.disable()
    try:
        review(subject, BUILT_IN, now=NOW)
        assert gc.collect() == 0
    finally:
        gc.enable()
