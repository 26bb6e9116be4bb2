"""What reading one script may cost. Every limit that spans a whole script is counted here, in one place.

Two things end a reading before its end, both by ExhaustedError: the allowance, which is processor time shared by all
that is read of one object, and the limits below, which depend on the script alone, so that the same script always ends
at the same place. Limits of a single construct (`MAX_UNROLL`, `MAX_PATTERN`, ...) stand with it; they end nothing, they
make a value unknown.
"""

from stoker.shell.model import Allowance, ExhaustedError

MAX_STEPS = 20_000
"""Statements, substitutions and visits of nodes; chosen because the costliest script of benchmarks/corpus takes 5,508
of them.
"""
STEP_SIZE = 256
"""Characters of recorded words and of output that are as much work as a statement."""
MAX_WORK = 1 << 16
"""Pieces of long values, and characters by the 64; chosen because the costliest script of benchmarks/corpus takes
4,964, and all of them some half a second of processor time."""
MAX_DEPTH = 64
"""Compound commands, function calls and substitutions within one another: each takes some of Python's own stack. In
benchmarks/corpus they are 22 deep at most.
"""
MAX_WORD_DEPTH = 24
"""Expansions within one word, such as `${a:-${b:-...}}`, at most 7 deep in benchmarks/corpus."""
MAX_NESTED_SHELLS = 6
"""Shells within shells (`bash -c`, `eval`, files), at most 1 in benchmarks/corpus: a script may run itself for ever."""
MAX_NESTED_TEXT = 1 << 20
"""Characters of the texts within one script, each as often as it is read: 16 times the longest script of a DLJob."""
MAX_INVOCATIONS = 4_096
"""Recorded commands of one script; chosen because the most that one of benchmarks/corpus has is 1,204."""


class Budget:
    """What is left for one script.

    check: raises ExhaustedError once the processor time is over; to be called wherever reading goes round.
    """

    def __init__(self, allowance: Allowance) -> None:
        self.check = allowance.check
        self._steps = 0
        self._work = 0
        self._nested_text = 0

    def step(self, count: int = 1, *, limit: int = MAX_STEPS) -> None:
        """Count statements, or work of their size. Raises ExhaustedError beyond the limit."""
        self._steps += count
        self.check()
        if self._steps > limit:
            raise ExhaustedError

    def count_text(self, characters: int) -> None:
        """Count recorded or printed characters; the next step raises ExhaustedError where they were too many."""
        self._steps += characters // STEP_SIZE

    def work(self, pieces: int) -> None:
        """Count pieces of values. Raises ExhaustedError beyond a script's share."""
        self._work += pieces
        if self._work > MAX_WORK:
            raise ExhaustedError

    def takes_nested(self, characters: int) -> bool:
        """Whether one more text within the script may be read; it is counted in any case."""
        self._nested_text += characters
        return self._nested_text <= MAX_NESTED_TEXT

    def close(self) -> None:
        """Let what is asked of the words later on cost the asker."""
        self.check = Allowance().check
