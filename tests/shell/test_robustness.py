"""Whatever is submitted: the interpreter ends soon, never raises, and says what it could not follow."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.lint.kinds.image_reference import ImageReferenceError, classify, parse
from stoker.lint.launch.plan import plan
from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.model import ShellScript
from stoker.shell.script import expand_kubernetes, read_argv, read_script

BUDGET = 10.0
"""Seconds of processor time: far above what any of these takes (under one), far below what a blow-up takes."""

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def follow(source: str) -> ShellScript:
    """Everything that a review does with a script."""
    started = time.process_time()
    script = read_script(source, environment={"A": "1", "B": None}, gpus_per_node=8)
    result = plan(script, nodes=2, gpus_per_node=8)
    for command in result.commands[:50]:
        for word in command.invocation.argv[:20]:
            if word.span is not None:
                excerpt = script.excerpt(word.span)
                assert "\n" not in excerpt.text
                assert 1 <= word.span.line <= source.count("\n") + 1
    assert time.process_time() - started < BUDGET
    return script


SCRIPTS = [path.read_bytes().decode() for path in sorted((Path(__file__).parent / "scripts").glob("*.sh"))]

HOSTILE = {
    "parentheses": "(" * 60_000,
    "substitutions": "$(" * 30_000,
    "quoted substitutions": '"$(' * 20_000,
    "backquotes": "`" * 60_001,
    "open ifs": "if true; then " * 4_000,
    "closed ifs": "if a; then " * 4_000 + "b" + "; fi" * 4_000,
    "elifs": "if a; then b; " + "elif c; then d; " * 4_000 + "fi",
    "braces": "{ " * 30_000,
    "nested whiles": "while [ $x ]; do " * 200 + "a" + "; done" * 200,
    "nested loops": "for i in 1 2 3 4 5 6 7 8 9; do " * 30 + "a" + "; done" * 30,
    "three loops": "for i in {1..60}; do for j in {1..60}; do for k in {1..60}; do a $i$j$k; done; done; done",
    "nested defaults": "a " + "${x:-" * 8_000 + "}" * 8_000,
    "nested arithmetic": "a $((" + "(" * 20_000 + "1" + ")" * 20_000 + "))",
    "long arithmetic": "a $((1" + "+1" * 30_000 + "))",
    "long and": "a && " * 13_000 + "b",
    "long or of questions": "[ $x ] || " * 6_000 + "b",
    "long pipe": "a|" * 30_000 + "b",
    "here-documents": "cat <<A\n" * 8_000,
    "doubling": "x=a\n" + 'x="$x$x"\n' * 60 + "a $x",
    "doubling in a loop": 'x=aa; while [ -n "$x" ]; do x="$x$x"; done',
    "recursion": "f() { f; f; }; f",
    "mutual recursion": "f() { g $1$1; }; g() { f $1x; f; }; f a",
    "eval of itself": 'e=\'eval "$e"; eval "$e"\'; eval "$e"',
    "shell in shell": 'x=\'bash -c "$x"; bash -c "$x"\'; export x; bash -c "$x"',
    "script that runs itself": "cat > a.sh <<'E'\nsource a.sh; bash a.sh; ./a.sh\nE\nbash a.sh",
    "brace words": "a " + "{a,b}" * 500,
    "open braces": "a " + "{" * 30_000,
    "brace range": "a {1..999999} {1..9999999999}",
    "pattern": "x=" + "a" * 4_000 + "; b ${x%%" + "*a" * 100 + "}",
    "replacement": "x=" + "ab" * 20_000 + "; b ${x//a/bbbbbbbbb}",
    "case items": "case $x in " + "a) b;; " * 5_000 + "esac",
    "many unknown additions": "\n".join(f"[ -f x{i} ] && a=$a{i}" for i in range(2_500)) + "\nb $a",
    "many exports": "\n".join(f"export V{i}=1; c{i}" for i in range(2_500)),
    "array": "a=(" + "a " * 25_000 + ")\nfor i in ${a[@]}; do b $i; done",
    "test": "[ " + "a -o " * 10_000 + "b ]",
    "negated test": "[[ " + "! " * 10_000 + "b ]]",
    "test in parentheses": "[[ " + "( " * 8_000 + "b" + " )" * 8_000 + " ]]",
    "wrappers": "nohup " * 10_000 + "a",
    "assignments": "A=1 " * 15_000,
    "redirections": "a " + "> b " * 15_000,
    "functions": "f() { " * 5_000,
    "escapes": "\\" * 60_000,
    "continuations": "\\\n" * 30_000,
    "double quotes": '"' * 60_001,
    "single quotes": "'" * 60_001,
    "NUL": "\0" * 60_000,
    "NUL within": "a\0b\n" * 5_000,
    "control characters": "\x01\x02\x1b" * 20_000,
    "lone surrogates": "a '\udc80\ud800' \udfff\n" * 3_000,
    "emoji": "a '😀' 😀\n" * 3_000,
    "tabs": "\t" * 60_000,
    "carriage returns": "a b\r\n" * 8_000,
    "one word": "a" * 65_536,
    "a mebibyte": "a b c\n" * 180_000,
    "nested items": "xargs " * 10_000 + "a",
    "nested finds": "find -exec " * 5_000 + "a ;",
    "items in items": "seq 9 | xargs -I{} sh -c 'seq 9 | xargs -I{} a {}'\n" * 1_200,
    "placeholders": "parallel " + "{} " * 20_000,
    "coprocesses": "coproc " * 9_000 + "a",
    "associative array": "declare -A m\n" + "".join(f"m[k{i}]=1\n" for i in range(6_000)),
    "indexed array": "".join(f"x[{i}]=1\n" for i in range(6_000)),
    "transformed arrays": "x=(" + "a " * 1_000 + ")\n" + 'y=("${x[@]/a/b}")\n' * 400,
    "references": "".join(f"declare -n a{i}=a{i + 1}\n" for i in range(3_000)) + "a0=1\n",
    "read in read": "while read i; do while read j; do a $i; done <<< $'"
    + "1\\n" * 200
    + "'; done <<< $'"
    + "1\\n" * 3_000
    + "'",
    "regular expression": "[[ " + "a" * 250 + " =~ " + "a?" * 40 + "a*a*a*b ]] && x",
    "options": "while getopts ab:c x " + "-a " * 5_000 + "; do :; done",
    "written files": "".join(f"echo x > f{i}\n" for i in range(4_000)),
    "long output": "x=" + "a," * 20_000 + "\n" + "y=$(echo $x | tr , b)\n" * 300,
    "long words": "x=" + "a," * 20_000 + "\n" + "a $x\n" * 3_000,
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_scripts_end_soon(name: str) -> None:
    follow(HOSTILE[name])


@pytest.mark.parametrize(
    "name", ["closed ifs", "recursion", "eval of itself", "shell in shell", "three loops", "NUL", "a mebibyte"]
)
def test_what_was_cut_short_is_told(name: str) -> None:
    assert not follow(HOSTILE[name]).complete


def test_rounds_that_only_try_again_are_followed_once() -> None:
    """`for _ in {1..60}` waits for something; 60 rounds in each of many calls would cost a second."""
    script = read_script("for _ in {1..60}; do try && break; sleep 10; done\ngo", environment={}, gpus_per_node=1)
    assert [(one.name, one.certain) for one in script.invocations] == [("try", True), ("sleep", False), ("go", True)]


PIECES = st.sampled_from(
    [
        "torchrun", "python", "--nproc_per_node", "=", "4", "$N", "${N:-8}", "${N", "$((N+1))", "$(cmd", ")", "`",
        '"', "'",
        "\\", "\n", ";", "&", "&&", "||", "|", "(", "{", "}", "if", "then", "else", "elif", "fi", "for", "i", "in",
        "do",
        "done", "while", "until", "case", "esac", ";;", "*)", "[", "]", "[[", "]]", "((", "))", "<<E", "E\n", "<<<",
        "<", ">",
        "#", "eval", "bash", "-c", "exec", "env", "A=1", "A+=(x)", "A[1]=2", "${A[@]}", "$@", "$1", "shift",
        "set --", "set -e",
        "f()", "f", "return", "break", "continue", "exit", "local", "export", "read", "source", "trap", "EXIT",
        "sleep", "wait",
        "{1..3}", "{a,b}", "!", "-z", "-eq", "==", "true", "false", "nohup", "timeout", "5", "x", " ", "ä", "😀",
        "\r", "\t",
        "deepspeed", "--include", "accelerate", "launch", "mpirun", "-np", "--", "-m", "${A%.*}", "${#A}", "${!A}",
        "$'\\x'",
    ]
)  # fmt: skip


@QUIET
@given(st.lists(PIECES, max_size=60), st.sampled_from(["", " "]))
def test_any_mixture_of_shell_words_is_followed_without_raising(pieces: list[str], between: str) -> None:
    follow(between.join(pieces))


@QUIET
@given(st.sampled_from(SCRIPTS), st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 9), PIECES), max_size=6))
def test_any_damage_to_a_script_is_survived(source: str, damages: list[tuple[int, int, str]]) -> None:
    """Each damage puts a piece of shell in the place of some characters."""
    for position, length, piece in damages:
        begin = min(position, len(source))
        source = source[:begin] + piece + source[begin + length :]
    follow(source)


@pytest.mark.parametrize(
    "source",
    [
        "python -m",
        "python3 -u -m $x",
        "nohup exec",
        "x=1; a ${x:}",
        "a ${x::} ${x:?} ${x/} ${@:} ${!x*}",
        "exec",
        "env",
        "bash -c",
        "eval",
        "source",
        "trap",
        "set --",
        "shift 99",
        "break; continue; return; exit 1 2 3",
        "[",
        "test",
        "[[ ]]",
        "read",
        "su -c",
        "accelerate",
        "deepspeed --include",
        "torchrun --nproc_per_node",
        "mpirun -np",
        "pip",
        "curl",
        "sleep",
        "timeout 5",
        "conda run -n",
    ],
)
def test_commands_that_lack_their_words_are_survived(source: str) -> None:
    follow(source)


@QUIET
@given(st.text(max_size=200))
def test_any_text_is_followed_without_raising(text: str) -> None:
    follow(text)


@QUIET
@given(st.lists(PIECES, max_size=30))
def test_the_same_script_gives_the_same_answer(pieces: list[str]) -> None:
    source = " ".join(pieces)
    assert follow(source).invocations == follow(source).invocations


@QUIET
@given(st.lists(st.one_of(st.text(max_size=30), PIECES, st.sampled_from(["sh", "bash", "-c", "-lc"])), max_size=8))
def test_any_argument_vector_is_followed_without_raising(argv: list[str]) -> None:
    expanded = expand_kubernetes(argv, {"A": "1", "B": None})
    script = read_argv(expanded, environment={"A": "1"}, gpus_per_node=4)
    plan(script, nodes=1, gpus_per_node=4)
    assert script.argument is None or script.source == expanded[script.argument]


@QUIET
@given(st.one_of(st.text(max_size=80), st.from_regex(r"[a-zA-Z0-9._:/@-]{0,60}", fullmatch=True)))
def test_any_text_is_an_image_reference_or_is_refused_in_one_line(text: str) -> None:
    try:
        reference = parse(text)
    except ImageReferenceError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most texts are none, some are
        return
    classify(reference)
    written = f"{reference.registry}/{reference.repository}"
    written += f":{reference.tag}" if reference.tag is not None else ""
    written += f"@{reference.digest}" if reference.digest is not None else ""
    again = parse(written)
    assert (again.registry, again.repository, again.tag, again.digest) == (
        reference.registry,
        reference.repository,
        reference.tag,
        reference.digest,
    )


@pytest.mark.parametrize("character", ["\u0100", "文", "😀", "\U0010ffff", "\ud800"])
def test_the_grammar_never_sees_a_character_beyond_its_tables(character: str) -> None:
    """Its scanner would index the C library's tables with it: more often than not, U+10FFFF crashed the process."""
    source = ParsedText.outermost(f"{{{character}")
    assert source.tree is not None
    assert source.tree.root_node.text is not None
    assert max(source.tree.root_node.text.decode()) <= "\xff"


def test_what_the_grammar_does_not_see_is_read_and_located_all_the_same() -> None:
    script = read_script("echo 文😀; echo \U0010ffff b", environment={}, gpus_per_node=8)
    first, second = plan(script, nodes=1, gpus_per_node=8).commands
    assert [word.text for word in first.invocation.argv] == ["echo", "文😀"]
    assert [word.text for word in second.invocation.argv] == ["echo", "\U0010ffff", "b"]
    assert second.invocation.argv[2].span is not None
    assert second.invocation.argv[2].span.column == 17
