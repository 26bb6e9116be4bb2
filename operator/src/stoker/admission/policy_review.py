"""From an AdmissionReview of a UtilizationPolicy to its answer."""

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
"""A policy is written by few and seldom, so more is said than of a job; the rest is in the policy's status."""


class PolicyReviewer:
    """Refuses a policy that could not be read or contradicts itself; warns of one that does not do what it looks like.

    What is refused is only what the request introduces: a stored policy that an upgrade or a changed `default` has put
    in the wrong can still be changed elsewhere.
    """

    def __init__(
        self,
        policies: Iterable[UtilizationPolicy],
        namespaces: Iterable[Object],
        rules: Collection[Rule[Any]],
        surroundings: ClusterSettings,
        now: Callable[[], datetime],
    ) -> None:
        """Know the `policies` and `namespaces` of the cluster, whatever they are when asked."""
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
