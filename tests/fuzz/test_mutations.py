"""Manifests, reviews and scripts with damages anywhere: each is judged or refused in plain words."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import ValidationError

from stoker.admission.admission_review import AdmissionRequest, NotAReviewError
from stoker.admission.judgement import judge
from stoker.api.dljob import DLJob
from stoker.lint.files.manifests import InputError, parse
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN
from tests.admission import malformed_reviews
from tests.admission.malformed_reviews import OBJECT
from tests.fuzz.shell_grammar import broken_scripts
from tests.rules.fixtures import cases

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MANIFESTS = [case.manifest for case in cases("admission")]
LENIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(LENIENT, max_examples=40, derandomize=True)
MANY = settings(LENIENT, max_examples=5_000)


def judged(job: DLJob) -> None:
    """Review a job; no rule may fail."""
    assert review(job, BUILT_IN, now=NOW, clock=lambda: 0.0).failures == ()


# ------------------------------------------------------------------------------------------------------------- scripts


def follow(script: str) -> None:
    try:
        job = DLJob.model_validate({**OBJECT, "spec": {**OBJECT["spec"], "script": script}})
    except ValidationError:
        return
    judged(job)


@FEW
@given(broken_scripts())
def test_a_broken_script_is_reviewed(script: str) -> None:
    follow(script)


@pytest.mark.long
@MANY
@given(broken_scripts())
def test_many_broken_scripts_are_reviewed(script: str) -> None:
    follow(script)


# ----------------------------------------------------------------------------------------------------------- manifests

_YAML = st.sampled_from(
    [": ", "- ", "\n", "  ", "\t", "{", "}", "[", "]", "&a ", "*a", "!!int ", "!x ", "|", ">-", "'", '"', "#", "? ",
     "---\n", "...\n", "<<: *a\n", "null", "~", ".inf", "0x", "1e999", "\r", "\0", "\u2028", "\ufeff",
     "%YAML 9.9\n", "\\ud800", "@"]
)  # fmt: skip


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """A rule's fixture with characters cut out and pieces of YAML put in."""
    text = draw(st.sampled_from(MANIFESTS))
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(_YAML) + text[place + draw(st.integers(0, 12)) :]
    return text


def read(text: str) -> None:
    try:
        documents = parse(text, "x.yaml")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most texts are refused, some are not
        return
    for document in documents:
        document.locate("spec.env[0].value")
        document.locate_text("spec.script", 1, 1)
        try:
            job = DLJob.model_validate(document.value)
        except ValidationError:
            continue
        judged(job)


@FEW
@given(manifests())
def test_a_damaged_manifest_is_read_or_refused_in_one_line(text: str) -> None:
    read(text)


@pytest.mark.long
@MANY
@given(manifests())
def test_many_damaged_manifests_are_read_or_refused_in_one_line(text: str) -> None:
    read(text)


# ------------------------------------------------------------------------------------------------------------- reviews

_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["UPDATE", "DELETE", "8", "trainer", "nvidia.com/gpu", "\0", "$(A)", "x" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_FULL = {
    **OBJECT,
    "spec": {
        **OBJECT["spec"],
        "nodes": 2,
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"cpu": "8"}},
        "podTemplate": {
            "spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
                "containers": [{"name": "trainer", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
            }
        },
    },
}


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """An AdmissionReview in which some values are others, or gone."""
    document = malformed_reviews.review("UPDATE", new=copy.deepcopy(_FULL), old=copy.deepcopy(_FULL))
    for _ in range(draw(st.integers(1, 4))):
        parent: Any = document["request"]
        while True:
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(parent[key], dict | list) and draw(st.integers(0, 5)):
                parent = parent[key]
                continue
            if isinstance(parent, dict) and draw(st.integers(0, 3)) == 0:
                del parent[key]
            else:
                parent[key] = draw(_JSON)
            break
    return document


def answered(document: dict[str, Any]) -> None:
    try:
        request = AdmissionRequest.read(json.dumps(document).encode())
    except NotAReviewError as error:
        assert "\n" not in str(error)  # noqa: PT017 - some are reviews
        return
    if request.new_object is None:
        return
    *_, last = judge(request, BUILT_IN, NOW)
    response = json.loads(last.write(request))["response"]
    assert response["uid"] == request.uid
    assert response["allowed"] or response["status"]["message"]


@FEW
@given(reviews())
def test_a_damaged_review_is_answered_or_refused_in_one_line(document: dict[str, Any]) -> None:
    answered(document)


@pytest.mark.long
@MANY
@given(reviews())
def test_many_damaged_reviews_are_answered_or_refused_in_one_line(document: dict[str, Any]) -> None:
    answered(document)
