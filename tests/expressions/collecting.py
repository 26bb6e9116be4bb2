"""Every regular expression of the package: as its modules are imported, as it works, and as its source has them.

Run as a program, in an interpreter of its own, so that no module is imported before `re` is watched:
`python -m tests.expressions.collecting` prints them as JSON.
"""

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "src" / "stoker"
WAYS = ("fullmatch", "match", "search", "finditer")
"""How an expression may be laid on a text; `findall`, `split` and `sub` do as `finditer` does. Of the last three each
does what the one before it does, and more.
"""
ANY_WAY = ("fullmatch", "finditer")
USED = {"match": "match", "fullmatch": "fullmatch", "search": "search"} | dict.fromkeys(
    ("finditer", "findall", "split", "sub", "subn"), "finditer"
)


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """A call of `re` in the source: `module` relative to the package, the lines that it takes, the function's name.

    ways: how what it makes is laid on texts.
    """

    module: str
    line: int
    end: int
    function: str
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Expression:
    """One expression, and one of the calls that make it."""

    pattern: str
    flags: int
    module: str
    line: int
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """All expressions, and the calls of which none was seen."""

    expressions: list[Expression]
    unseen: list[str]
    other_uses: list[str]


# ----------------------------------------------------------------------------------------------------------- the source


@cache
def texts() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def sources() -> dict[str, ast.Module]:
    return {module: ast.parse(text) for module, text in texts().items()}


def modules() -> list[str]:
    """The modules that call `re`, by a look at their text, which costs much less than their trees."""
    call = re.compile(rf"(?<![\w.])re\.(?:compile|{'|'.join(USED)})\(")
    return [module for module, text in texts().items() if call.search(text)]


@cache
def parents(module: str) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(sources()[module]) for child in ast.iter_child_nodes(node)}


@cache
def read_names(module: str) -> dict[str, list[ast.AST]]:
    """Each name that a module reads, as a name or as an attribute, and what surrounds it."""
    found: dict[str, list[ast.AST]] = {}
    for node, around in parents(module).items():
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                found.setdefault(name, []).append(around)
    return found


@cache
def imported(module: str) -> frozenset[str]:
    """The names that a module takes from others."""
    imports = (node for node in ast.walk(sources()[module]) if isinstance(node, ast.ImportFrom))
    return frozenset(each.name for node in imports for each in node.names)


def calls() -> Iterator[tuple[Call, ast.Call]]:
    """Every call of a function of `re` that takes an expression."""
    for module, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (function := _function(node)) is not None:
                ways = (USED[function],) if function in USED else _ways(module, node)
                yield Call(module, node.lineno, node.end_lineno or node.lineno, function, ways), node


def _function(node: ast.Call) -> str | None:
    """The name of the function of `re` that a call calls; of those that take an expression."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name) if name == "compile" or name in USED:
            return name
    return None


def other_uses() -> list[str]:
    """Where `re` is used in a way that is not looked through: another name for it, for a function, another engine."""
    found = []
    for module, tree in sources().items():
        known = {"compile", "escape", "error", "Match", "Pattern", *USED, *re.RegexFlag.__members__}
        called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    odd = any(
                        each.name in ("regex", "sre_compile") or (each.name == "re" and each.asname) for each in names
                    )
                case ast.ImportFrom(module="re" | "regex" | "sre_compile"):
                    odd = True
                case ast.Attribute(value=ast.Name(id="re"), attr=name):
                    odd = name not in known or ((name == "compile" or name in USED) and node not in called)
                case _:
                    continue
            if odd:
                found.append(f"{module}:{node.lineno} {ast.unparse(node)}")
    return found


def _is_odd(module: str, imported: ast.alias) -> bool:
    """Whether an import brings another engine, but for users' own expressions, or `re` by another name."""
    if imported.name == "re2":
        return module != "shell/interpreter/regex.py"
    return imported.name == "regex" or (imported.name == "re" and imported.asname is not None)


def _ways(module: str, node: ast.Call) -> tuple[str, ...]:
    """How a compiled expression is used: by its methods, or in any way where it is handed on."""
    match parents(module)[node]:
        case ast.Attribute(attr=name) if name in USED:
            return (USED[name],)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return _uses(module, name)
    return ANY_WAY


def _uses(module: str, name: str) -> tuple[str, ...]:
    found = set[str]()
    places = [where for where, text in texts().items() if where == module or (name in text and name in imported(where))]
    for around in (each for where in places for each in read_names(where).get(name, ())):
        match around:
            case ast.Attribute(attr=attribute) if attribute in USED:
                found.add(USED[attribute])
            case ast.Attribute(attr="pattern"):
                pass
            case _:
                return ANY_WAY
    hardest = max((WAYS.index(way) for way in found), default=0)
    return tuple(way for way in WAYS if way in found and WAYS.index(way) in (0, hardest))


# -------------------------------------------------------------------------------------------------------- the collector


class Watch:
    """What `re` is given, and from where in the package."""

    def __init__(self) -> None:
        self.seen = set[tuple[str, int, str, str, int]]()
        self._compile: Callable[..., Any] = re._compile  # type: ignore[attr-defined]  # all functions of `re` call it

    def __enter__(self) -> "Watch":
        re._compile = self._watched  # type: ignore[attr-defined]  # as above
        return self

    def __exit__(self, *_: object) -> None:
        re._compile = self._compile  # type: ignore[attr-defined]  # as above

    def _watched(self, pattern: Any, flags: int) -> Any:
        compiled = self._compile(pattern, flags)
        frame: FrameType = sys._getframe(1)
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(str(PACKAGE)):
            text = compiled.pattern if isinstance(compiled.pattern, str) else compiled.pattern.decode("latin-1")
            module = str(Path(caller.f_code.co_filename).relative_to(PACKAGE))
            self.seen.add((module, caller.f_lineno, frame.f_code.co_name, text, compiled.flags & ~re.DEBUG))
        return compiled


def _written(node: ast.Call, module: str) -> tuple[str, int] | None:
    """An expression as the source has it, where it is made of constants and of names of its module."""
    name = "stoker." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = vars(importlib.import_module(name))
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    try:
        pattern = eval(ast.unparse(node.args[0]), dict(names))
        flags = eval(ast.unparse(given["flags"]), dict(names)) if "flags" in given else 0
        if len(node.args) > 1 and isinstance(node.func, ast.Attribute) and node.func.attr == "compile":
            flags = eval(ast.unparse(node.args[1]), dict(names))
    except NameError:
        return None
    if isinstance(pattern, re.Pattern):
        return None
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    return text, re.compile(pattern, flags).flags


def collect(work: Callable[[], None]) -> Collected:
    """The expressions that the package compiles when it is imported and when it works, and those of its source."""
    import stoker

    with Watch() as watch:
        for module in pkgutil.walk_packages(stoker.__path__, "stoker."):
            importlib.import_module(module.name)
        work()
    expressions = set[Expression]()
    unseen = []
    for call, node in calls():
        found = {
            (pattern, flags)
            for module, line, function, pattern, flags in watch.seen
            if module == call.module and call.line <= line <= call.end and function == call.function
        }
        written = _written(node, call.module)
        found |= set() if written is None else {written}
        if not found:
            unseen.append(f"{call.module}:{call.line} {ast.unparse(node)}")
        expressions |= {Expression(pattern, flags, call.module, call.line, call.ways) for pattern, flags in found}
    return Collected(sorted(expressions), unseen, other_uses())


def collected() -> Collected:
    """What a fresh interpreter collects."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.expressions.collecting"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    return Collected(
        expressions=[Expression(**{**one, "ways": tuple(one["ways"])}) for one in answer["expressions"]],
        unseen=answer["unseen"],
        other_uses=answer["other_uses"],
    )


def review_fixtures() -> None:
    """Review what every rule speaks of, and check the word lists: it compiles what is put together at run time."""
    from stoker.lint.word_lists import loader
    from tests.rules.test_admission_rules import BAD, verdict

    for name in loader.NAMES:
        loader.read_word_list(Path(loader.__file__).parent / f"{name}.toml", loader.schema(name))
    for case in BAD:
        verdict(case)


if __name__ == "__main__":
    json.dump(asdict(collect(review_fixtures)), sys.stdout)
