"""Without a policy that says otherwise nothing is done; and what is not known is never idle."""

import pytest

from e2e.cluster.waiting import wait_for
from e2e.scenarios.reclaim.idling import ONE_BUSY, Idling


def test_a_fresh_install_reports_what_it_would_do_and_does_nothing(idling: Idling) -> None:
    idling.start("idle", reclaim={"idleAfter": "30m"})
    idling.start("one-busy", ONE_BUSY, reclaim={"idleAfter": "30m"})
    idling.remember()

    def observed() -> bool:
        record = idling.record("idle")
        assert (record.get("state"), record.get("action")) == ("Idle", "Observe"), record
        return True

    wait_for("the idle job to be reported", observed, timeout=60)
    status = idling.status("idle")
    assert "UnreleasedJob" in status["findingsSummary"]
    assert "deadline" not in status["reclaim"]
    assert "would be reclaimed" in status["reclaim"]["reason"]
    idling.wait_condition("idle", "Idle", "True")
    wait_for("the event", lambda: idling.events("idle", "WouldReclaim"))
    wait_for("the event of the finding", lambda: idling.events("idle", "UnreleasedJob"))
    assert len(idling.events("idle", "UnreleasedJob")) == 1
    idling.settled("idle")
    assert not idling.is_suspended("idle")
    (event,) = idling.events("idle", "WouldReclaim")
    assert event.get("series") is None, "told once"
    idling.wait_condition("one-busy", "Idle", "False", "Active")
    assert idling.record("one-busy")["state"] == "Active"


@pytest.mark.parametrize(
    "mode, options, reasons",
    [
        ("error", {"status": 503}, {"PrometheusUnavailable"}),
        ("reset", {}, {"PrometheusUnavailable"}),
        ("truncate", {}, {"PrometheusUnavailable"}),
        ("empty", {}, {"NoSamples"}),
        ("partial", {}, {"Partial", "NoSamples"}),
    ],
)
def test_metrics_that_are_missing_are_unknown_with_the_reason(
    idling: Idling, mode: str, options: dict[str, int], reasons: set[str]
) -> None:
    idling.cluster.set_prometheus_fault(mode, **options)
    idling.start("job")
    idling.policy()
    idling.remember()

    def unknown() -> bool:
        for kind in ("Idle", "LowUtilization"):
            condition = idling.condition("job", kind)
            assert condition["status"] == "Unknown", condition
            assert condition["reason"] in reasons, condition
        assert idling.record("job")["state"] == "Unknown"
        return True

    wait_for("Idle and LowUtilization to be Unknown", unknown, timeout=40)
    idling.settled("job")
    assert "warnedAt" not in idling.record("job")
    assert not idling.is_suspended("job")
    assert idling.status("job").get("utilization", {}).get("averagePercent") is None


def test_prometheus_down_is_unknown_too(idling: Idling) -> None:
    idling.start("job")
    idling.remember()
    idling.policy()
    idling.cluster.stop_prometheus()
    idling.wait_condition("job", "Idle", "Unknown", "PrometheusUnavailable", timeout=40)
    idling.wait_condition("job", "LowUtilization", "Unknown", "PrometheusUnavailable")
    assert not idling.is_suspended("job")
    idling.cluster.start_prometheus()
