"""Runs every rule over a submission and sorts what they find by what the policy does with it.

The webhook, the controller (before it creates a Job) and `stoker lint` all ask here.
"""

import math
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from stoker.api.dljob import DLJob
from stoker.catalogue import admission_rules
from stoker.findings.finding import Finding
from stoker.findings.rule import Rule
from stoker.findings.verdict import Suppressed, SuppressionFault, Verdict
from stoker.findings.vocabulary import Action, Category, Confidence, Maturity, Severity
from stoker.lint.kinds.dljob import read_job
from stoker.lint.kinds.kind import ReadContext
from stoker.lint.launch.plan import LaunchPlan
from stoker.lint.submission import Submission
from stoker.lint.suppression import Suppressions
from stoker.policy.effective import EffectivePolicy
from stoker.shell.model import Allowance, ShellScript, Shortfall

SUBMISSION = "submission"
"""What `Verdict.unfinished` names when the job itself could not be read; no rule has this name."""

SCRIPT = "script"
"""What `Verdict.unfinished` names when the script was too long, deep or costly to be followed to its end."""

COST = (
    Category.NON_DL_JOB,
    Category.GPU_OVERSUBSCRIPTION,
    Category.API_MISUSE,
    Category.DUPLICATE_TRAINING,
    Category.INTERACTIVE_JOB,
    Category.UNRELEASED_JOB,
    Category.LONG_LIBRARY_INSTALLATION,
    Category.EXTERNAL_DATA_USAGE,
    Category.DATA_PREPROCESSING,
    Category.STARTUP_HOLD,
)
"""Causes that show before a job runs, the most costly first: GPUs idle for its whole life, its tail, its start."""

SUPPRESSION = "suppression"
"""What `Verdict.unfinished` names when the author's suppressions could not be read; no rule has this name."""

READING_SHARE = 0.75
"""Of a review's budget: what reading the scripts may take, so that rules have time for what was read."""

LATE_SHARE = 0.1
"""Of a review's budget, beyond it: what rules may take that came too late, for what they can say without the script."""

SEVERITIES = tuple(Severity)
CONFIDENCES = tuple(Confidence)


def review(
    job: DLJob,
    policy: EffectivePolicy,
    *,
    now: datetime,
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    rules: Iterable[Rule[Submission]] | None = None,
    clock: Callable[[], float] = time.thread_time,
) -> Verdict:
    """Judge a job under the policy of its namespace. Raises nothing but MemoryError, and changes nothing.

    `config_maps`: the data of those that are in sight, by name; the job's sources are among them.
    """
    start = clock()
    try:
        submissions = read(job, policy, allowance_of(policy, start, clock), config_maps)
    except MemoryError:
        raise  # only who has set the limit knows what it means
    except Exception as failure:  # a fault of ours must not decide about a job
        return failed(failure)
    return review_submissions(submissions, policy, now=now, rules=rules, clock=clock, start=start)


def review_without_scripts(job: DLJob, policy: EffectivePolicy, *, now: datetime) -> Verdict:
    """The verdict of the manifest alone, no script being read: what stands of a review that had to be stopped.

    It takes some milliseconds, whatever the scripts. Raises nothing but MemoryError.
    """
    try:
        submissions = [_without_script(one) for one in read(job, policy, Allowance(-math.inf))]
    except MemoryError:
        raise
    except Exception as failure:
        return failed(failure)
    return replace(review_submissions(submissions, policy, now=now), suppression_faults=())


def read(
    job: DLJob,
    policy: EffectivePolicy,
    allowance: Allowance,
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[Submission]:
    """What rules look at: the job's program first, then its init containers."""
    return read_job(job, context_of(policy, allowance, config_maps))


def context_of(
    policy: EffectivePolicy,
    allowance: Allowance,
    config_maps: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> ReadContext:
    """What is known besides a manifest under a policy; config_maps: the data of those that are in sight, by name."""
    return ReadContext(
        families=policy.images,
        config_maps=config_maps,
        job_types_trusted=policy.trusted_job_types,
        allowance=allowance,
    )


def allowance_of(policy: EffectivePolicy, start: float, clock: Callable[[], float] = time.thread_time) -> Allowance:
    """What reading a job may cost in a review that began at `start`, a time of the clock."""
    return Allowance(start + READING_SHARE * policy.analysis.review_budget.total_seconds(), clock=clock)


def failed(failure: Exception) -> Verdict:
    """The verdict on what could not be read by a fault of ours."""
    return Verdict(unfinished=(SUBMISSION,), failures=((SUBMISSION, _traceback(failure)),))


def review_submissions(
    submissions: Sequence[Submission],
    policy: EffectivePolicy,
    *,
    now: datetime,
    rules: Iterable[Rule[Submission]] | None = None,
    clock: Callable[[], float] = time.thread_time,
    start: float | None = None,
) -> Verdict:
    """Judge all containers of one object together; see `review_submission`. A fault in both templates of a
    PyTorchJob is found in each, but what is the matter with the object itself is said once.
    """
    begin = clock() if start is None else start
    chosen = None if rules is None else list(rules)
    verdicts = [review_submission(one, policy, now=now, rules=chosen, clock=clock, start=begin) for one in submissions]
    if len(verdicts) == 1:
        return verdicts[0]
    return Verdict(
        denied=_by_cost(_without_repeats(finding for one in verdicts for finding in one.denied)),
        warned=_by_cost(_without_repeats(finding for one in verdicts for finding in one.warned)),
        audited=_by_cost(_without_repeats(finding for one in verdicts for finding in one.audited)),
        suppressed=tuple(one for verdict in verdicts for one in verdict.suppressed),
        suppression_faults=_faults([verdict.suppression_faults for verdict in verdicts]),
        unfinished=tuple(dict.fromkeys(name for verdict in verdicts for name in verdict.unfinished)),
        shortfall=next((verdict.shortfall for verdict in verdicts if verdict.shortfall is not None), None),
        failures=tuple(failure for verdict in verdicts for failure in verdict.failures),
    )


def review_submission(
    submission: Submission,
    policy: EffectivePolicy,
    *,
    now: datetime,
    rules: Iterable[Rule[Submission]] | None = None,
    clock: Callable[[], float] = time.thread_time,
    start: float | None = None,
) -> Verdict:
    """Judge what was submitted, of whatever kind, under a policy. Raises nothing but MemoryError, and changes nothing.

    A rule that raises, or that the policy's `analysis.reviewBudget` leaves no time for, is named in
    `Verdict.unfinished`; the tracebacks are in `Verdict.failures`, for the caller's log. A rule without time still
    judges what it can without the script: the image, the manifest's own numbers. `now` is what exemptions end
    by; `rules` are the catalogue's and `clock` the thread's processor time unless a test says otherwise, so that a
    busy machine does not shorten the budget; it counts from `start`, now if absent.
    """
    budget = policy.analysis.review_budget.total_seconds()
    deadline = (clock() if start is None else start) + budget
    end = deadline + LATE_SHARE * budget
    sorted_out: dict[Action, list[Finding]] = {action: [] for action in Action}
    script = submission.script
    shortfall = script.shortfall if script is not None else None
    unfinished: list[str] = [SCRIPT] if shortfall is not None else []
    failures: list[tuple[str, str]] = []
    suppressions, suppressed = None, list[Suppressed]()
    try:
        suppressions = Suppressions(submission)
    except MemoryError:
        raise
    except Exception as failure:  # then nothing is suppressed
        unfinished.append(SUPPRESSION)
        failures.append((SUPPRESSION, _traceback(failure)))
    judged: set[str] = set()
    for rule in admission_rules() if rules is None else rules:
        action = policy.action(rule.name, rule.action)
        if not (rule.init_containers or (submission.drives and rule.drivers) or submission.is_program):
            continue
        if action is Action.OFF or policy.exemption(rule.name, submission.labels, now) is not None:
            continue
        late = (begun := clock()) >= deadline
        if begun >= end:
            shortfall = shortfall or Shortfall.OVER_BUDGET
            unfinished.append(rule.name)
            continue
        found: list[Finding] = []
        try:
            for finding in rule.findings(
                _without_script(submission) if late else submission, policy.parameters(rule.name)
            ):
                found.append(finding)
                if clock() >= (end if late else deadline):
                    late = True
                    break  # each finding stands by itself; what else there may be is not known
        except MemoryError:
            raise
        except Exception as failure:  # one broken rule must not take the others with it
            unfinished.append(rule.name)
            failures.append((rule.name, _traceback(failure)))
            continue
        explicit = rule.name in policy.rules and policy.rules[rule.name].action is not None
        for finding in found:
            taken = _action_taken(action, rule, finding, explicit=explicit)
            allowed = policy.may_suppress(rule.name, taken)
            reason = None if suppressions is None else suppressions.reason(finding, allowed=allowed)
            if reason is None:
                sorted_out[taken].append(finding)
            else:
                suppressed.append(Suppressed(finding=finding, reason=reason))
        if late:
            shortfall = shortfall or Shortfall.OVER_BUDGET
            unfinished.append(rule.name)
        else:
            judged.add(rule.name)
    known = {*judged, *(rule.name for rule in admission_rules())}
    return Verdict(
        denied=_by_cost(sorted_out[Action.DENY]),
        warned=_by_cost(sorted_out[Action.WARN]),
        audited=_by_cost(sorted_out[Action.AUDIT]),
        suppressed=tuple(sorted(suppressed, key=lambda one: _cost(one.finding))),
        suppression_faults=() if suppressions is None else suppressions.faults(known, judged),
        unfinished=tuple(unfinished),
        shortfall=shortfall,
        failures=tuple(failures),
    )


def _without_script(submission: Submission) -> Submission:
    """The submission as if its script had been cut short before its first word."""
    if submission.script is None:
        return submission
    script = ShellScript(source="", complete=False, shortfall=Shortfall.OVER_BUDGET)
    plan = LaunchPlan(script=script, nodes=submission.nodes, gpus_per_node=submission.gpus_per_node)
    return replace(submission, script=script, script_field="", plan=plan)


def _traceback(failure: Exception) -> str:
    """An exception with its traceback, as text: it outlives its frames, and the process it happened in."""
    return "".join(traceback.format_exception(failure))


def introduced(old: Verdict, new: Verdict) -> Verdict:
    """The verdict on an update: what the old object was already guilty of is warned of, not denied.

    Else a policy made stricter would lock the jobs that are there, their suspension and their labels included.
    """
    known = {_identity(finding) for finding in (*old.findings, *(one.finding for one in old.suppressed))}
    unsure = set(old.unfinished)  # a rule that did not judge the old object can't tell what is new
    denied: list[Finding] = []
    let_pass: list[Finding] = []
    for finding in new.denied:
        old_fault = _identity(finding) in known or bool(unsure & {finding.rule, SUBMISSION})
        (let_pass if old_fault else denied).append(finding)
    return replace(new, denied=tuple(denied), warned=_by_cost([*let_pass, *new.warned]))


def _without_repeats(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding of the same rule, place and words once."""
    return list({(*_identity(finding), str(finding.location)): finding for finding in findings}.values())


def _faults(found: Sequence[tuple[SuppressionFault, ...]]) -> tuple[SuppressionFault, ...]:
    """The suppressions without effect: an annotation, which is of the whole object, only if it has none anywhere."""
    faults: list[SuppressionFault] = []
    for fault in (fault for one in found for fault in one):
        if fault not in faults and (fault.location.line is not None or all(fault in one for one in found)):
            faults.append(fault)
    return tuple(faults)


def _action_taken(action: Action, rule: Rule[Submission], finding: Finding, *, explicit: bool) -> Action:
    """What is done with a finding: a preview rule never denies, a stable one what is certain unless a policy asks."""
    if action is not Action.DENY:
        return action
    enough = {Confidence.CERTAIN, Confidence.LIKELY} if explicit else {Confidence.CERTAIN}
    return Action.DENY if rule.maturity is Maturity.STABLE and finding.confidence in enough else Action.WARN


def _by_cost(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The most costly first; findings of equal cost keep their rules' order."""
    return tuple(sorted(findings, key=_cost))


def _cost(finding: Finding) -> tuple[int, int, int]:
    """By severity, cause and confidence; the least is the most costly."""
    return (
        SEVERITIES.index(finding.severity),
        COST.index(finding.category) if finding.category in COST else len(COST),
        CONFIDENCES.index(finding.confidence),
    )


def _identity(finding: Finding) -> tuple[str, str, str]:
    """What makes two findings the same one across an update: line numbers may move."""
    return finding.rule, finding.location.field_path if finding.location is not None else "", finding.detail


__all__ = [
    "SCRIPT",
    "SUBMISSION",
    "SUPPRESSION",
    "allowance_of",
    "context_of",
    "failed",
    "introduced",
    "review_without_scripts",
    "read",
    "review",
    "review_submission",
    "review_submissions",
]
