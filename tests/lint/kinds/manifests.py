"""Manifests of the kinds' tests: read from YAML, judged by the built-in policy."""

from datetime import UTC, datetime
from textwrap import dedent

import yaml

from stoker.lint.files.judgement import Judge, referred_objects
from stoker.lint.files.manifests import parse
from stoker.lint.files.results import Entry, Report, Skipped
from stoker.lint.files.selection import select
from stoker.lint.kinds.registry import submissions
from stoker.lint.submission import Submission

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> list[Submission]:
    """What the rules see of a manifest."""
    return submissions(yaml.safe_load(dedent(text)))


def judged(text: str) -> list[Report | Skipped]:
    """What `stoker lint` says of each document."""
    manifests = list(parse(dedent(text), "train.yaml"))
    judge = Judge(selection=select(), now=NOW, objects=referred_objects(manifests))
    return [judge.judge(manifest) for manifest in manifests]


def findings(text: str) -> list[Entry]:
    """What is found in all documents; none of them may be skipped for its version."""
    found = judged(text)
    assert not any("not read" in one.reason for one in found if isinstance(one, Skipped)), found
    return [entry for one in found if isinstance(one, Report) for entry in one.entries]


def faults(text: str) -> list[tuple[str, str]]:
    """Rule and field of each finding."""
    return [(entry.rule, entry.field_path) for entry in findings(text)]


def skipped(text: str) -> list[str]:
    """Why documents were skipped."""
    return [one.reason for one in judged(text) if isinstance(one, Skipped)]
