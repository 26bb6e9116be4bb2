"""The Grafana dashboards that the chart ships: what each panel asks Prometheus for. hack/generate.py writes them as
JSON into charts/stoker/monitoring/dashboards/.

To change one, change its panels here: a dashboard edited in Grafana can be saved as a copy, but this file decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
"""The width of Grafana's grid."""
SCHEMA_VERSION = 39
"""Of the dashboards' JSON: that of Grafana 10.4. Newer ones read it and migrate it."""
IDLE_NOW = 'max by (uid) (stoker_dljob_condition{condition="Idle", status="True"})'
INFO = "topk by (uid) (1, stoker_dljob_info)"
"""topk: while one leader follows another, a job's series may come from both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture: `queries` are PromQL by the legend of their series."""

    title: str
    queries: Mapping[str, str]
    kind: str = "timeseries"
    unit: str = "short"
    description: str = ""
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of panels, which flow in rows from left to right. `uid` stays, as links lead to it."""

    uid: str
    title: str
    description: str
    panels: Sequence[Panel] = field(default=())


def stat(title: str, query: str, *, unit: str = "short", description: str = "") -> Panel:
    """One number."""
    return Panel(title=title, queries={"": query}, kind="stat", unit=unit, description=description, width=6, height=4)


def table(title: str, query: str, *, unit: str = "short", description: str = "") -> Panel:
    """The rows of now."""
    return Panel(title=title, queries={"": query}, kind="table", unit=unit, description=description, width=24)


CLUSTER = Dashboard(
    uid="stoker-cluster",
    title="Stoker / Cluster waste",
    description="How many GPUs DLJobs hold, how many of them are idle, and to which causes the hours go.",
    panels=(
        stat("GPUs held", "sum(max by (uid) (stoker_dljob_gpus_held))"),
        stat(
            "GPUs of idle jobs",
            f"sum(max by (uid) (stoker_dljob_gpus_held) * on (uid) {IDLE_NOW}) or vector(0)",
            description="Of jobs all of whose GPUs are idle at this moment.",
        ),
        stat(
            "Idle share of GPU time, one day",
            'sum(increase(stoker_gpu_hours_total{state="idle"}[1d]))'
            ' / sum(increase(stoker_gpu_hours_total{state=~"used|idle"}[1d]))',
            unit="percentunit",
        ),
        stat(
            "GPU-hours without samples, one day",
            'sum(increase(stoker_gpu_hours_total{state="unknown"}[1d]))',
            description="Many of them mean that an exporter or a scrape is missing.",
        ),
        Panel(
            title="GPUs by use, mean of one hour",
            queries={"{{state}}": "sum by (state) (increase(stoker_gpu_hours_total[1h]))"},
            description="GPU-hours of one hour. Statuses are written in steps, which a shorter time would show.",
        ),
        Panel(
            title="Idle GPUs by cause, mean of one hour",
            queries={"{{category}}": 'sum by (category) (increase(stoker_gpu_hours_total{state="idle"}[1h]))'},
        ),
        Panel(
            title="Idle GPU-hours by namespace, one day",
            queries={"{{namespace}}": 'sum by (namespace) (increase(stoker_gpu_hours_total{state="idle"}[1d]))'},
        ),
        Panel(title="DLJobs by phase", queries={"{{phase}}": "max by (phase) (stoker_dljobs)"}),
        Panel(
            title="Idle GPU-hours by stage of the jobs' lives",
            queries={"{{stage}}": "sum by (stage) (max by (uid, stage) (stoker_dljob_stage_idle_gpu_hours))"},
        ),
        Panel(
            title="Idle GPU-hours by finding",
            queries={"{{rule}}": "sum by (rule) (max by (uid, rule) (stoker_dljob_finding_idle_gpu_hours))"},
        ),
    ),
)

TEAMS = Dashboard(
    uid="stoker-teams",
    title="Stoker / Teams",
    description="Who holds GPUs and who uses them, by the DLJobs' labels stoker.dev/team and stoker.dev/owner.",
    panels=(
        Panel(
            title="GPUs held by team",
            queries={
                "{{team}}": f"sum by (team) (max by (uid) (stoker_dljob_gpus_held) * on (uid) group_left (team) {INFO})"
            },
        ),
        Panel(
            title="GPUs of idle jobs by team",
            queries={
                "{{team}}": "sum by (team) (max by (uid) (stoker_dljob_gpus_held)"
                f" * on (uid) {IDLE_NOW} * on (uid) group_left (team) {INFO})"
                " or sum by (team) (max by (uid) (stoker_dljob_gpus_held)"
                f" * on (uid) group_left (team) {INFO}) * 0"
            },
        ),
        Panel(
            title="GPU-hours of the jobs that are shown, by team and use",
            queries={
                "{{team}} {{state}}": "sum by (team, state) (max by (uid, state) (stoker_dljob_gpu_hours)"
                f" * on (uid) group_left (team) {INFO})"
            },
            description="A job is shown until a day after its end.",
        ),
        Panel(
            title="Idle share by team",
            queries={
                "{{team}}": 'sum by (team) (max by (uid) (stoker_dljob_gpu_hours{state="idle"})'
                f" * on (uid) group_left (team) {INFO})"
                ' / sum by (team) (sum by (uid) (max by (uid, state) (stoker_dljob_gpu_hours{state=~"used|idle"}))'
                f" * on (uid) group_left (team) {INFO})"
            },
            unit="percentunit",
        ),
        table(
            "Idle GPU-hours by owner",
            'sort_desc(sum by (team, owner) (max by (uid) (stoker_dljob_gpu_hours{state="idle"})'
            f" * on (uid) group_left (team, owner) {INFO}))",
        ),
    ),
)

JOBS = Dashboard(
    uid="stoker-jobs",
    title="Stoker / Jobs",
    description="The DLJobs that cost most, and why.",
    panels=(
        table(
            "Jobs by idle GPU-hours",
            'topk(20, max by (uid, namespace, name) (stoker_dljob_gpu_hours{state="idle"})'
            f" * on (uid) group_left (owner, team, gpus, product) {INFO})",
        ),
        table(
            "Findings by idle GPU-hours",
            "topk(20, max by (namespace, name, category, rule) (stoker_dljob_finding_idle_gpu_hours))",
        ),
        Panel(
            title="GPUs held by job",
            queries={"{{namespace}}/{{name}}": "topk(20, max by (namespace, name) (stoker_dljob_gpus_held))"},
        ),
        Panel(
            title="GPU-hours by use, of each job",
            queries={
                "{{namespace}}/{{name}} {{state}}": "topk(20, max by (namespace, name, state) (stoker_dljob_gpu_hours))"
            },
        ),
        Panel(
            title="Conditions of running jobs",
            queries={
                "{{condition}} {{status}} ({{reason}})": "count by (condition, status, reason)"
                " (max by (uid, condition, status, reason) (stoker_dljob_condition))"
            },
        ),
        Panel(
            title="Pods that are ready",
            queries={"{{namespace}}/{{name}}": "max by (namespace, name) (stoker_dljob_ready)"},
        ),
    ),
)

RECLAIM = Dashboard(
    uid="stoker-reclaim",
    title="Stoker / Reclaim",
    description="Warnings, reclaims and what owners answered; whether the brake is on.",
    panels=(
        stat("GPUs given back, one day", "sum(increase(stoker_reclaimed_gpus_total[1d]))"),
        stat("GPUs of reclaimed jobs now", 'max(stoker_dljobs_reclaim_gpus{state="Reclaimed"})'),
        stat("GPUs kept idle by a snooze", 'max(stoker_dljobs_reclaim_gpus{state="Snoozed"})'),
        stat("Policies whose brake is on", "sum(max by (policy) (stoker_reclaim_stopped))"),
        Panel(title="DLJobs by reclaim state", queries={"{{state}}": "max by (state) (stoker_dljobs_reclaim)"}),
        Panel(title="GPUs by reclaim state", queries={"{{state}}": "max by (state) (stoker_dljobs_reclaim_gpus)"}),
        Panel(
            title="Events of one hour",
            queries={"{{event}}": "sum by (event) (increase(stoker_reclaim_events_total[1h]))"},
        ),
        Panel(
            title="Events of one day by policy",
            queries={"{{policy}} {{event}}": "sum by (policy, event) (increase(stoker_reclaim_events_total[1d]))"},
        ),
        Panel(
            title="Notifications of one hour",
            queries={"{{event}} {{result}}": "sum by (event, result) (increase(stoker_notifications_total[1h]))"},
        ),
        Panel(title="The brake", queries={"{{policy}}": "max by (policy) (stoker_reclaim_stopped)"}),
    ),
)

OPERATOR = Dashboard(
    uid="stoker-operator",
    title="Stoker / Operator health",
    description="Whether Stoker itself works: scans, queries, reviews, queue and certificate.",
    panels=(
        stat("Leaders", "sum(stoker_controller_leading)", description="1; 0 for a few seconds at a change."),
        stat("Since the last scan", "time() - max(stoker_scan_last_success_timestamp_seconds)", unit="s"),
        stat(
            "Until the certificate expires",
            "min(stoker_certificate_expiry_timestamp_seconds > 0) - time()",
            unit="s",
        ),
        stat("Invalid policies", "max(stoker_policies_invalid)"),
        Panel(
            title="Reviews by verdict",
            queries={
                "{{kind}} {{verdict}}": "sum by (kind, verdict)"
                " (rate(stoker_admission_reviews_total[$__rate_interval]))"
            },
            unit="reqps",
        ),
        Panel(
            title="Duration of reviews",
            queries={
                f"{{{{kind}}}} p{share}": f"histogram_quantile(0.{share},"
                " sum by (kind, le) (increase(stoker_admission_review_seconds_bucket[1h])))"
                for share in (50, 99)
            },
            unit="s",
        ),
        Panel(
            title="Findings of reviews, one hour",
            queries={"{{rule}} {{action}}": "sum by (rule, action) (increase(stoker_admission_findings_total[1h]))"},
        ),
        Panel(
            title="Reviews not analysed completely, one hour",
            queries={"{{reason}}": "sum by (reason) (increase(stoker_admission_not_analysed_total[1h]))"},
        ),
        Panel(title="Queue", queries={"DLJobs that wait": "max(stoker_queue_length)"}),
        Panel(
            title="Scans",
            queries={"{{result}}": "sum by (result) (rate(stoker_scan_ticks_total[$__rate_interval]))"},
            unit="ops",
        ),
        Panel(
            title="Duration of scans and queries, 99th percentile",
            queries={
                "scan": "histogram_quantile(0.99,"
                " sum by (le) (rate(stoker_scan_tick_seconds_bucket[$__rate_interval])))",
                "query: {{kind}}": "histogram_quantile(0.99,"
                " sum by (kind, le) (increase(stoker_prometheus_query_seconds_bucket[1h])))",
            },
            unit="s",
        ),
        Panel(
            title="Jobs examined, and statuses written",
            queries={
                "examined: {{result}}": "sum by (result) (rate(stoker_examinations_total[$__rate_interval]))",
                "written: {{result}}": "sum by (result) (rate(stoker_status_writes_total[$__rate_interval]))",
            },
            unit="ops",
        ),
        Panel(
            title="Objects skipped because of an internal error, one hour",
            queries={"{{place}}": "sum by (place) (increase(stoker_object_faults_total[1h]))"},
        ),
        Panel(
            title="Memory",
            queries={
                "{{instance}}": "process_resident_memory_bytes"
                ' and on (instance) {__name__=~"stoker_(controller_leading|policies_invalid)"}'
            },
            unit="bytes",
        ),
    ),
)

DASHBOARDS = (CLUSTER, TEAMS, JOBS, RECLAIM, OPERATOR)


def to_json(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana reads it. Its Prometheus is chosen at the top of the page."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["stoker"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "utc",
        "links": [{"type": "dashboards", "title": "Stoker", "tags": ["stoker"], "asDropdown": True}],
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": list(_placed(dashboard.panels)),
    }


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    column = row = height = 0
    for number, panel in enumerate(panels, start=1):
        if column + panel.width > COLUMNS:
            column, row, height = 0, row + height, 0
        place = {"x": column, "y": row, "w": panel.width, "h": panel.height}
        yield {"id": number, "gridPos": place, **_drawn(panel)}
        column, height = column + panel.width, max(height, panel.height)


def _drawn(panel: Panel) -> dict[str, Any]:
    as_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": DATASOURCE,
            "expr": query,
            "legendFormat": legend,
            "instant": panel.kind != "timeseries",
            "range": panel.kind == "timeseries",
            "format": "table" if as_table else "time_series",
        }
        for number, (legend, query) in enumerate(panel.queries.items())
    ]
    drawn: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }
    if as_table:
        hidden = {"excludeByName": {"Time": True, "uid": True}}
        drawn["transformations"] = [{"id": "organize", "options": hidden}]
    return drawn
