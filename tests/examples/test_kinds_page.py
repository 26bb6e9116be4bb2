"""The kind that docs/kinds.md adds works as the page says, on a copy of the code to which its steps are applied."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kinds.md").read_text()
STEPS = PAGE[PAGE.index("## Adding a kind") :]
GROUPING = """
import json, sys
from stoker.workload.pod_groups import groups
print(json.dumps([[one.kind, one.name, len(one.roles())] for one in groups(json.load(sys.stdin))]))
"""
LABEL = "elasticjob.dlrover"


def block(language: str) -> str:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", STEPS, re.DOTALL | re.MULTILINE)
    (text,) = (text for name, text in blocks if name == language)
    return str(text)


def applied(text: str, diff: str) -> str:
    """The text with the lines that a diff adds, each after the one that stands above it."""
    for line, added in re.findall(r"^ (.*\n)\+(.*\n)", diff, re.MULTILINE):
        assert text.count(f"\n{line}") == 1, line
        text = text.replace(f"\n{line}", f"\n{line}{added}")
    return text


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code with the kind."""
    code = tmp_path_factory.mktemp("code")
    kinds = code / "stoker" / "lint" / "kinds"
    shutil.copytree(ROOT / "operator/src/stoker", code / "stoker", ignore=shutil.ignore_patterns("__pycache__"))
    (path,) = re.findall(r"Save this as `operator/src/(stoker/lint/kinds/\w+\.py)`", STEPS)
    assert not (code / path).exists(), "the page shows a kind that Stoker has: choose another one"
    (code / path).write_text(block("python"))
    registry = kinds / "registry.py"
    registry.write_text(applied(registry.read_text(), block("diff")))
    return code


def run(changed: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(changed), "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        env=environment,
        cwd=changed,
        check=False,
    )


def test_the_shown_manifest_gets_the_shown_answer(changed: Path) -> None:
    (changed / "train.yaml").write_text(block("yaml"))
    answer = run(changed, "-m", "stoker", "lint", "train.yaml")
    assert (answer.stdout + answer.stderr).rstrip() == block("").rstrip()


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("replicas: 4", "replicas: many", "spec.replicaSpecs.worker.replicas"),
        ("command: [", "comand: [", "did you mean command?"),
        ("replicaSpecs:", "podSpecs:", "spec.replicaSpecs"),
        ("worker:", "worker: {}\n    ps:", "spec.replicaSpecs.worker.template"),
    ],
)
def test_a_manifest_that_breaks_its_schema_is_reported_with_the_field(
    changed: Path, old: str, new: str, said: str
) -> None:
    (changed / "wrong.yaml").write_text(block("yaml").replace(old, new, 1))
    answer = run(changed, "-m", "stoker", "lint", "wrong.yaml")
    assert (said in answer.stdout + answer.stderr, "Traceback" in answer.stderr) == (True, False), answer


def test_its_pods_are_one_group(changed: Path) -> None:
    pods = [
        {
            "metadata": {
                "name": f"resnet-worker-{rank}",
                "namespace": "vision",
                "creationTimestamp": "2026-11-21T06:00:00Z",
                "labels": {
                    f"{LABEL}/name": "resnet",
                    f"{LABEL}/replica-type": "worker",
                    f"{LABEL}/rank-index": str(rank),
                },
                "ownerReferences": [{"controller": True, "kind": "ElasticJob", "name": "resnet", "uid": "u"}],
            },
            "spec": {"containers": [{"name": "tensorflow", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        }
        for rank in range(4)
    ]
    answer = run(changed, "-c", GROUPING, given=json.dumps(pods))
    assert json.loads(answer.stdout) == [["ElasticJob", "resnet", 1]], answer.stderr


def test_every_file_that_the_steps_name_is_there() -> None:
    paths = set(re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|yaml))`", STEPS))
    missing = [path for path in paths if not any((top / path).exists() for top in (ROOT, ROOT / "operator/src/stoker"))]
    assert missing == ["operator/src/stoker/lint/kinds/elastic_job.py"]
