"""Runs every rule over a submission and sorts what they find by what the policy does with it."""

from collections.abc import Mapping
from datetime import datetime

from stoker.models.dljob import DLJob
from stoker.models.policy import EffectivePolicy
from stoker.models.verdict import Verdict


def review(
    job: DLJob,
    policy: EffectivePolicy,
    *,
    namespace_labels: Mapping[str, str] | None = None,
    now: datetime,
) -> Verdict:
    """Judge a job. Pure; never raises: a rule that fails or runs out of time is named in `Verdict.unfinished`.

    The exceptions of rules that failed are in `Verdict.failures`; the caller logs them.
    namespace_labels: the labels of the job's namespace, for exemptions; None = unknown, then none that selects by them applies.
    """
    raise NotImplementedError


def introduced(old: Verdict, new: Verdict) -> Verdict:
    """The verdict on an update: what the old object was already guilty of is warned of, not denied."""
    raise NotImplementedError


__all__ = ["introduced", "review"]
