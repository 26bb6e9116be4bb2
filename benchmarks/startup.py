"""How much processor time commands take from their start to their end, beside what no Python program can do without.

    python -m benchmarks.startup [ROUNDS]

Each round runs every program once, one after the other, so that all are measured on the same machine under the same
load. What counts is the least processor time (user and system) of all rounds, which other work on the machine hardly
changes, and its ratio to that of `import pydantic, yaml`. The bytecode is compiled before, as an installation does.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
JOB = str(ROOT / "examples" / "wrong" / "launcher-too-few.yaml")
LIBRARIES = "python -c 'import pydantic, yaml'"
COMMANDS = ("lint", "diagnose", "report", "replay", "rules", "run", "explain", "resume", "snooze")
PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    LIBRARIES: ["-c", "import pydantic, yaml"],
    "python -c 'import kubernetes'": ["-c", "import kubernetes"],
    "stoker --help": ["-m", "stoker", "--help"],
    **{f"stoker {command} --help": ["-m", "stoker", command, "--help"] for command in COMMANDS},
    "stoker lint FILE": ["-m", "stoker", "lint", JOB],
    "stoker lint --format sarif FILE": ["-m", "stoker", "lint", "--format", "sarif", JOB],
}


def seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """The processor time of one run."""
    process = subprocess.Popen(  # wait4 has the usage of this child alone
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def main(rounds: int) -> None:
    """Measure and print a table."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in PROGRAMS.values():
            seconds(arguments, environment)
        for _ in range(rounds):
            for name, arguments in PROGRAMS.items():
                times[name].append(seconds(arguments, environment))
    best = {name: min(taken) for name, taken in times.items()}
    print(f"{'':36}{'CPU ms':>8}{'x libraries':>13}   least of {rounds}")
    for name, taken in best.items():
        print(f"{name:36}{taken * 1000:8.0f}{taken / best[LIBRARIES]:13.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
