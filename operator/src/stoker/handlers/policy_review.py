"""From an AdmissionReview of a UtilizationPolicy to its answer."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from difflib import get_close_matches

from pydantic import ValidationError

from stoker.handlers.admission_review import ALLOWED, AdmissionRequest, Answer, Operation, unreadable
from stoker.models.policy import BASE, UtilizationPolicy

logger = logging.getLogger(__name__)


class PolicyReviewer:
    """Refuses a policy that could not be read, and warns of one that does not do what it looks like."""

    def __init__(
        self,
        policies: Iterable[UtilizationPolicy],
        rules: Collection[str],
        now: Callable[[], datetime],
    ) -> None:
        """Know the `policies` of the cluster, whatever they are when asked, and the names of all `rules`."""
        self._policies = policies
        self._rules = frozenset(rules)
        self._now = now

    async def __call__(self, request: AdmissionRequest) -> Answer:
        if request.subresource or request.operation not in {Operation.CREATE, Operation.UPDATE}:
            return ALLOWED
        assert request.new_object is not None
        try:
            policy = UtilizationPolicy.model_validate(request.new_object)
        except ValidationError as error:
            return unreadable(request, error, UtilizationPolicy.model_validate)
        warnings = (*self._unknown_rules(policy), *self._expired(policy), *self._ties(policy))
        return Answer(allowed=True, warnings=warnings)

    def _unknown_rules(self, policy: UtilizationPolicy) -> Iterator[str]:
        named = [(f"spec.rules[{rule}]", rule) for rule in policy.spec.rules or ()]
        for index, exemption in enumerate(policy.spec.exemptions or ()):
            named += [(f"spec.exemptions[{index}].rules", rule) for rule in exemption.rules if rule != "*"]
        for field, rule in named:
            if rule not in self._rules:
                close = get_close_matches(rule, sorted(self._rules), n=1)
                hint = f"; did you mean {close[0]}?" if close else ": see `stoker rules list`"
                yield f"{field}: there is no rule {rule}{hint}"

    def _expired(self, policy: UtilizationPolicy) -> Iterator[str]:
        for index, exemption in enumerate(policy.spec.exemptions or ()):
            if exemption.until is not None and exemption.until <= self._now():
                yield f"spec.exemptions[{index}].until: {exemption.until.isoformat()} is past: it exempts nothing"

    def _ties(self, policy: UtilizationPolicy) -> Iterator[str]:
        if policy.name == BASE:
            return
        priority = policy.spec.priority or 0
        same = [
            other.name
            for other in self._policies
            if other.name not in {BASE, policy.name} and (other.spec.priority or 0) == priority
        ]
        if same:
            names = ", ".join(sorted(same))
            yield f"spec.priority: {priority} is also that of {names}; where both select, the first name wins"
