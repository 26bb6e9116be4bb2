"""What `stoker diagnose --trace` prints: text for people, and JSON by docs/schemas/diagnose-trace-v1.json."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from stoker.adapters.terminal import Terminal, clean, styled
from stoker.diagnosis.operations.causes import TraceDiagnosis, TraceFinding
from stoker.findings.json_document import rounded, write_json
from stoker.findings.vocabulary import Category, Severity
from stoker.findings.wording import count, percent
from stoker.inspection.text import MIN_WIDTH, wrapped

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it, a new field doesn't."""
DECIMALS = 4
"""Decimals of seconds and hours: traces are minutes long."""
PAGE = "stoker rules show straggler"


def render_text(path: str, diagnosis: TraceDiagnosis, terminal: Terminal) -> str:
    """The findings for people, the costliest first."""
    return "\n".join(_lines(path, diagnosis, terminal)) + "\n"


def _lines(path: str, diagnosis: TraceDiagnosis, terminal: Terminal) -> Iterator[str]:
    style, width = partial(styled, terminal=terminal), max(terminal.width, MIN_WIDTH)
    yield style(clean(path), bold=True)
    yield from wrapped("", _headline(diagnosis), width)
    for note in diagnosis.notes:
        yield from wrapped("note: ", note, width)
    for number, finding in enumerate(diagnosis.findings, start=1):
        yield ""
        head = f"[{number}] {style('warning[straggler]', colour='yellow', bold=True)} "
        yield from wrapped(head, f"{finding.cause}, {finding.confidence.value.lower()}: {finding.detail}", width)
        for line in (finding.evidence, _saving(finding, diagnosis.gpu_hours)):
            yield from wrapped("    | ", line, width)
        for line in (finding.fix, PAGE):
            yield from wrapped(f"    {style('=', colour='blue')} ", line, width)
    yield ""
    yield from wrapped("", _conclusion(diagnosis), width)


def _headline(diagnosis: TraceDiagnosis) -> str:
    trace = diagnosis.trace
    each = f", {trace.ranks_each} GPUs a stage" if trace.ranks_each > 1 else ""
    shape = f"{count(trace.replicas, 'replica')} of {count(trace.stages, 'pipeline stage')}{each}"
    length = f"{count(trace.steps, 'step')} of {_seconds(diagnosis.step_seconds)} on average"
    return f"{count(trace.gpus, 'GPU')}: {shape}; {length}; {_hours(diagnosis.gpu_hours)}"


def _conclusion(diagnosis: TraceDiagnosis) -> str:
    if not diagnosis.reliable:
        return "no finding: the trace does not show enough of its steps"
    if not diagnosis.findings:
        return "no finding"
    hours = diagnosis.recoverable_hours
    share = percent(100 * hours / diagnosis.gpu_hours)
    without = "this" if len(diagnosis.findings) == 1 else "all of this"
    return (
        f"without {without} a step takes {_seconds(diagnosis.equal_seconds)}, which saves {share} of the GPU time: "
        f"{_hours(hours)}"
    )


def _saving(finding: TraceFinding, hours: float) -> str:
    """The saving as a share of the GPU time, of which the recorded steps are a sample."""
    low, high = finding.recoverable.min, finding.recoverable.max
    shares = [percent(100 * bound / hours) for bound in (low, high)]
    if shares[0] == shares[1]:
        return f"{shares[0]} of the GPU time recoverable: {finding.recoverable.basis}"
    share = f"{shares[0]} to {shares[1]} of the GPU time"
    return f"{share} recoverable, depending on what is changed first: {finding.recoverable.basis}"


def _hours(hours: float) -> str:
    return f"{hours:.{1 if hours >= 1 else 3}f} GPU-hours"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def render_json(path: str, diagnosis: TraceDiagnosis) -> str:
    """Everything, for programs."""
    trace = diagnosis.trace
    return write_json(
        {
            "version": VERSION,
            "trace": clean(path),
            "gpus": trace.gpus,
            "replicas": trace.replicas,
            "pipelineStages": trace.stages,
            "steps": trace.steps,
            "stepSeconds": _number(diagnosis.step_seconds),
            "replayedStepSeconds": _number(diagnosis.replayed_seconds),
            "equalStepSeconds": _number(diagnosis.equal_seconds),
            "gpuHours": _number(diagnosis.gpu_hours),
            "gpuHoursRecoverable": _number(diagnosis.recoverable_hours),
            "findings": [_finding(finding) for finding in diagnosis.findings],
            "notes": list(diagnosis.notes),
        }
    )


def _finding(finding: TraceFinding) -> dict[str, Any]:
    return {
        "category": Category.STRAGGLER.value,
        "cause": finding.cause.value,
        "rule": "straggler",
        "severity": Severity.WARNING.value,
        "confidence": finding.confidence.value,
        "ranks": list(finding.ranks),
        "pipelineStages": list(finding.stages),
        "detail": finding.detail,
        "evidence": finding.evidence,
        "fix": finding.fix,
        "recoverable": {
            "min": _number(finding.recoverable.min),
            "max": _number(finding.recoverable.max),
            "basis": finding.recoverable.basis,
        },
    }


def _number(value: float | None) -> float | None:
    return rounded(value, DECIMALS)


__all__ = ["render_json", "render_text"]
