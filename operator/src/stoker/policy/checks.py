"""The review of a policy: what contradicts itself, and what does not do what it looks like.

Pure: asked when a policy is applied, and by the controller for the policy's status.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any

from stoker.api.duration import format_duration, parse_duration
from stoker.api.meta import EVERYTHING, LabelSelector, contradiction, matches, selector_faults
from stoker.api.names import ALL_RULES
from stoker.api.notification import template_faults
from stoker.api.policy import BASE, Exemption, ReclaimClass, RuleSetting, UtilizationPolicy
from stoker.api.schema import Violation
from stoker.catalogue import diagnosis_names
from stoker.findings.finding import rfc3339
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Maturity, ReclaimMode
from stoker.policy.effective import EffectivePolicy
from stoker.policy.resolution import combined, rank

EXPIRES_SOON = timedelta(days=7)
"""How long before its end an exemption is reported as ending."""
SCRAPES = 2
"""The fewest scrapes between which a GPU can be seen to stay idle."""
MAX_UNKNOWN_RULES = 32
"""So many unknown rules are told of: looking for the nearest name takes milliseconds, and thousands fit into a policy.
"""


LONG_WINDOW = timedelta(hours=6)
"""In a longer one an evening comes, or a night's sweep ends."""
USUAL_COINCIDENCE = 3
"""Fewer jobs than these turn idle together every day, and no outage is behind it."""


class RemarkReason(StrEnum):
    """Why a policy does not do what it looks like; a condition's reason in its status."""

    UNKNOWN_RULE = "UnknownRule"
    NO_EFFECT = "NoEffect"
    DOUBTFUL = "Doubtful"
    EXEMPTION_EXPIRED = "ExemptionExpired"
    EXEMPTION_EXPIRING = "ExemptionExpiring"
    EQUAL_PRIORITY = "EqualPriority"
    OUTRANKED = "Outranked"
    SELECTS_NOTHING = "SelectsNothing"
    IRREVERSIBLE = "Irreversible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something about a policy that its author should know; nothing is refused for it."""

    reason: RemarkReason
    field_path: str
    message: str

    def __str__(self) -> str:
        return f"{self.field_path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReview:
    """What is to be said of a policy. `contradictions` are refused where somebody introduces them."""

    contradictions: tuple[Violation, ...] = ()
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the operator was installed with, as far as policies must fit it: how often Prometheus scrapes the GPUs, and
    the least time between a warning and the reclaim.
    """

    scrape_interval: timedelta = timedelta(seconds=30)
    minimum_warning_grace: timedelta = timedelta(minutes=5)


def review_policy(
    policy: UtilizationPolicy,
    beside: Iterable[UtilizationPolicy],
    rules: Iterable[Rule[Any]],
    surroundings: ClusterSettings,
    now: datetime,
    namespaces: Iterable[Mapping[str, str]] | None = None,
) -> PolicyReview:
    """Judge a policy beside the others of the cluster (of `beside` the one of its own name is passed over).

    `rules` are those whose parameters and maturity are to be looked at; rules over series are known by name anyway.
    `namespaces` are the labels of the cluster's namespaces, where they are known.
    """
    others = [one for one in beside if one.name != policy.name]
    reviewed = _Review(policy, others, {rule.name: rule for rule in rules}, surroundings, now)
    contradictions, remarks = tuple(reviewed.contradictions()), [*reviewed.remarks()]
    selector = policy.spec.namespace_selector
    if namespaces is not None and selector is not None and not any(matches(selector, one) for one in namespaces):
        message = "no namespace has these labels now: the policy is in force nowhere"
        remarks.append(_remark(RemarkReason.SELECTS_NOTHING, "spec.namespaceSelector", message))
    return PolicyReview(contradictions=contradictions, remarks=tuple(remarks))


class _Review:
    """One review; its methods yield what they find."""

    def __init__(
        self,
        policy: UtilizationPolicy,
        others: Collection[UtilizationPolicy],
        rules: dict[str, Rule[Any]],
        surroundings: ClusterSettings,
        now: datetime,
    ) -> None:
        self._spec = policy.spec
        self._rank = rank(policy)
        self._is_base = policy.name == BASE
        self._overrides = [one for one in others if one.name != BASE]
        self._rules = rules
        self._runtime = diagnosis_names()
        self._names = frozenset({*rules, *self._runtime})
        self._surroundings = surroundings
        self._now = now
        base = [] if self._is_base else [one for one in others if one.name == BASE]
        self._effective: EffectivePolicy = combined([*base, policy], {})

    @property
    def _classes(self) -> tuple[ReclaimClass, ...]:
        return (self._spec.reclaim.classes or ()) if self._spec.reclaim is not None else ()

    # -------------------------------------------------------------------------------------------------- contradictions

    def contradictions(self) -> Iterator[Violation]:
        """What can't be meant."""
        yield from self._parameters()
        yield from self._selectors()
        yield from self._images()
        yield from self._thresholds()
        yield from self._idle_after()
        yield from self._templates()

    def _parameters(self) -> Iterator[Violation]:
        for name, setting in self._rule_settings():
            rule = self._rules.get(name)
            for parameter, value in (setting.parameters or {}).items() if rule is not None else ():
                path = f"spec.rules[{name}].parameters.{parameter}"
                known = {one.name: one for one in rule.parameters} if rule is not None else {}
                if parameter not in known:
                    allowed = f"allowed: {', '.join(known)}" if known else "the rule has no parameters"
                    yield Violation(field_path=path, message=f"unknown parameter: {allowed}")
                    continue
                try:
                    known[parameter].read(value)
                except ValueError as error:
                    yield Violation(field_path=path, message=str(error))

    def _selectors(self) -> Iterator[Violation]:
        own = self._spec.namespace_selector
        yield from _selector_contradictions("spec.namespaceSelector", own)
        for index, exemption in enumerate(self._spec.exemptions or ()):
            path = f"spec.exemptions[{index}]"
            yield from _selector_contradictions(f"{path}.namespaceSelector", exemption.namespace_selector, within=own)
            yield from _selector_contradictions(f"{path}.jobSelector", exemption.job_selector)
        for index, one in enumerate(self._classes):
            yield from _selector_contradictions(f"spec.reclaim.classes[{index}].jobSelector", one.job_selector)
        if self._spec.trusted_job_types is not None:
            trusted = self._spec.trusted_job_types.namespace_selector
            yield from _selector_contradictions("spec.trustedJobTypes.namespaceSelector", trusted)

    def _images(self) -> Iterator[Violation]:
        for index, family in enumerate(self._spec.images or ()):
            for number, pattern in enumerate(family.repositories):
                if "://" in pattern or "@" in pattern or ":" in pattern.rsplit("/", 1)[-1]:
                    path = f"spec.images[{index}].repositories[{number}]"
                    message = (
                        f"{pattern!r}: must be a repository without scheme, tag or digest; tags have their own field"
                    )
                    yield Violation(field_path=path, message=message)

    def _thresholds(self) -> Iterator[Violation]:
        own, effective = self._spec.thresholds, self._effective.thresholds
        if own is None or effective.idle_percent <= effective.low_percent:
            return
        name = "idlePercent" if own.idle_percent is not None else "lowPercent"
        message = f"idlePercent, {effective.idle_percent} %, must not exceed lowPercent"
        yield Violation(field_path=f"spec.thresholds.{name}", message=f"{message}, {effective.low_percent} %")

    def _idle_after(self) -> Iterator[Violation]:
        text = self._spec.reclaim.idle_after if self._spec.reclaim is not None else None
        least = SCRAPES * self._surroundings.scrape_interval
        if text is not None and parse_duration(text) < least:
            scraped = f"the GPU metrics are scraped every {format_duration(self._surroundings.scrape_interval)}"
            message = f"{text!r}: must be at least {format_duration(least)}, since {scraped}"
            yield Violation(field_path="spec.reclaim.idleAfter", message=message)

    def _templates(self) -> Iterator[Violation]:
        notification = self._spec.notification
        templates = notification.templates if notification is not None else None
        for name in ("warned", "reclaimed") if templates is not None else ():
            for fault in template_faults(getattr(templates, name) or ""):
                yield Violation(field_path=f"spec.notification.templates.{name}", message=fault)

    # --------------------------------------------------------------------------------------------------------- remarks

    def remarks(self) -> Iterator[Remark]:
        """What does less than it says."""
        yield from self._unknown_rules()
        yield from self._settings_without_effect()
        yield from self._exemptions()
        yield from self._reclaim()
        if not self._is_base:
            yield from self._neighbours()
        elif self._spec.priority:
            message = "the policy default has no priority: every other policy overrides it"
            yield _remark(RemarkReason.NO_EFFECT, "spec.priority", message)

    def _unknown_rules(self) -> Iterator[Remark]:
        lost = {rule: f", so its {one.action} has no effect" for rule, one in self._rule_settings() if one.action}
        named = [(f"spec.rules[{rule}]", rule) for rule in self._spec.rules or ()]
        for index, exemption in enumerate(self._spec.exemptions or ()):
            named += [(f"spec.exemptions[{index}].rules", rule) for rule in exemption.rules]
        named += [("spec.suppressible", rule) for rule in self._spec.suppressible or ()]
        unknown = [(path, rule) for path, rule in named if rule != ALL_RULES and rule not in self._names]
        for path, rule in unknown[:MAX_UNKNOWN_RULES]:
            nearest = _nearest(rule, self._names)
            hint = f"; did you mean {nearest}?" if nearest else ": see `stoker rules list`"
            follows = lost.get(rule, "") if path.startswith("spec.rules[") else ""
            yield _remark(RemarkReason.UNKNOWN_RULE, path, f"there is no rule {rule}{follows}{hint}")

    def _rule_settings(self) -> Iterable[tuple[str, RuleSetting]]:
        return (self._spec.rules or {}).items()

    def _settings_without_effect(self) -> Iterator[Remark]:
        previews = {rule.name for rule in self._rules.values() if rule.maturity is Maturity.PREVIEW}
        for name, setting in self._rule_settings():
            path = f"spec.rules[{name}].action"
            if setting.action in {Action.DENY, Action.AUDIT} and name in self._runtime:
                message = (
                    f"{setting.action} has the effect of Warn: the rule checks running jobs, which cannot be denied"
                )
                yield _remark(RemarkReason.NO_EFFECT, path, message)
            elif setting.action is Action.DENY and name in previews:
                yield _remark(RemarkReason.NO_EFFECT, path, "the rule is in preview: it warns and never denies")

    def _exemptions(self) -> Iterator[Remark]:
        for index, exemption in enumerate(self._spec.exemptions or ()):
            path = f"spec.exemptions[{index}]"
            if exemption.until is not None and exemption.until <= self._now:
                message = f"{rfc3339(exemption.until)} is in the past: the exemption has no effect"
                yield _remark(RemarkReason.EXEMPTION_EXPIRED, f"{path}.until", message)
                continue
            if exemption.until is not None and exemption.until <= self._now + EXPIRES_SOON:
                message = f"ends at {rfc3339(exemption.until)} (reason: {exemption.reason})"
                yield _remark(RemarkReason.EXEMPTION_EXPIRING, f"{path}.until", message)
            if _exempts_everything(exemption):
                message = "exempts every job from every rule: the rest of the policy has no effect"
                yield _remark(RemarkReason.NO_EFFECT, path, message)

    def _reclaim(self) -> Iterator[Remark]:
        own, effective = self._spec.reclaim, self._effective.reclaim
        if own is None:
            return
        modes = [("spec.reclaim.mode", own.mode)]
        modes += [(f"spec.reclaim.classes[{i}].mode", one.mode) for i, one in enumerate(self._classes)]
        for path, mode in modes:
            if mode is ReclaimMode.DELETE:
                message = "Delete is for good: only jobs that were suspended can be resumed"
                yield _remark(RemarkReason.IRREVERSIBLE, path, message)
        floor = self._surroundings.minimum_warning_grace
        graces = [("spec.reclaim.warningGrace", own.warning_grace)]
        graces += [
            (f"spec.reclaim.classes[{i}].warningGrace", one.warning_grace) for i, one in enumerate(self._classes)
        ]
        for path, text in graces:
            if text is not None and parse_duration(text) < floor:
                message = f"{text!r} is less than the operator allows: {format_duration(floor)} applies"
                yield _remark(RemarkReason.NO_EFFECT, path, message)
        for index, one in enumerate(self._classes):
            first = next((other for other in self._classes[:index] if _includes(other, one)), None)
            if first is not None:
                message = f"{first.name!r} comes first and matches all of its jobs: {one.name!r} has no effect"
                yield _remark(RemarkReason.NO_EFFECT, f"spec.reclaim.classes[{index}]", message)
        if effective.mode is ReclaimMode.OBSERVE:
            return
        if own.window is not None and effective.window > LONG_WINDOW:
            message = (
                f"{own.window!r}: the brake uses it too, and within more than"
                f" {format_duration(LONG_WINDOW)} many jobs may turn idle by chance"
            )
            yield _remark(RemarkReason.DOUBTFUL, "spec.reclaim.window", message)
        brake = own.mass_idle_brake
        if brake is not None and effective.mass_idle_brake.gpu_percent == 100:
            message = "the share can never exceed 100 %: the brake never stops reclaims"
            yield _remark(RemarkReason.DOUBTFUL, "spec.reclaim.massIdleBrake.gpuPercent", message)
        if brake is not None and effective.mass_idle_brake.min_jobs < USUAL_COINCIDENCE:
            message = (
                f"{effective.mass_idle_brake.min_jobs} jobs that turn idle within {format_duration(effective.window)}"
                " may be chance: the brake may stop reclaims without need"
            )
            yield _remark(RemarkReason.DOUBTFUL, "spec.reclaim.massIdleBrake.minJobs", message)

    def _neighbours(self) -> Iterator[Remark]:
        selector = self._spec.namespace_selector or EVERYTHING
        priority = self._spec.priority or 0
        for other in sorted(self._overrides, key=rank):
            if rank(other) < self._rank and other.spec.namespace_selector == EVERYTHING:
                message = (
                    f"{other.name} selects every namespace and has precedence over {priority}: this "
                    "policy is in force nowhere"
                )
                yield _remark(RemarkReason.OUTRANKED, "spec.priority", message)
                return
        same = sorted(
            one.name
            for one in self._overrides
            if (one.spec.priority or 0) == priority
            and not contradiction(selector, one.spec.namespace_selector or EVERYTHING)
        )
        if same:
            message = (
                f"{priority} is also the priority of {', '.join(same)}; if both select a namespace, the first name wins"
            )
            yield _remark(RemarkReason.EQUAL_PRIORITY, "spec.priority", message)


def _selector_contradictions(
    path: str, selector: LabelSelector | None, *, within: LabelSelector | None = None
) -> Iterator[Violation]:
    """What keeps a selector from ever selecting anything; `within` is what selects its namespaces beforehand."""
    if selector is None:
        return
    faults = list(selector_faults(selector))
    yield from (Violation(field_path=f"{path}.{fault.field_path}", message=fault.message) for fault in faults)
    if faults:
        return
    if label := contradiction(selector):
        yield Violation(
            field_path=path, message=f"can select nothing: its requirements on the label {label} contradict"
        )
    elif within is not None and not contradiction(within) and (label := contradiction(within, selector)):
        message = (
            f"can select none of the policy's namespaces: spec.namespaceSelector contradicts it on the label {label}"
        )
        yield Violation(field_path=path, message=message)


def _exempts_everything(exemption: Exemption) -> bool:
    selectors = (exemption.namespace_selector, exemption.job_selector)
    all_rules = not exemption.rules or ALL_RULES in exemption.rules
    return all_rules and all(selector is None or selector == EVERYTHING for selector in selectors)


@lru_cache(maxsize=1024)
def _nearest(name: str, names: frozenset[str]) -> str | None:
    return next(iter(get_close_matches(name, sorted(names), n=1)), None)


def _remark(reason: RemarkReason, field_path: str, message: str) -> Remark:
    return Remark(reason=reason, field_path=field_path, message=message)


def _includes(one: ReclaimClass, other: ReclaimClass) -> bool:
    """Whether every job of another class certainly belongs to one class, too."""
    lists = (
        (one.job_types, other.job_types),
        (one.priority_classes, other.priority_classes),
        (one.gpu_products, other.gpu_products),
    )
    return one.job_selector in (None, EVERYTHING, other.job_selector) and all(
        not mine or (theirs and set(theirs) <= set(mine)) for mine, theirs in lists
    )


__all__ = ["PolicyReview", "Remark", "RemarkReason", "ClusterSettings", "review_policy"]
