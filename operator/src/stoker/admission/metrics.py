"""The admission process's own metrics for Prometheus: reviews, the response cache, findings, sessions, policies and
the certificate.
"""

import time
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from stoker.adapters.http.certificate import Certificate
from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse
from stoker.admission.response_cache import ResponseCache
from stoker.admission.server import Reviewer
from stoker.cluster.policies import Policies
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import Action, ReviewOutcome
from stoker.shell.model import Shortfall

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
FAILED = "error"
SUPPRESSED = "Suppressed"


class AdmissionMetrics:
    """The metrics of one process. Label values come from Stoker (rules, kinds), never from users."""

    def __init__(self, policies: Policies, cache: ResponseCache) -> None:
        self.registry = CollectorRegistry()
        self._reviews = Counter(
            "stoker_admission_reviews",
            "Reviews, by verdict: allow, warn, deny, or error if the review itself failed.",
            ["kind", "verdict"],
            registry=self.registry,
        )
        self._findings = Counter(
            "stoker_admission_findings",
            "Findings in reviewed jobs, by rule and action: Deny, Warn, Audit, or Suppressed by the job's author.",
            ["rule", "action"],
            registry=self.registry,
        )
        self._not_analysed = Counter(
            "stoker_admission_not_analysed",
            "Reviews that were not completed, by reason: OverBudget, TooLarge, Unreadable, Busy, Fault.",
            ["reason"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "stoker_admission_review_seconds",
            "Duration of a review, from the parsed request to the answer.",
            ["kind"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._sessions = Counter(
            "stoker_admission_sessions",
            "Sessions opened in jobs' pods, by result: noted in the DLJob's status, failed, or"
            " dropped because there were too many at once.",
            ["result"],
            registry=self.registry,
        )
        self._refused = Counter(
            "stoker_admission_refused",
            "Requests answered with HTTP 503 because too many reviews, or too many large objects, were in work.",
            registry=self.registry,
        )
        for reason in Shortfall:
            self._not_analysed.labels(reason.value)
        self.registry.register(_PolicyReloadCollector(policies))
        self.registry.register(_ResponseCacheCollector(cache))
        ProcessCollector(registry=self.registry)

    def counting(self, kind: str, reviewer: Reviewer) -> Reviewer:
        """Wrap a reviewer so that its responses and their durations are counted under `kind`, from 0 on: increase()
        does not see a counter's first value.
        """
        for verdict in (*ReviewOutcome, FAILED):
            self._reviews.labels(kind, str(verdict))
        self._seconds.labels(kind)

        async def counted(request: AdmissionRequest) -> AdmissionResponse:
            start = time.perf_counter()
            try:
                answer = await reviewer(request)
            except Exception:
                self._reviews.labels(kind, FAILED).inc()
                raise
            self._seconds.labels(kind).observe(time.perf_counter() - start)
            self._reviews.labels(kind, _outcome(answer).value).inc()
            if answer.verdict is not None:
                self._count(answer.verdict)
            return answer

        return counted

    def follow(self, certificate: Certificate) -> None:
        """Export the expiry of this certificate from now on."""
        expiry = Gauge(
            "stoker_certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate, in seconds since 1970; 0 without a certificate.",
            registry=self.registry,
        )
        expiry.set_function(lambda: certificate.expires.timestamp() if certificate.expires is not None else 0.0)

    def session(self, result: str) -> None:
        """Count a session; `result` is noted, failed or dropped."""
        self._sessions.labels(result).inc()

    def refused(self) -> None:
        """Count a request that the server refused because it was at one of its bounds."""
        self._refused.inc()

    async def page(self, _: web.Request) -> web.Response:
        """Serve all metrics in Prometheus' text format."""
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _count(self, verdict: Verdict) -> None:
        for action, findings in (
            (Action.DENY.value, verdict.denied),
            (Action.WARN.value, verdict.warned),
            (Action.AUDIT.value, verdict.audited),
            (SUPPRESSED, [one.finding for one in verdict.suppressed]),
        ):
            for finding in findings:
                self._findings.labels(finding.rule, action).inc()
        if verdict.failures:
            self._not_analysed.labels(Shortfall.FAULT.value).inc()
        if verdict.shortfall is not None:
            self._not_analysed.labels(verdict.shortfall.value).inc()


class _PolicyReloadCollector(Collector):
    """Reads the counts of valid and invalid policies from `Policies` at each scrape."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def collect(self) -> Iterator[Metric]:
        reloads: Any = CounterMetricFamily(
            "stoker_policy_reloads",
            "Versions of policies that were read, by result: taken, or invalid (the last valid one stays in force).",
            labels=["result"],
        )
        reloads.add_metric(["taken"], self._policies.taken)
        reloads.add_metric(["invalid"], self._policies.rejected)
        yield reloads
        yield GaugeMetricFamily(
            "stoker_policies_invalid",
            "Policies whose newest version is invalid and not in force.",
            self._policies.invalid,
        )


class _ResponseCacheCollector(Collector):
    """Reads the counts and the size of the response cache at each scrape."""

    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        lookups: Any = CounterMetricFamily(
            "stoker_admission_cache_lookups",
            "Reviews of DLJobs, by result: hit (the response to the same object under the same policy was remembered),"
            " or miss (a worker process was asked).",
            labels=["result"],
        )
        lookups.add_metric(["hit"], self._cache.hits)
        lookups.add_metric(["miss"], self._cache.misses)
        yield lookups
        yield GaugeMetricFamily(
            "stoker_admission_cache_bytes", "Size of the remembered responses, at most 16 MiB.", self._cache.size
        )


def _outcome(answer: AdmissionResponse) -> ReviewOutcome:
    if not answer.allowed:
        return ReviewOutcome.DENY
    return ReviewOutcome.WARN if answer.warnings else ReviewOutcome.ALLOW
