"""Random startup scripts: what real ones are made of, in combinations that nobody wrote.

Every script ends: loops count. Programs are `PROGRAMS` and a few harmless tools; files are written only beside the
script. So a script can be run as it is, with stubs for the programs.
"""

import re
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

PROGRAMS = ("torchrun", "python", "deepspeed", "accelerate", "mpirun", "pip", "prepare", "giveup")
"""Programs that only note how they were called, and succeed. `giveup` stands before every failing `exit`."""
QUESTIONS = ("grep", "diff")
"""Programs that note how they were called, and fail or succeed as the run has it."""
VARIABLES = ("A", "B", "N", "CUDA_VISIBLE_DEVICES")


def _read(text: str) -> dict[str, tuple[str, ...]]:
    symbols: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if line.startswith("«"):
            symbol = line.strip("«»")
            symbols[symbol] = ()
        elif line.startswith("  "):
            symbols[symbol] += (line[2:].replace("ε", "").replace("↵", "\n").replace("␣", " "),)
    return symbols


GRAMMAR = _read((Path(__file__).parent / "shell.grammar").read_text())
"""Symbols and what they can become."""
COSTLY = frozenset({"compound", "expansion"})
"""Symbols that may contain themselves, and so take from what is left of the depth."""
FLAT = {
    symbol: tuple(text for text in texts if not COSTLY & set(re.findall("«([a-z]+)»", text))) or texts
    for symbol, texts in GRAMMAR.items()
}
_SYMBOL = re.compile("«([a-z]+)»")


def expanded(draw: DrawFn, symbol: str, depth: int) -> str:
    """A random text of a symbol, with at most `depth` costly symbols within one another."""
    if symbol == "bare":  # within single quotes
        return expanded(draw, "block", depth).replace("'", "")
    if symbol == "word":
        depth = 2
    text = draw(st.sampled_from((GRAMMAR if depth > 0 else FLAT)[symbol]))
    return _SYMBOL.sub(lambda match: expanded(draw, match[1], depth - (symbol in COSTLY)), text)


@st.composite
def scripts(draw: DrawFn, depth: int = 2) -> str:
    """A whole script, which a shell accepts as a rule."""
    return expanded(draw, "script", depth)


_BREAKAGE = st.sampled_from(
    [*"()'\"`\\;&#!ä😀\r\t\0\ud800\u2028\u200b\n\x1b\xa0", "$(", "${", "$((", "))", "if", "then", "fi", "do", "done",
     "case", "esac", ";;", "{ ", "}", "|", "&&", "<<E", "[[", "]]"]
)  # fmt: skip


@st.composite
def broken_scripts(draw: DrawFn) -> str:
    """A script with pieces cut out and others put in, anywhere."""
    script = draw(scripts())
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(script)))
        script = script[:place] + draw(_BREAKAGE) + script[place + draw(st.integers(0, 9)) :]
    return script


__all__ = ["GRAMMAR", "PROGRAMS", "QUESTIONS", "VARIABLES", "broken_scripts", "expanded", "scripts"]
