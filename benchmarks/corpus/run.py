"""Lints every sample, in process and by the command, and counts."""

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import yaml
from pydantic import ValidationError

from benchmarks.corpus.convert import Sample, samples
from benchmarks.corpus.fetch import CACHE, fetch, packages
from stoker.api.dljob import DLJob
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN

FOUND = CACHE / "findings.json"
MANIFESTS = CACHE / "manifests"
COMMAND_TIMEOUT = 600
SLOW_SECONDS = 1.0
"""The webhook's budget for one review."""
SHOWN = 40
"""Faults of ours that a summary lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One finding, by where it came from. gpus: what the job was given on each node. line: in the script, or None."""

    package: str
    version: str
    path: str
    gpus: int
    rule: str
    action: str
    confidence: str
    line: int | None
    detail: str

    @property
    def key(self) -> str:
        """What a hand-made review names it by."""
        return f"{self.package} {self.version} {self.path} {self.gpus} {self.rule} {self.line or 0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of one sample. seconds: of CPU. crashes: rules, or the whole reading, that failed."""

    seconds: float
    verdict: str
    found: tuple[Found, ...]
    unfinished: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()


def corpus(only: str | None = None) -> list[Sample]:
    """All samples of all packages of the list, or of one."""
    return [
        sample
        for package in packages()
        if only in (None, package.name)
        for sample in samples(package.name, str(package.version), fetch(package))
    ]


def contradicted(listed: Iterable[Sample], factor: Fraction) -> list[Sample]:
    """The scripts that name a number of GPUs themselves, on so many times as many."""
    changed = []
    for sample in listed:
        if sample.evidence is None or sample.native or sample.evidence * factor < 1:
            continue
        spec = {**sample.manifest["spec"], "gpusPerNode": int(sample.evidence * factor)}
        manifest = {**sample.manifest, "spec": spec}
        changed.append(
            Sample(
                package=sample.package,
                version=sample.version,
                path=sample.path,
                manifest=manifest,
                evidence=sample.evidence,
            )
        )
    return changed


def judge(sample: Sample) -> Judged:
    """Lint one sample in this process."""
    start = time.process_time()
    try:
        job = DLJob.model_validate(sample.manifest)
    except ValidationError as error:
        return Judged(
            seconds=time.process_time() - start,
            verdict="deny",
            found=(),
            violations=tuple(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()),
        )
    verdict = review(job, BUILT_IN, now=datetime.now(UTC))
    seconds = time.process_time() - start
    found = tuple(
        Found(
            package=sample.package,
            version=sample.version,
            path=sample.path,
            gpus=job.spec.gpus_per_node,
            rule=finding.rule,
            action=action,
            confidence=finding.confidence.value,
            line=finding.location.line if finding.location is not None else None,
            detail=finding.detail,
        )
        for action, findings in (("deny", verdict.denied), ("warn", verdict.warned), ("audit", verdict.audited))
        for finding in findings
    )
    return Judged(
        seconds=seconds,
        verdict=verdict.outcome.value,
        found=found,
        unfinished=verdict.unfinished,
        crashes=tuple(f"{rule}: {failure}" for rule, failure in verdict.failures),
    )


def judge_all(listed: Sequence[Sample]) -> list[Judged]:
    """Lint samples in a process of their own each few hundred, so that a crash of the interpreter is one, too."""
    with ProcessPoolExecutor(max_workers=1) as pool:
        return list(pool.map(judge, listed, chunksize=64))


def by_command(listed: Sequence[Sample]) -> tuple[list[str], float, int]:
    """Verdict per sample as `stoker lint --format json` gives it, the seconds that all took, the exit code."""
    for old in MANIFESTS.glob("*.yaml"):
        old.unlink()
    MANIFESTS.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(listed):
        (MANIFESTS / f"{number:05}.yaml").write_text(yaml.safe_dump(sample.manifest, sort_keys=False))
    start = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("stoker")), "lint", "--format", "json", str(MANIFESTS)],
        check=False,
        capture_output=True,
        timeout=COMMAND_TIMEOUT,
        text=True,
    )
    seconds = time.perf_counter() - start
    if "Traceback" in done.stderr or not done.stdout:
        raise RuntimeError(f"stoker lint failed: {done.stderr[-2000:]}")
    files = json.loads(done.stdout)["files"]
    verdicts = {int(Path(file["path"]).stem): file["verdict"] for file in files}
    return [verdicts.get(number, "skipped") for number in range(len(listed))], seconds, done.returncode


def keep(judged: Iterable[Judged]) -> None:
    """Write all findings where the sampling reads them."""
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    FOUND.write_text(json.dumps([asdict(found) for one in judged for found in one.found], indent=1))


def kept() -> list[Found]:
    """The findings of the last run."""
    return [Found(**entry) for entry in json.loads(FOUND.read_text())]


def summary(listed: Sequence[Sample], judged: Sequence[Judged]) -> str:
    """The run in figures, as Markdown."""
    times = sorted(one.seconds * 1000 for one in judged)
    percentiles = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    verdicts = Counter(one.verdict for one in judged)
    packages_seen = len({sample.package for sample in listed})
    crashes = sum(len(one.crashes) for one in judged)
    unfinished = sum(bool(one.unfinished) for one in judged)
    slow = sum(one.seconds > SLOW_SECONDS for one in judged)
    lines = [
        f"{len(judged)} job definitions of {packages_seen} packages: {_counted(verdicts)}.",
        f"Crashes: {crashes}. Not judged in full: {unfinished}. Over {SLOW_SECONDS:g} s of CPU: {slow}.",
        f"CPU milliseconds per review: p50 {percentiles[49]:.1f}, p99 {percentiles[98]:.1f}, most {times[-1]:.1f}.",
        "",
        "| rule | deny | warn | audit |",
        "|---|---|---|---|",
    ]
    counts: dict[str, Counter[str]] = {}
    for found in (found for one in judged for found in one.found):
        counts.setdefault(found.rule, Counter())[found.action] += 1
    lines += [
        f"| {rule} | {of['deny'] or ''} | {of['warn'] or ''} | {of['audit'] or ''} |"
        for rule, of in sorted(counts.items())
    ]
    faults = [
        f"- {sample.package} {sample.path}: {text}"
        for sample, one in zip(listed, judged, strict=True)
        for text in (*one.crashes, *one.violations, *(f"not judged: {rule}" for rule in one.unfinished[:1]))
    ]
    lines += faults[:SHOWN] + ([f"- and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else [])
    return "\n".join(lines)


def by_package(listed: Sequence[Sample], judged: Sequence[Judged]) -> str:
    """Samples and findings of each package, as Markdown."""
    counts: Mapping[tuple[str, str], Counter[str]] = {(one.package, one.version): Counter() for one in listed}
    for sample, one in zip(listed, judged, strict=True):
        of = counts[sample.package, sample.version]
        of["samples"] += 1
        of["findings"] += len(one.found)
    rows = [
        f"| {package} | {version} | {of['samples']} | {of['findings']} |" for (package, version), of in counts.items()
    ]
    return "\n".join(["| package | version | job definitions | findings |", "|---|---|---|---|", *rows])


def _counted(verdicts: Mapping[str, int]) -> str:
    return f"{verdicts['allow']} allowed, {verdicts['warn']} with warnings, {verdicts['deny']} denied"
