"""What is asked from outside comes back from its rest, whatever type it declares: no cause to reclaim it."""

import pytest

from simulator import CASES, Tier, record, simulate
from simulator.cases import serving
from stoker.diagnosis.job import diagnose
from stoker.findings.vocabulary import Category, Confidence
from tests.diagnosis.recording import Thresholds

ON_DEMAND = [name for name, case in CASES.items() if case.build.__module__ == serving.__name__]


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("case", ON_DEMAND)
def test_a_rest_of_what_is_asked_from_outside_is_no_cause_to_reclaim_it(case: str, tier: Tier) -> None:
    for seed in (1000, 1001, 1002):
        facts, series, now = record(simulate(case, seed), tier)
        for finding in diagnose(facts, series, (), Thresholds(), now).findings:
            reclaimable = finding.category in (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
            assert not reclaimable or finding.confidence is Confidence.POSSIBLE, f"seed {seed}: {finding.evidence}"
