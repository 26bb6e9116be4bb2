"""Lint real public launch scripts and manifests, and count what is found.

python -m benchmarks.corpus run [PACKAGE]     # download what is missing, lint everything, keep the findings
python -m benchmarks.corpus contradict        # twice and half the GPUs that a script names: what must be found
python -m benchmarks.corpus show KEY          # one finding beside its script
python -m benchmarks.corpus sample            # findings to review by hand, by a fixed seed
python -m benchmarks.corpus precision         # what reviewed.yaml says
python -m benchmarks.corpus lock              # pin packages.yaml
"""

import argparse
from fractions import Fraction

from benchmarks.corpus import fetch, review, run


def main() -> None:
    """Parse the command line and do one of the above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock")
    commands.add_parser("run").add_argument("package", nargs="?")
    commands.add_parser("contradict")
    commands.add_parser("show").add_argument("key")
    commands.add_parser("sample")
    commands.add_parser("precision")
    arguments = parser.parse_args()
    match arguments.command:
        case "lock":
            fetch.lock()
        case "run":
            _run(arguments.package)
        case "contradict":
            _contradict()
        case "show":
            print(review.show(arguments.key))
        case "sample":
            print(review.sample())
        case _:
            print(review.precision())


def _run(package: str | None) -> None:
    listed = run.corpus(package)
    ours = [sample for sample in listed if not sample.native]
    judged = run.judge_all(ours)
    run.keep(judged)
    print(run.by_package(ours, judged), "", run.summary(ours, judged), sep="\n")
    verdicts, seconds, code = run.by_command(listed)
    print(f"\n`stoker lint` over all {len(listed)} files in one call: {seconds:.1f} s, exit code {code}.")
    again = iter(judged)
    for sample, verdict in zip(listed, verdicts, strict=True):
        if sample.native:
            print(f"- {sample.package} {sample.path} ({sample.manifest['kind']}): {verdict}")
        elif verdict != next(again).verdict:
            print(f"- {sample.package} {sample.path}: the command says {verdict}, admission does not")


def _contradict() -> None:
    listed = run.corpus()
    for factor in (Fraction(2), Fraction(1, 2)):
        changed = run.contradicted(listed, factor)
        judged = run.judge_all(changed)
        print(f"\n{factor} times as many GPUs as named\n", run.summary(changed, judged), sep="\n")


if __name__ == "__main__":
    main()
