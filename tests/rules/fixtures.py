"""The fixtures of the rules: one file of YAML documents for each rule, one document for each case.

    # Why it is bad or good, in a comment.
    case: bad_half_of_the_gpus
    spec:
      gpusPerNode: 8
      script: |
        torchrun --nproc_per_node=4 train.py
    expected: |
      what the rule finds, word for word
    fixed:
      gpusPerNode: 8
      script: |
        torchrun --nproc_per_node=8 train.py

A case of an admission rule has the `spec` of a DLJob; what every job has (ENVELOPE, IMAGE) is filled in. A case about
another kind, or about something in the envelope, has a whole `manifest` instead, and then `fixed` is whole, too. A
document without `case` is the UtilizationPolicy by which the file's cases are judged. A case of a diagnosis rule is a
recording: tests/diagnosis/recording.py.

`EXPECT=write` in the environment makes the tests write `expected` and `fixed` anew. The text of a case is kept as it
stands, with its comments: fixes are made in the text.
"""

import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
WRITES = os.environ.get("EXPECT") == "write"
ENVELOPE = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata:
  name: fixture
  namespace: team
"""
IMAGE = "  image: registry.example.com/team/train:1.4\n"

_SEPARATOR = re.compile(r"^---\n", re.MULTILINE)
_SECTION = re.compile(r"^(?=\w+:)", re.MULTILINE)
"""Where a key of a document begins: only these stand at the start of a line."""


@dataclass(frozen=True, eq=False)
class Case:
    """One case of a rule, named `<rule>/<case>` as the tests are."""

    file: Path
    name: str
    text: str
    """The document, without its separator."""

    def __str__(self) -> str:
        return f"{self.rule}/{self.name}"

    @property
    def rule(self) -> str:
        """The rule that the case belongs to."""
        return self.file.stem

    @cached_property
    def document(self) -> dict[str, Any]:
        """The case as YAML has it."""
        document: dict[str, Any] = yaml.safe_load(self.text)
        return document

    @property
    def expected(self) -> str:
        """What is expected of the case, word for word; empty where the rule is silent."""
        return str(self.document.get("expected", ""))

    @cached_property
    def manifest(self) -> str:
        """The manifest that a user would write, as text. Raises KeyError for a case that has none."""
        sections = _sections(self.text)
        return _manifest(sections["spec"] if "spec" in sections else sections["manifest"])

    @property
    def fixed(self) -> str | None:
        """The manifest as `stoker lint --fix --unsafe-fixes` leaves it; None where the case does not say."""
        section = _sections(self.text).get("fixed")
        if section is None:
            return None
        return _manifest(section.replace("fixed:", "spec:" if "spec" in self.document else "manifest:", 1))

    def write_expected(self, text: str) -> None:
        """Put what is found into the file."""
        self._write("expected", f"expected: |\n{_indented(text)}" if text else 'expected: ""\n')

    def write_fixed(self, manifest: str) -> None:
        """Put a fixed manifest into the file."""
        if "spec" in self.document:
            body = manifest.removeprefix(f"{ENVELOPE}spec:\n").removeprefix(IMAGE)
        else:
            body = _indented(manifest)
        self._write("fixed", f"fixed:\n{body}")

    def _write(self, key: str, section: str) -> None:
        documents = _SEPARATOR.split(self.file.read_text())
        at = next(number for number, text in enumerate(documents) if _name(text) == self.name)
        sections = _sections(documents[at]) | {key: section}
        documents[at] = "".join(sections.values())
        self.file.write_text("---\n".join(documents))


def cases(wing: str, prefix: str = "") -> list[Case]:
    """The cases of all rules of a wing (`admission`, `diagnosis`) whose name begins so."""
    return [case for file in sorted((HERE / wing).glob("*.yaml")) for case in _of(file) if case.name.startswith(prefix)]


def find(wing: str, name: str) -> Case:
    """The case `<rule>/<case>`."""
    return next(case for case in cases(wing) if str(case) == name)


@cache
def policy(wing: str, rule: str) -> str | None:
    """The manifest of the policy by which the cases of a rule are judged; None where they need none."""
    texts = [text for text in _SEPARATOR.split((HERE / wing / f"{rule}.yaml").read_text()) if _name(text) is None]
    return texts[0] if texts else None


@cache
def _of(file: Path) -> tuple[Case, ...]:
    texts = _SEPARATOR.split(file.read_text())
    found = tuple(Case(file, name, text) for text in texts if (name := _name(text)) is not None)
    names = [case.name for case in found]
    assert all(name.startswith(("bad_", "good_")) for name in names), f"{file}: bad_ or good_ begins a name: {names}"
    assert len(names) == len(set(names)), f"{file}: two cases have the same name: {sorted(names)}"
    return found


def _name(text: str) -> str | None:
    section = _sections(text).get("case")
    return None if section is None else section.removeprefix("case:").strip()


def _sections(text: str) -> dict[str, str]:
    """The text of each key of a document, in order; what stands before the first belongs to the key ""."""
    head, *sections = _SECTION.split(text)
    return {"": head} | dict(_keyed(sections))


def _keyed(sections: list[str]) -> Iterator[tuple[str, str]]:
    for section in sections:
        yield section.partition(":")[0], section


def _manifest(section: str) -> str:
    """The manifest of a section `spec` or `manifest`."""
    key, body = section.split("\n", 1)
    if key == "manifest:":
        return textwrap.dedent(body)
    image = "" if re.search(r"^  image:", body, re.MULTILINE) else IMAGE
    return f"{ENVELOPE}spec:\n{image}{body}"


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")
