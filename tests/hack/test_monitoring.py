"""The reference of metrics and alerts is complete."""

import pytest

from hack import monitoring


def test_the_reference_has_the_metrics_of_both_processes_with_their_labels() -> None:
    described = {one.name: one for one in (*monitoring.of_controller(), *monitoring.of_admission())}
    assert described["stoker_gpu_hours_total"].labels == ("namespace", "state", "category")
    assert described["stoker_reclaim_events_total"].labels == ("event", "policy")
    assert described["stoker_scan_tick_seconds"].type == "histogram"
    assert all(one.help for one in described.values())


def test_a_label_without_a_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {label: bound for label, bound in monitoring.BOUNDS.items() if label != "policy"}
    monkeypatch.setattr(monitoring, "BOUNDS", bounds)
    with pytest.raises(KeyError, match="policy"):
        monitoring.label_rows()


def test_a_label_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "BOUNDS", {**monitoring.BOUNDS, "colour": ("any", "many")})
    with pytest.raises(ValueError, match="colour"):
        monitoring.label_rows()


def test_what_prometheus_fills_in_is_a_word_on_the_page() -> None:
    summaries = {name: summary for name, _, _, summary, _ in monitoring.alert_rows()}
    assert all("{{" not in summary for summary in summaries.values())
    [brake] = [summary for name, summary in summaries.items() if name.endswith("StokerBrakeOn")]
    assert brake == "The mass-idle brake has stopped reclaims under the policy POLICY"
