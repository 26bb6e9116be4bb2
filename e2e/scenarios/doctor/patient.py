"""An installation that is examined, and what is found of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from e2e.cluster.provider import Cluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs
from stoker.inspection.doctor.examination import CHECKS

SCHEMA = Path(__file__).parents[3] / "docs/schemas/doctor-v1.json"
ALL = frozenset(check.name for check in CHECKS)


@dataclass(frozen=True, kw_only=True)
class Patient:
    """The operator with its cluster, and a namespace with a job called `busy`."""

    operator: Operator
    jobs: DLJobs

    @property
    def cluster(self) -> Cluster:
        return self.operator.cluster

    def run(
        self,
        *arguments: str,
        prometheus: str | None = None,
        kubeconfig: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command as an administrator would."""
        where = f"--kubeconfig={kubeconfig or self.cluster.kubeconfig}"
        url = prometheus or self.cluster.prometheus_url
        given = [f"--prometheus={url}", f"--trial-namespace={self.jobs.namespace}", *arguments]
        command = [sys.executable, "-m", "stoker", "doctor", where, *given]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, env=os.environ | (env or {})
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def examine(self, *arguments: str, **options: Any) -> dict[str, dict[str, Any]]:
        """The checks by name, from JSON, which is as published."""
        done = self.run("-o", "json", *arguments, **options)
        document = json.loads(done.stdout)
        Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
        found = {one["name"]: one for one in document["checks"]}
        failed = any(one["status"] == "Failed" for one in found.values())
        assert done.returncode == (2 if found["api-server"]["status"] == "Failed" else int(failed)), done.stderr
        return found

    def ailing(self, **options: Any) -> dict[str, str]:
        """The checks that are not ok, with their status and what they found."""
        found = self.examine(**options)
        assert found.keys() == ALL
        return {name: f"{one['status']}: {one['found']}" for name, one in found.items() if one["status"] != "Ok"}

    def is_sound(self) -> bool:
        """Whether every check is ok."""
        ailing = self.ailing()
        assert ailing == {}, ailing
        return True

    def shows(self, name: str, status: str, *words: str, **options: Any) -> bool:
        """Whether a check ends so, with these words, and says what to do."""
        one = self.examine(**options)[name]
        assert one["status"] == status, one
        assert all(word in one["found"] for word in words), one
        assert (one["advice"] is not None) == (status in {"Warning", "Failed"}), one
        return True

    @contextmanager
    def changed(self, path: str, *changes: tuple[str, Any]) -> Iterator[None]:
        """An object of the API in which the values at some JSON pointers are others for a while."""
        before = self.cluster.api("GET", path)
        self.patch(path, changes)
        yield
        self.patch(path, [(pointer, _at(before, pointer)) for pointer, _ in changes])

    def patch(self, path: str, changes: Sequence[tuple[str, Any]]) -> None:
        """Set the values at some JSON pointers of an object."""
        body = [{"op": "add", "path": pointer, "value": value} for pointer, value in changes]
        self.cluster.api("PATCH", path, body, "application/json-patch+json")


def _at(found: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        plain = key.replace("~1", "/")
        found = found[int(plain)] if isinstance(found, list) else found[plain]
    return found
