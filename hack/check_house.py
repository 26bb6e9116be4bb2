"""Check the habits of this repository that no other tool knows: what files are called and what they never say.

Usage: python hack/check_house.py. Looks at the files that git tracks or would add; prints `path:line: what` for each
fault and exits 1 if there is one.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
SELF = PurePosixPath("hack/check_house.py")

VAGUE_NAMES = frozenset({"common", "constants", "helpers", "misc", "utils"})

SOURCE = r"\.(py|sh|md|toml|ya?ml|txt|json|mod|tpl)$|(^|/)(Makefile|run)$"
USER_INPUT = r"^tests/rules/\w+/|^examples/|^tests/compat/"
"""What users might submit may say anything."""


TEXT = r"""(\.|\[['"])(message|detail|evidence|reason|findings_?[sS]ummary)(['"]\])?"""
"""An attribute or a field that holds text for people. tests/controller/test_rewording.py proves that none is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """A pattern that no line of certain files may contain."""

    pattern: re.Pattern[str]
    files: re.Pattern[str]
    message: str


BANS = (
    Ban(
        pattern=re.compile(r"(?<![\w.$}/-])/(root|home/\w+|Users/\w+)/"),
        files=re.compile(SOURCE),
        message="a path of somebody's machine",
    ),
    Ban(
        pattern=re.compile("(?<![\\w.-])" + re.escape(str(ROOT)) + r"(?![\w-])"),
        files=re.compile(SOURCE),
        message="the path of this checkout",
    ),
    Ban(
        pattern=re.compile(r"://|--(extra-)?index-url|--find-links"),
        files=re.compile(r"^requirements/|/go\.(mod|sum)$"),
        message="a pin names no host: where packages come from is the machine's business",
    ),
    Ban(
        pattern=re.compile(r"GOPROXY=\S*\w\.\w|proxy\.golang\.org|goproxy\.|pythonhosted\.org|pypi\.org/simple"),
        files=re.compile(r"^(Makefile|pyproject\.toml|\.ci/|hack/|e2e/|docs/|README|CONTRIBUTING)"),
        message="a package index: where packages come from is the machine's business",
    ),
    Ban(
        pattern=re.compile(r"#\s*(noqa|type: ignore)(: [A-Z0-9, ]+|\[[\w, -]+\])?\s*$"),
        files=re.compile(r"\.py$"),
        message="an ignore without its reason (`# noqa: X999 - why`, `# type: ignore[code]  # why`)",
    ),
    Ban(
        pattern=re.compile(r"\b(time|asyncio)\.sleep\([1-9]\d?[.)]"),
        files=re.compile(r"(^|/)test_\w+\.py$"),
        message="a test waits for a condition, looking often, and not for a time",
    ),
    Ban(
        pattern=re.compile(r"%[HMS]|\.isoformat\("),
        # MicroTime of the API; the titles and pictures of reports; a chart's axis; log lines.
        files=re.compile(
            r"^operator/src/stoker/(?!findings/finding|adapters/kubernetes/events|report/formats/(words|pictures)"
            r"|inspection/picture|cli/run)[\w/]+\.py$"
        ),
        message="a time in a form of its own: findings.finding.rfc3339 writes it",
    ),
    Ban(
        pattern=re.compile(
            rf"{TEXT}\.(startswith|endswith|r?partition|r?split|remove(prefix|suffix)|r?find|r?index|count)\("
            rf"|\bre\.\w+\([^)]*{TEXT}|\.(search|(full)?match|findall|finditer)\([^)]*{TEXT}"
            r"|\bin \w+\.(message|detail|reason)\b"
        ),
        # The API server's messages, of which the known parts are quoted, are all that there is to read.
        files=re.compile(r"^operator/src/stoker/(?!controller/api_refusals\.py$).*\.py$"),
        message="code reads a text for people: give what it says a field of its own",
    ),
    Ban(
        pattern=re.compile(
            r"\b(def|class) (_?(said|told|tell|glance|told_of\w*)|milestones|Showings|Witness|said_nodes|tell_all)\b"
        ),
        # The demonstration tells a story, in these words.
        files=re.compile(r"^(operator/src|tests|benchmarks|simulator|e2e/(?!demo/)).*\.py$"),
        message="a name that does not say what it is: name what it returns or does",
    ),
)


PHRASES: tuple[tuple[str, str], ...] = (
    (r"\bis none\b", "say what it is not, or what is missing: `is not a kubeconfig: it has no clusters`"),
    (r"\banew\b", "again, or from the beginning"),
    (r"\b(nothing|nobody|who) (is|are|was) told\b|\btold of\b", "is reported, is notified"),
    (r"\bcounts? nowhere\b", "is in force nowhere, has no effect"),
    (r"\b(the|its) deeds?\b", "the action: suspend or delete"),
    (r"\bby a fault of\b", "because of an internal error in Stoker"),
    (r"\b(is|are) taken (to|for)\b", "is assumed to, counts as"),
    (r"\blooks? at the metrics\b", "a scan of the metrics"),
    (r"\b(puts?|was|is) put off\b|\bput (it|that|a reclaim) off\b", "snoozed, postponed"),
    (r"\bstands? warned\b", "is under warning"),
    (r"\bis no (name|number|duration|address|time zone|quantity|key|image reference)\b", "is not a ..."),
)
"""What no text for users says, and what to say instead (docs/glossary.md)."""
MESSAGES: tuple[tuple[str, str], ...] = (
    *PHRASES,
    (r"\b(?-i:nobody)\b(?= [a-z])", "no user, no pod, no address: say which"),
)
"""What messages do not say, either."""

PAGES = re.compile(r"^(README\.md$|docs/[^/]+\.md$|charts/.+\.(txt|tpl|yaml)$)")
SOURCES = re.compile(r"^operator/src/stoker/.+\.py$")
FIELDS = re.compile(r"^operator/src/stoker/api/")
"""Where a docstring is a field's description."""


def listed_files() -> list[PurePosixPath]:
    """Every file of the working tree that is tracked or would be, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(PurePosixPath(name) for name in set(output.split("\0")) - {""} if (ROOT / name).is_file())


def name_faults(path: PurePosixPath) -> Iterator[str]:
    """What is wrong with a file's name or place."""
    if str(path) == "operator/__init__.py":
        yield f"{path}:1: it would shadow the standard library's `operator`"
    if path.suffix == ".py":
        for part in {*path.parent.parts, path.stem} & VAGUE_NAMES:
            yield f"{path}:1: {part!r} says nothing about what is inside"


def text_faults(path: PurePosixPath) -> Iterator[str]:
    """What a file says and should not."""
    bans = [ban for ban in BANS if ban.files.search(str(path))]
    if not bans or path == SELF or path.suffix == ".png" or re.search(USER_INPUT, str(path)):
        return
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), start=1):
        for ban in bans:
            if found := ban.pattern.search(line):
                yield f"{path}:{number}: {found.group().strip()!r}: {ban.message}"


def phrase_faults(path: PurePosixPath) -> Iterator[str]:
    """Where a text that users read has one of the phrases of PHRASES: pages, and the strings of the sources."""
    if PAGES.search(str(path)):
        phrases, texts = PHRASES, list(enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), start=1))
    elif SOURCES.search(str(path)):
        source, described = (ROOT / path).read_text(encoding="utf-8"), bool(FIELDS.search(str(path)))
        phrases, texts = MESSAGES, list(_strings(source, descriptions=described))
    else:
        return
    for number, text in texts:
        for pattern, better in phrases:
            if found := re.search(pattern, text, re.IGNORECASE):
                yield f"{path}:{number}: {found.group()!r} in a text for users: {better}"


def _strings(source: str, *, descriptions: bool) -> Iterator[tuple[int, str]]:
    """The strings of a Python source with their lines; docstrings only with `descriptions`."""
    tree = ast.parse(source)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (descriptions or node not in docstrings):
            yield node.lineno, " ".join(node.value.split())


def main() -> int:
    """Print every fault; 1 if there is one."""
    files = listed_files()
    faults = [fault for path in files for fault in (*name_faults(path), *text_faults(path), *phrase_faults(path))]
    for fault in faults:
        print(fault)
    print(f"{len(files)} files, {len(faults)} against the house rules")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
