"""The measured process: it diagnoses jobs, or reads one out of a Prometheus, and says how much CPU that took.

`benchmarks.examination` runs it and writes a line for each question: `diagnose`, or `read NUMBER-OF-THE-SIZE URL END`.
"""

import asyncio
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.examination.jobs import CASES, READ, SIZES, played
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.diagnosis.job import diagnose
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.screen import step_for
from stoker.telemetry.series import JobFacts, JobSeries

TIMEOUT = timedelta(minutes=2)


def diagnosed(jobs: list[list[tuple[JobFacts, JobSeries, datetime]]]) -> list[float]:
    """Seconds of CPU that the diagnosis of a job takes, the mean of all cases, for each size."""
    found: list[float] = []
    for cases in jobs:
        began = time.process_time()
        for facts, series, now in cases:
            diagnose(facts, series, (), BUILT_IN.thresholds, now)
        found.append((time.process_time() - began) / len(cases))
    return found


async def read(facts: JobFacts, url: str, end: datetime, life: timedelta) -> float:
    """Seconds of CPU that reading a job's whole life takes which ends at `end`."""
    pods = tuple(replace(pod, started_at=end - life) for pod in facts.pods)
    async with PrometheusSource(PrometheusAccess(url=url, timeout=TIMEOUT), max_skew=None) as source:
        began = time.process_time()
        await source.series(replace(facts, pods=pods), end - life, end, step_for(life))
        return time.process_time() - began


def main() -> None:
    """Answer until the questions end."""
    jobs = [[played(case, size) for case in CASES] for size in SIZES]
    diagnosed(jobs)  # rules and libraries are loaded by the first diagnosis
    print(json.dumps(None), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "diagnose":
            answer: object = diagnosed(jobs)
        else:
            size, end = int(words[1]), datetime.fromtimestamp(float(words[3]), UTC)
            facts, _, _ = jobs[size][CASES.index(READ)]
            answer = asyncio.run(read(facts, words[2], end, timedelta(hours=SIZES[size].hours)))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
