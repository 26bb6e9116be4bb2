"""`stoker diagnose` over a metrics' source that replays compact series; with a real one it is tried end to end."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from stoker.cli import stoker
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.words import UNKNOWN
from stoker.findings.vocabulary import Category, Confidence, Severity, Source, Stage, UnknownReason
from stoker.inspection.look import Looker, ReadPeriod
from stoker.inspection.workload import Workload
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.screen import GpuWindow, MetricsUnavailable, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries, PodFacts, PodSignal
from tests.diagnosis.recording import parse_series
from tests.lint.test_formats import strict

ROOT = Path(__file__).parents[2]
START = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
STEP = timedelta(seconds=30)
TRAINS = "0x10 90x470"
STOPS = "0x10 90x230 0x240"
"""Four hours: five minutes of start-up, then work for the rest, or for two hours."""
END = START + 480 * STEP


@dataclass
class Tape:
    """A metrics' source with recorded GPUs: of each pod the series of utilization by GPU."""

    pods: Mapping[str, list[str]]
    down: frozenset[str] = frozenset()
    """Pods that it does not answer for."""
    screen_fails: bool = False
    shared: bool = False
    asked: list[tuple[datetime, datetime]] = field(default_factory=list)

    async def __aenter__(self) -> "Tape":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        self.asked.append((start, end))
        if self.down & {pod.name for pod in facts.pods}:
            raise MetricsUnavailable(
                UnknownReason.PROMETHEUS_UNAVAILABLE, "http://prometheus can't be reached: refused"
            )
        return job_series(facts, self._traces(), start=start, end=end, step=step)

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        if self.screen_fails:
            raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "no answer within 6 s")
        return [
            Screen(
                at=now, window=one.window, gpus={key: self._window(key[1], now - one.window, now) for key in one.pods}
            )
            for one in requests
        ]

    def _window(self, pod: str, opened: datetime, now: datetime) -> tuple[GpuWindow, ...]:
        return tuple(
            GpuWindow(
                gpu=f"{pod}-{number}",
                peaks={GpuSignal.UTIL: max(value for time, value in _points(text) if opened < time <= now)},
                coverage_percent=100,
                last_sample_at=now,
                quiet_since=max(time for time, value in _points(text) if value and time <= now),
                shared=self.shared,
            )
            for number, text in enumerate(self.pods[pod])
        )

    def _traces(self) -> list[Trace]:
        traces = []
        for pod, gpus in self.pods.items():
            for number, text in enumerate(gpus):
                points = [(time.timestamp(), value) for time, value in _points(text)]
                for signal, values in (
                    (GpuSignal.UTIL, points),
                    (GpuSignal.GRAPHICS, points),
                    (GpuSignal.MEMORY_USED, [(time, 60_000.0 if value else 500.0) for time, value in points]),
                    (GpuSignal.MEMORY_FREE, [(time, 20_000.0 if value else 79_500.0) for time, value in points]),
                ):
                    traces.append(
                        Trace(signal=signal, pod=pod, gpu=f"{pod}-{number}", index=str(number), points=values)
                    )
            points = [(time.timestamp(), 3.0 if value else 0.02) for time, value in _points(gpus[0])]
            traces.append(Trace(signal=PodSignal.CPU, pod=pod, points=points))
            quiet = [(time, 900.0) for time, _ in points]
            traces += [Trace(signal=signal, pod=pod, points=quiet) for signal in (PodSignal.NET_RX, PodSignal.NET_TX)]
        return traces


def _points(text: str) -> list[tuple[datetime, float]]:
    values = parse_series(text)
    return [(START + (place + 1) * STEP, value) for place, value in enumerate(values) if not math.isnan(value)]


def entry(called: str, **changes: Any) -> dict[str, Any]:
    """A job of one pod with two GPUs that still ran at END."""
    known = {"namespace": "nlp", "name": called, "pods": [f"{called}-0"], "nodes": 1, "gpusPerNode": 2}
    return {**known, "persistentVolume": True, "start": START.isoformat(), "end": None, **changes}


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    tape = Tape(
        pods={
            "bert-0": [TRAINS, TRAINS],
            "left-0": [STOPS, STOPS],
            "wide-0": [TRAINS, TRAINS],
            "wide-1": [TRAINS, TRAINS],
            "gap-0": ["0x10 90x100 _x200 90x170", TRAINS],
        }
    )
    monkeypatch.setattr("stoker.adapters.prometheus.source.PrometheusSource", lambda access, **_: tape)
    return tape


def run(tmp_path: Path, *arguments: str, jobs: Any = None, **environment: str) -> Result:
    file = tmp_path / "jobs.yaml"
    file.write_text(jobs if isinstance(jobs, str) else yaml.safe_dump(jobs))
    fixed = ["--prometheus", "http://prometheus", "--to", END.isoformat(), "--jobs", str(file)]
    return CliRunner().invoke(stoker, ["diagnose", *fixed, *arguments], env={"COLUMNS": "120", **environment})


def document(result: Result) -> dict[str, Any]:
    """The answer in JSON, which must be as published."""
    answer: dict[str, Any] = json.loads(result.stdout)
    schema = json.loads((ROOT / "docs/schemas/diagnose-v1.json").read_text())
    Draft202012Validator(strict(schema)).validate(answer)
    return answer


# ------------------------------------------------------------------------------------------------------------ answers


def test_a_job_whose_gpus_rest_at_its_end_is_unreleased_and_may_be_reclaimed(tmp_path: Path, tape: Tape) -> None:
    result = run(tmp_path, "--format", "json", jobs=[entry("left")])
    (job,) = document(result)["jobs"]
    assert result.exit_code == 1
    assert [finding["category"] for finding in job["findings"]] == [Category.UNRELEASED_JOB]
    assert job["low"] is True
    assert job["utilization"]["averagePercent"] == pytest.approx(90 * 230 / 480, abs=0.5)
    assert job["utilization"]["gpuHours"] == pytest.approx(8)
    assert job["idle"] == {"since": "2026-11-20T08:00:00Z", "allGPUs": True}
    assert job["reclaim"]["eligible"] is True
    assert "UnreleasedJob" in job["reclaim"]["why"]


def test_a_busy_job_is_clean(tmp_path: Path, tape: Tape) -> None:
    result = run(tmp_path, "--format", "json", jobs=[entry("bert")])
    (job,) = document(result)["jobs"]
    assert (result.exit_code, job["findings"], job["low"], job["error"]) == (0, [], False, None)
    assert job["idle"] == {"since": None, "allGPUs": False}
    assert job["reclaim"] == {
        "eligible": False,
        "why": "a GPU was used within idleAfter",
    }


@pytest.mark.parametrize(
    "change, why",
    [
        ({"end": END.isoformat()}, "it has ended"),
        ({"jobType": "Serving"}, "a service is never reclaimed (spec.jobType is Serving)"),
    ],
)
def test_what_holds_no_gpus_or_serves_is_not_eligible(
    tmp_path: Path, tape: Tape, change: dict[str, Any], why: str
) -> None:
    (job,) = document(run(tmp_path, "--format", "json", jobs=[entry("left", **change)]))["jobs"]
    assert job["reclaim"] == {"eligible": False, "why": why}


def test_a_shared_gpu_or_a_screen_without_answer_is_not_eligible(tmp_path: Path, tape: Tape) -> None:
    tape.shared = True
    (job,) = document(run(tmp_path, "--format", "json", jobs=[entry("left")]))["jobs"]
    assert (job["reclaim"]["eligible"], "shared by several pods" in job["reclaim"]["why"]) == (False, True)
    tape.screen_fails = True
    (job,) = document(run(tmp_path, "--format", "json", jobs=[entry("left")]))["jobs"]
    assert job["reclaim"] == {"eligible": False, "why": "not known to be idle: no answer within 6 s"}


def test_every_reason_why_nothing_is_known_has_words() -> None:
    assert set(UNKNOWN) == set(UnknownReason)


def test_what_can_t_be_known_of_now_is_no_reason_to_reclaim(tmp_path: Path, tape: Tape) -> None:
    """A gap in the last minutes: the cause still stands, and a screen finds the GPUs idle."""
    tape.pods = {"left-0": [STOPS.replace("0x240", "0x228 _x8 0x4")] * 2}
    result = run(tmp_path, "--format", "json", jobs=[entry("left")])
    (job,) = document(result)["jobs"]
    assert job["unknown"] == UnknownReason.PARTIAL
    assert [finding["category"] for finding in job["findings"]] == [Category.UNRELEASED_JOB]
    assert job["reclaim"]["eligible"] is False
    assert "its present state is unknown" in job["reclaim"]["why"]


async def test_the_gpus_of_an_object_that_is_no_dljob_are_left_alone(tape: Tape) -> None:
    pod = PodFacts(name="left-0", uid="left-0", rank=0, gpus=2, started_at=START, ready=True)
    facts = JobFacts(
        namespace="nlp", name="left", uid="left", nodes=1, gpus_per_node=2, pods=(pod,), has_persistent_volume=True
    )
    looker = Looker(source=tape, period=ReadPeriod(now=END))
    ours, theirs = await looker.look_at([Workload(facts=facts), Workload(facts=facts, owner="JobSet")])
    assert (ours.eligibility.eligible, theirs.eligibility.eligible) == (True, False)
    assert theirs.eligibility.why.startswith("the controller never reclaims it, because no DLJob owns it")


def test_the_script_joins_what_the_series_show(tmp_path: Path, tape: Tape) -> None:
    script = "torchrun --standalone --nproc_per_node=2 train.py\nsleep infinity\n"
    (job,) = document(run(tmp_path, "--format", "json", jobs=[entry("left", script=script)]))["jobs"]
    (finding,) = (one for one in job["findings"] if one["category"] == Category.UNRELEASED_JOB)
    assert set(finding["sources"]) == {Source.SCRIPT, Source.METRICS}
    assert finding["confidence"] == Confidence.CERTAIN
    assert finding["location"] == {"fieldPath": "spec.script", "line": 2}


def test_without_an_image_nothing_is_said_of_images(tmp_path: Path, tape: Tape) -> None:
    given = entry("bert", script="python train.py\n")
    (job,) = document(run(tmp_path, "--format", "json", jobs=[given]))["jobs"]
    assert [one["rule"] for one in job["findings"] if one["rule"].startswith("image-")] == []
    (job,) = document(run(tmp_path, "--format", "json", jobs=[{**given, "image": "nlp/bert:latest"}]))["jobs"]
    assert "image-unpinned" in [one["rule"] for one in job["findings"]]


def test_one_job_that_fails_does_not_end_the_others(tmp_path: Path, tape: Tape) -> None:
    tape.down = frozenset({"wide-0"})
    result = run(tmp_path, "--format", "json", jobs=[entry("wide"), entry("left")])
    broken, whole = document(result)["jobs"]
    assert result.exit_code == 2
    assert "can't be reached" in broken["error"]
    assert (broken["utilization"], broken["low"], broken["reclaim"]["eligible"]) == (None, None, False)
    assert (whole["error"], whole["reclaim"]["eligible"]) == (None, True)
    assert result.stderr == "stoker: http://prometheus can't be reached: refused\n"


def test_a_source_that_is_down_is_not_asked_for_every_job(tmp_path: Path, tape: Tape) -> None:
    jobs = [entry(f"job{number}", pods=["wide-0"]) for number in range(50)]
    tape.down = frozenset({"wide-0"})
    result = run(tmp_path, "--format", "json", jobs=jobs)
    assert result.exit_code == 2
    assert len(tape.asked) < 10
    assert all(job["error"] for job in document(result)["jobs"])


# --------------------------------------------------------------------------------------------------------------- logs


def logged(*lines: tuple[float, str], pod: str | None = None) -> str:
    """Lines so many seconds after the start, as kubectl writes them."""
    prefix = "" if pod is None else f"[pod/{pod}/trainer] "
    stamps = [((START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ"), text) for seconds, text in lines]
    return "".join(f"{prefix}{stamp} {text}\n" for stamp, text in stamps)


def test_recorded_logs_reach_the_diagnosis(tmp_path: Path, tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[JobSeries] = []

    def spy(facts: JobFacts, series: JobSeries, *rest: Any, **options: Any) -> Any:
        seen.append(series)
        return diagnose(facts, series, *rest, **options)

    monkeypatch.setattr("stoker.inspection.look.diagnose", spy)
    file = tmp_path / "job.log"
    lines = ((60, "Collecting torch==2.4"), (400, "Epoch 1/90"), (86_400, "Epoch 90/90"))
    file.write_text(logged(*lines, pod="bert-0") + logged((500, "Saving checkpoint"), pod="other-0"))
    run(tmp_path, "--logs-file", str(file), jobs=[entry("bert"), entry("wide")])
    assert [[mark.text for mark in series.marks] for series in seen] == [["Collecting torch==2.4", "Epoch 1/90"], []]
    file.write_text(logged(*lines))
    run(tmp_path, "--logs-file", str(file), "--job", "bert", jobs=[entry("bert"), entry("wide")])
    assert [mark.pod for mark in seen[-1].marks] == ["bert-0", "bert-0"]


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "No such file"),
        ("Epoch 1/90\n", "no line begins with a time: write it with kubectl logs --timestamps --prefix"),
        ("2026-11-20T06:00:00Z Epoch 1/90\n", "do not name the pod, and the jobs have several"),
    ],
)
def test_logs_that_cannot_be_placed_are_refused(tmp_path: Path, tape: Tape, text: str | None, said: str) -> None:
    file = tmp_path / "job.log"
    if text is not None:
        file.write_text(text)
    result = run(tmp_path, "--logs-file", str(file), jobs=[entry("bert"), entry("wide")])
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert tape.asked == []


# ----------------------------------------------------------------------------------------------------- bounds of life


def test_start_and_end_are_sought_in_the_samples(tmp_path: Path, tape: Tape) -> None:
    given = entry("left")
    del given["start"], given["end"]
    result = run(tmp_path, "--to", (END + timedelta(days=2)).isoformat(), "--format", "json", jobs=[given])
    (job,) = document(result)["jobs"]
    assert job["since"] == "2026-11-20T06:00:00Z"
    assert job["until"] == "2026-11-20T10:00:00Z"
    assert job["utilization"]["coveragePercent"] == 100
    assert job["reclaim"]["why"] == "it has ended"
    assert [note.partition(",")[0] for note in job["notes"]] == [
        "its start is not recorded; it is assumed at its first sample",
        "its end is not recorded; it is assumed at its last sample",
    ]


def test_an_end_of_null_is_no_end_however_long_the_silence(tmp_path: Path, tape: Tape) -> None:
    later = (END + timedelta(hours=2)).isoformat()
    (job,) = document(run(tmp_path, "--to", later, "--format", "json", jobs=[entry("bert")]))["jobs"]
    assert (job["unknown"], job["idle"]["allGPUs"]) == (UnknownReason.STALE, None)
    assert job["utilization"]["averagePercentRange"][1] == pytest.approx(100 * (470 * 0.9 + 240) / 720, abs=1)


def test_pods_that_replaced_one_another_are_one_job(tmp_path: Path, tape: Tape) -> None:
    tape.pods = {"bert-0-aaaaa": ["0x10 90x190", "0x10 90x190"], "bert-0-bbbbb": ["_x230 0x10 90x240"] * 2}
    given = entry("bert", pods=["bert-0-aaaaa", "bert-0-bbbbb"])
    (job,) = document(run(tmp_path, "--format", "json", jobs=[given]))["jobs"]
    assert job["gpus"] == 2
    assert {gpu["pod"] for gpu in job["utilization"]["gpus"]} == {"bert-0-aaaaa", "bert-0-bbbbb"}
    assert job["utilization"]["gpuHours"] == pytest.approx(2 * (200 + 250) * 30 / 3600, abs=0.1)


def test_a_job_without_samples_is_unknown_and_no_finding(tmp_path: Path, tape: Tape) -> None:
    given = {"namespace": "nlp", "pods": ["gone-0"], "gpusPerNode": 8}
    result = run(tmp_path, "--format", "json", jobs=[given])
    (job,) = document(result)["jobs"]
    assert (result.exit_code, job["unknown"], job["findings"]) == (0, UnknownReason.NO_SAMPLES, [])
    assert (job["name"], job["gpus"]) == ("gone-0", 8)
    assert "no samples of its pods" in job["notes"][0]


def test_a_window_cuts_the_life_and_says_so(tmp_path: Path, tape: Tape) -> None:
    begin = START + timedelta(hours=1)
    (job,) = document(run(tmp_path, "--from", begin.isoformat(), "--format", "json", jobs=[entry("bert")]))["jobs"]
    assert job["since"] == "2026-11-20T07:00:00Z"
    assert job["utilization"]["gpuHours"] == pytest.approx(6)
    assert job["utilization"]["averagePercent"] == pytest.approx(90)
    assert "diagnosed from 2026-11-20T07:00:00Z on" in job["notes"][0]


def test_a_cut_life_has_no_start(tmp_path: Path, tape: Tape) -> None:
    """An idle half hour in the midst of a life is no start-up because the window begins with it."""
    tape.pods = {"bert-0": ["0x10 90x110 0x60 90x300"] * 2}
    begin = START + timedelta(hours=1)
    whole, cut = (
        document(run(tmp_path, *window, "--format", "json", jobs=[entry("bert")]))["jobs"][0]
        for window in ([], ["--from", begin.isoformat()])
    )
    assert [stage["stage"] for stage in whole["stages"]] == [Stage.INITIALIZATION, Stage.ACTIVE]
    assert [stage["stage"] for stage in cut["stages"]] == [Stage.ACTIVE]
    assert cut["findings"] == whole["findings"] == []


def test_a_window_beside_the_life_is_said(tmp_path: Path, tape: Tape) -> None:
    given = entry("bert", end=(START + timedelta(hours=1)).isoformat())
    begin = (START + timedelta(hours=2)).isoformat()
    (job,) = document(run(tmp_path, "--from", begin, "--format", "json", jobs=[given]))["jobs"]
    assert "outside the requested time" in job["notes"][0]


# ------------------------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "jobs, said",
    [
        ("namespace: nlp\n", "must be a list of jobs"),
        ("- bert\n", "jobs.yaml:1: [0]: must be an object"),
        ("- {namespace: nlp}\n", "[0].pods: required"),
        ("- {namespace: nlp, pods: [a]}\n", "[0].gpusPerNode: required"),
        ("- {namespace: nlp, pods: [], gpusPerNode: 1}\n", "[0].pods: must not be empty"),
        ("- {namespace: nlp, pods: [a, a], gpusPerNode: 1}\n", "pods: the same pod is listed twice"),
        (
            "- {namespace: nlp, pods: [a], gpusPerNode: 0}\n",
            "[0].gpusPerNode: 0: input should be greater than or equal",
        ),
        ("- {namespace: nlp, pods: [a], gpusPerNode: '8'}\n", "[0].gpusPerNode: '8': input should be a valid integer"),
        ("- {namespace: nlp, pods: [a], gpusPerNode: 1, gpuCount: 3}\n", "[0].gpuCount: unknown field"),
        (
            "- {namespace: nlp, pods: [a], gpusPerNode: 1}\n- {namespace: n, pods: [b], gpusPerNode: 1, jobType: B}",
            "jobs.yaml:2: [1].jobType: 'B'",
        ),
        ("- {namespace: nlp, pods: [a], gpusPerNode: 1, start: yesterday}\n", "'yesterday': must be a time"),
        ("- {namespace: nlp, pods: [a], gpusPerNode: 1, start: '2026-11-20T06:00:00'}\n", "a time with its zone"),
        (
            "- {namespace: n, pods: [a], gpusPerNode: 1, start: '2026-11-20T06:00:00Z', end: '2026-11-20T05:00:00Z'}\n",
            "end: must be later than start",
        ),
        (
            "- {namespace: n, pods: [a], gpusPerNode: 1, start: '0001-01-01T00:00:00+12:00'}\n",
            "[0].start: '0001-01-01T00:00:00+12:00'",
        ),
        ("- {namespace: n, pods: [a], gpusPerNode: 1, end: '9999-12-31T23:59:59-12:00'}\n", "must be in the years"),
        ("- [\n", "not valid YAML"),
        ("[]\n", "holds no jobs"),
        ("", "contains no list of jobs"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_the_value_and_what_is_allowed(
    tmp_path: Path, tape: Tape, jobs: str, said: str
) -> None:
    result = run(tmp_path, jobs=jobs)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert "Traceback" not in result.output
    assert tape.asked == []


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--selector", "app=bert"], "--jobs reads no cluster"),
        (["--all-namespaces"], "--jobs reads no cluster"),
        (["--logs"], "--jobs reads no cluster"),
        (["--from", "-1h", "--to", "-2h"], "--from must be earlier than --to"),
        (["--from", "tomorrow"], "is not a time"),
        (["--job", "other"], "holds no such job"),
        (["--namespace", "other"], "holds no such job"),
        (["--prometheus", "prometheus:9090"], "is not an address"),
        (["--format", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, tape: Tape, arguments: list[str], said: str) -> None:
    result = run(tmp_path, *arguments, jobs=[entry("bert")])
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("given, seconds", [([], 30), (["--prometheus-timeout", "7s"], 7)])
def test_a_query_may_take_longer_than_the_controllers(
    tmp_path: Path, tape: Tape, monkeypatch: pytest.MonkeyPatch, given: list[str], seconds: float
) -> None:
    seen: list[timedelta] = []

    def source(access: Any, **_: Any) -> Tape:
        seen.append(access.timeout)
        return tape

    monkeypatch.setattr("stoker.adapters.prometheus.source.PrometheusSource", source)
    run(tmp_path, *given, jobs=[entry("bert")])
    assert seen == [timedelta(seconds=seconds)]


@pytest.mark.parametrize("command, default", [("diagnose", "30s"), ("report", "2m"), ("run controller", "6s")])
def test_the_help_says_how_long_a_query_of_this_command_may_take(command: str, default: str) -> None:
    said = " ".join(CliRunner().invoke(stoker, [*command.split(), "--help"]).stdout.split())
    assert f"STOKER_PROMETHEUS_TIMEOUT; default: {default}]" in said


def test_without_a_cluster_the_kubeconfig_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "config"
    arguments = ["--prometheus", "http://prometheus", "--job", "bert", "--kubeconfig", str(missing)]
    result = CliRunner().invoke(stoker, ["diagnose", *arguments])
    assert (result.exit_code, str(missing) in result.stderr, "Traceback" in result.output) == (2, True, False)


def test_namespace_and_job_choose_from_the_file(tmp_path: Path, tape: Tape) -> None:
    jobs = [entry("bert"), entry("left"), entry("left", namespace="cv")]
    chosen = document(run(tmp_path, "--job", "left", "--namespace", "nlp", "--format", "json", jobs=jobs))["jobs"]
    assert [(job["namespace"], job["name"]) for job in chosen] == [("nlp", "left")]


# ------------------------------------------------------------------------------------------------------------ picture


def test_the_picture_shows_use_rest_gaps_stages_and_findings(tmp_path: Path, tape: Tape) -> None:
    lines = run(tmp_path, jobs=[entry("left"), entry("gap")]).stdout.splitlines()
    strips = [line for line in lines if line.startswith("  GPU ")]
    assert len(strips) == 4
    assert all(len(line) <= 120 for line in lines)
    worked, rested = strips[0].partition("▁" * 10)[0], strips[0][-30:]
    assert set(worked[30:].strip()) <= set("▁▂▃▄▅▆▇█")
    assert set(rested) == {"▁"}
    assert "·" * 30 in strips[2]
    assert "·" not in strips[3]
    (ruler,) = {line for line in lines if "2026-11-20 UTC" in line}
    assert "│07:00" in ruler
    assert "│09:00" in ruler
    assert any("stages" in line and "├ Active ─" in line and "├ Tail ─" in line for line in lines)
    (marked,) = (line for line in lines if line.startswith("  [1] ") and "━" in line)
    assert marked.endswith("▶")
    # The mark begins where the rest does.
    assert abs(marked.index("━") - strips[0].index("▁" * 10)) <= 1
    assert any(line.startswith("  [1] warning[unreleased-job] UnreleasedJob, ") for line in lines)
    assert lines[-1] == "2 jobs: 1 with findings, 1 low."


def test_without_block_elements_the_picture_is_ascii(
    tmp_path: Path, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.adapters.terminal._has_blocks", lambda encoding: False)
    shown = run(tmp_path, jobs=[entry("gap")]).stdout
    assert shown.isascii()
    strip = next(line for line in shown.splitlines() if line.startswith("  GPU 0"))
    assert "?" * 30 in strip
    assert "#" * 10 in strip


@pytest.mark.parametrize(
    "environment, coloured",
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours_are_for_terminals_and_for_who_wants_them(
    tmp_path: Path, tape: Tape, environment: dict[str, str], coloured: bool
) -> None:
    result = CliRunner().invoke  # the runner would strip them
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps([entry("left")]))
    arguments = ["diagnose", "--prometheus", "http://prometheus", "--to", END.isoformat(), "--jobs", str(file)]
    assert ("\x1b[" in result(stoker, arguments, env=environment, color=True).stdout) is coloured


@pytest.mark.parametrize("width", [20, 60, 90, 400])
def test_every_width_holds_the_picture(tmp_path: Path, tape: Tape, width: int) -> None:
    lines = run(tmp_path, jobs=[entry("left")], COLUMNS=str(width)).stdout.splitlines()
    strips = [line for line in lines if line.startswith("  GPU ")]
    assert {len(line) for line in strips} == {min(max(width - 31, 20), 240) + 31}


def test_of_many_gpus_the_least_and_the_most_used_are_drawn(tmp_path: Path, tape: Tape) -> None:
    levels = [*(f"{50 + number}x480" for number in range(30)), "0x480"]
    tape.pods = {"bert-0": levels}
    shown = run(tmp_path, jobs=[entry("bert", gpusPerNode=31)]).stdout.splitlines()
    strips = [line for line in shown if line.startswith("  GPU ")]
    assert len(strips) == 16
    assert strips[-1].startswith("  GPU 30 ")
    assert any(line.strip() == "and 15 more GPUs, between 57 % and 71 %" for line in shown)


def test_what_a_name_holds_does_not_reach_the_terminal(tmp_path: Path, tape: Tape) -> None:
    shown = run(tmp_path, jobs=[entry("bert", name="a\x1b[2Jb")]).stdout
    assert "\x1b" not in shown


# -------------------------------------------------------------------------------------------------------------- page


def test_the_schema_knows_every_word_of_the_vocabulary() -> None:
    schema = json.loads((ROOT / "docs/schemas/diagnose-v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    finding = schema["$defs"]["finding"]["properties"]
    assert schema["$defs"]["category"]["enum"] == [*Category]
    assert finding["severity"]["enum"] == [*Severity]
    assert finding["confidence"]["enum"] == [*Confidence]
    assert finding["sources"]["items"]["enum"] == [*Source]
    assert schema["$defs"]["stage"]["properties"]["stage"]["enum"] == [*Stage]
    assert schema["$defs"]["job"]["properties"]["unknown"]["enum"] == [*UnknownReason, None]
