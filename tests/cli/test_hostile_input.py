"""Files made to break `stoker lint`: each is judged or refused in one line, and never with a traceback."""

import json

import pytest
from click.testing import CliRunner

from stoker.cli import stoker

HEAD = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata: {name: x}
spec:
  gpusPerNode: 8
  image: a.example/b:1
"""
TORCHRUN = HEAD + "  script: torchrun --nproc_per_node=4 t.py"
DEEP = 10_000

FILES: dict[str, bytes] = {
    "a script of 1 MiB": (HEAD + "  script: |\n" + "    torchrun t.py\n" * 60_000).encode(),
    "lists in lists": (HEAD + "  args: " + "[" * DEEP + "]" * DEEP).encode(),
    "blocks in blocks": (HEAD + "  podTemplate:\n" + "".join(" " * (4 + n) + "a:\n" for n in range(2_000))).encode(),
    "objects in objects, as JSON": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "aliases of aliases": "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]\n" for n in range(20)
    ).encode(),
    "an alias of what it stands in": b"a: &a [*a]\nkind: DLJob\n",
    "many anchors": "".join(f"a{n}: &a{n} x\n" for n in range(5_000)).encode(),
    "NULs": TORCHRUN.replace("t.py", "t\0.py").encode(),
    "escaped NULs": (HEAD + '  script: "torchrun\\0 t.py"').encode(),
    "no UTF-8": TORCHRUN.encode().replace(b"t.py", b"\xff\xfe.py"),
    "a lone surrogate": (HEAD + '  script: "torchrun \\ud800 t.py"').encode(),
    "a lone surrogate in a key": (HEAD + '  "\\udfff": 1').encode(),
    "an encoded surrogate": TORCHRUN.encode().replace(b"t.py", b"\xed\xa0\x80"),
    "UTF-16": TORCHRUN.encode("utf-16"),
    "tabs": TORCHRUN.replace("  gpus", "\tgpus").encode(),
    "huge numbers": (HEAD.replace("8", "9" * 5_000) + "  script: a").encode(),
    "numbers that are none": (
        HEAD.replace("gpusPerNode: 8", "gpusPerNode: .nan") + "  nodes: .inf\n  script: a"
    ).encode(),
    "other types": b"kind: [DLJob]\napiVersion: {a: 1}\nspec: 3\nmetadata: null\n",
    "keys that are none": b"? [a, b]\n: c\n? {d: e}\n: f\nkind: DLJob\n1: 2\nnull: 3\n",
    "merges": b"a: &a {kind: DLJob}\n<<: [*a, *a]\n<<: *a\n",
    "tags": b"kind: !!binary aGVsbG8=\nspec: !!set {a, b}\nmetadata: !!omap [a: 1]\n",
    "documents": b"---\n" * 20_000,
    "20,000 variables": (HEAD + "  script: a\n  env:\n" + "  - {name: A, value: b}\n" * 20_000).encode(),
    "right-to-left and zero-width": TORCHRUN.replace("t.py", "\u202e\u200b\u2028\u0085.py").encode(),
    "nothing": b"",
    "a byte-order mark": b"\xef\xbb\xbf",
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_judged_or_refused_in_one_line(name: str) -> None:
    result = CliRunner().invoke(stoker, ["lint", "-", "--format", "json"], input=FILES[name])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in {0, 1, 2}
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert result.stderr.count("\n") <= 2
    else:
        assert json.loads(result.stdout)["version"] == 1


def test_carriage_returns_are_line_ends_of_scripts_too() -> None:
    result = CliRunner().invoke(stoker, ["lint", "-"], input=TORCHRUN.replace("\n", "\r\n").encode())
    assert "launcher-too-few" in result.stdout
