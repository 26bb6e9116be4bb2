"""How long `stoker lint FILE` takes from nothing, against what no Python program with its libraries can do without.

    python benchmarks/lint_start.py [ROUNDS]

Every round starts each program once, in turn, so that all meet the same machine; what counts is the processor time of
the fastest round, which load does not change much, and its ratio to the others'.
"""

import os
import subprocess
import sys
from pathlib import Path

JOB = Path(__file__).parent.parent / "examples" / "wrong" / "launcher-too-few.yaml"
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import pydantic, yaml'": ["-c", "import pydantic, yaml"],
    "python -c 'import kubernetes'": ["-c", "import kubernetes"],
    "stoker --help": ["-m", "stoker", "--help"],
    "stoker lint FILE": ["-m", "stoker", "lint", str(JOB)],
    "stoker lint --format sarif FILE": ["-m", "stoker", "lint", "--format", "sarif", str(JOB)],
}


def seconds(arguments: list[str]) -> float:
    """The processor time of one start."""
    process = subprocess.Popen(  # wait4 has the usage of this child alone
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def main(rounds: int) -> None:
    """Measure and print a table."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds):
        for name, arguments in PROGRAMS.items():
            times[name].append(seconds(arguments))
    best = {name: min(taken) for name, taken in times.items()}
    bare, libraries = (best[name] for name in list(PROGRAMS)[:2])
    print(f"{'':34}{'CPU ms':>8}{'x python':>10}{'x libraries':>13}   best of {rounds}")
    for name, taken in best.items():
        print(f"{name:34}{taken * 1000:8.0f}{taken / bare:10.1f}{taken / libraries:13.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
