"""Reviews UtilizationPolicies: from an admission request to its response. The server calls it."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stoker.adapters.kubernetes.client import Object
from stoker.admission.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    Operation,
    outside_bounds,
    refused,
    unreadable,
)
from stoker.api.policy import UtilizationPolicy
from stoker.findings.rule import Rule
from stoker.lint.messages import warning_line
from stoker.policy.checks import ClusterSettings, PolicyReview, RemarkReason, review_policy

MAX_WARNINGS = 8
"""Warnings in a response. Higher than for a job, because policies are written rarely; the status has the rest."""


class PolicyReviewer:
    """Denies a policy that can't be read or contradicts itself, and warns about settings without the expected effect.

    Only faults that the request introduces are denied. A stored policy that became invalid by an upgrade or by a change
    of `default` can still be changed in other fields.
    """

    def __init__(
        self,
        policies: Iterable[UtilizationPolicy],
        namespaces: Iterable[Object],
        rules: Collection[Rule[Any]],
        surroundings: ClusterSettings,
        now: Callable[[], datetime],
    ) -> None:
        """`policies` and `namespaces` are live views of the cluster; each review reads their present content."""
        self._policies = policies
        self._namespaces = namespaces
        self._rules = rules
        self._surroundings = surroundings
        self._now = now

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.subresource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return ALLOWED
        assert request.new_object is not None
        if (answer := outside_bounds(request)) is not None:
            return answer
        try:
            policy = UtilizationPolicy.model_validate(request.new_object)
        except ValidationError as error:
            return unreadable(request, error, UtilizationPolicy.model_validate)
        review = self._review(policy)
        known = self._contradictions_before(request)
        if introduced := [one for one in review.contradictions if one not in known]:
            return refused(introduced)
        lines = [str(one) for one in review.contradictions]
        lines += [str(one) for one in review.remarks if one.reason is not RemarkReason.EXEMPTION_EXPIRING]
        return AdmissionResponse(allowed=True, warnings=tuple(_warnings(lines)))

    def _review(self, policy: UtilizationPolicy) -> PolicyReview:
        labels = (namespace["metadata"].get("labels") or {} for namespace in self._namespaces)
        return review_policy(policy, self._policies, self._rules, self._surroundings, self._now(), labels)

    def _contradictions_before(self, request: AdmissionRequest) -> Collection[object]:
        if request.old_object is None:
            return ()
        try:
            return self._review(UtilizationPolicy.model_validate(request.old_object)).contradictions
        except ValidationError:
            return ()


def _warnings(lines: list[str]) -> list[str]:
    shown = [warning_line(line) for line in lines[:MAX_WARNINGS]]
    more = len(lines) - len(shown)
    return [*shown, f"and {more} more (see status.conditions)"] if more else shown
