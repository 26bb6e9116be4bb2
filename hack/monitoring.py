"""The generated tables about what Stoker tells Prometheus: its metrics, from the code, and its alerts, from the chart's
rule file. hack/generate.py writes them into docs/metrics.md and docs/alerts.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from stoker.adapters.clock import SystemClock
from stoker.adapters.http.certificate import Certificate
from stoker.admission.metrics import AdmissionMetrics
from stoker.admission.response_cache import ResponseCache
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.cluster.view import ClusterView
from stoker.controller.job_metrics import IDENTITY, JOB_METRICS
from stoker.controller.metrics import ControllerMetrics
from stoker.controller.scan_results import ScanResults

RULES = Path(__file__).resolve().parent.parent / "charts" / "stoker" / "monitoring" / "rules.yaml"
BOUNDS: Mapping[str, tuple[str, str]] = {
    "uid": ("the DLJob's", "one for each DLJob, until a day after its end"),
    "name": ("the DLJob's", "as uid"),
    "namespace": ("the DLJob's", "one for each namespace, until it is deleted"),
    "owner": ("the DLJob's label stoker.dev/owner, chosen by users", "one for each uid; 253 characters"),
    "team": ("the DLJob's label stoker.dev/team, chosen by users", "one for each uid; 253 characters"),
    "priority": ("the priority class of its pods", "one for each uid; 253 characters"),
    "product": ("the GPU product of its nodes", "one for each uid; 253 characters"),
    "gpus": ("the number of GPUs that the job asks for", "one for each uid"),
    "job_type": ("Training, Inference, Interactive, ...", "fixed"),
    "phase": ("a DLJob's phase", "8"),
    "state": ("used, idle, unknown; or the state of reclaim", "fixed"),
    "stage": ("a stage of a job's life", "6"),
    "category": ("a cause; Unexplained without a finding", "fixed"),
    "rule": ("a rule's name", "one for each rule; at most 32 for one job"),
    "condition": ("Idle, LowUtilization, Analysed", "3"),
    "status": ("True, False, Unknown", "3; a job has one at a time"),
    "reason": ("a condition's reason, or why something failed", "fixed; a job has one at a time"),
    "place": ("the component that skipped the object", "14"),
    "kind": ("the reviewed kind, or the purpose of a query", "fixed"),
    "verdict": ("allow, warn, deny, error", "4"),
    "action": ("Deny, Warn, Audit, Suppressed", "4"),
    "result": ("what became of it", "fixed"),
    "event": ("a reason of the audit's events, or a kind of notification", "fixed"),
    "policy": ("a UtilizationPolicy's name; built-in without any, none where the owner decided", "one for each, and 2"),
}
"""What a label holds, and how many values it has at most. Every label must be here, so that a new one is bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A metric as the reference shows it."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def of_jobs() -> list[Described]:
    """The metrics that each DLJob has."""
    return [
        Described(name=f"stoker_dljob_{name}", type="gauge", labels=(*IDENTITY, *metric.labels), help=metric.help)
        for name, metric in JOB_METRICS.items()
    ]


def of_controller() -> list[Described]:
    """The controller's own metrics, as its leader has them."""
    metrics = ControllerMetrics()
    metrics.lead(ClusterCache(Faults()), ScanResults(), lambda: 0, SystemClock(), Faults())
    return sorted(_described(metrics.registry), key=lambda one: one.name)


def of_admission() -> list[Described]:
    """The admission process' metrics."""
    metrics = AdmissionMetrics(ClusterView().in_force, ResponseCache())
    metrics.follow(Certificate(Path("/nowhere")))
    return sorted(_described(metrics.registry), key=lambda one: one.name)


def _described(registry: CollectorRegistry) -> Iterator[Described]:
    """Of what the process itself counts; the library's own process_* are the same in every program."""
    # Read from inside: the registry tells the labels of metrics with samples only, and some have none at first.
    collectors: dict[Any, list[str]] = registry._collector_to_names  # noqa: SLF001 - see above
    for collector in collectors:
        labels = tuple(getattr(collector, "_labelnames", ()))
        for family in collector.collect():
            if family.name.startswith("stoker_"):
                yield _of_family(family, labels or tuple(getattr(family, "_labelnames", ())))


def _of_family(family: Metric, labels: tuple[str, ...]) -> Described:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Described(name=name, type=family.type, labels=labels, help=family.documentation)


def metric_rows(metrics: list[Described]) -> list[tuple[str, ...]]:
    """The rows of a table: name, type, labels, meaning."""
    return [(f"`{one.name}`", one.type, ", ".join(one.labels), one.help) for one in metrics]


def label_rows() -> list[tuple[str, ...]]:
    """Every label in use: what it holds and how many values it has at most. Raises KeyError for an unbounded label."""
    used = {label for one in (*of_jobs(), *of_controller(), *of_admission()) for label in one.labels}
    if unused := BOUNDS.keys() - used:
        msg = f"hack/monitoring.py: no metric has the labels {', '.join(sorted(unused))}"
        raise ValueError(msg)
    return [(f"`{label}`", *BOUNDS[label]) for label in sorted(used)]


def alert_rows() -> list[tuple[str, ...]]:
    """The alerts of the chart: name and severity, what is wrong, what to do."""
    return [
        (
            f'<a id="{rule["alert"].lower()}"></a>{rule["alert"]}',
            rule["labels"]["severity"],
            rule.get("for", "at once"),
            _readable(rule["annotations"]["summary"]),
            rule["annotations"]["description"],
        )
        for group in _groups()
        for rule in group["rules"]
        if "alert" in rule
    ]


def records() -> str:
    """The recording rules as YAML."""
    rules = [rule for group in _groups() for rule in group["rules"] if "record" in rule]
    return yaml.safe_dump(rules, sort_keys=False, width=10_000)


def _groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return groups


def _readable(summary: str) -> str:
    """A summary with what Prometheus fills in as a word: `{{ $labels.policy }}` becomes POLICY."""
    words: list[str] = []
    for number, part in enumerate(summary.replace("}}", "{{").split("{{")):
        label = part.partition("$labels.")[2].partition(" ")[0]
        words.append(part if number % 2 == 0 else (label or "value").upper())
    return "".join(words)
