"""Lint real public launch scripts and manifests, and count what is found.

    python -m benchmarks.corpus run [PACKAGE]     # download what is missing, lint; keep the findings of all packages
    python -m benchmarks.corpus sample            # keys of findings to review by hand, by a fixed seed
    python -m benchmarks.corpus show KEY          # one finding beside its script
    python -m benchmarks.corpus precision         # what reviewed.yaml says
    python -m benchmarks.corpus lock              # pin packages.yaml

`run` lints each script on the GPUs that it names itself, and those that name some on twice and on half as many, too:
most of these are wrong then, and nothing else about them is.
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
    commands.add_parser("show").add_argument("key")
    commands.add_parser("sample")
    commands.add_parser("precision")
    arguments = parser.parse_args()
    match arguments.command:
        case "lock":
            fetch.lock()
        case "run":
            _run(arguments.package)
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
    print(run.by_package(ours, judged), "", run.summary(ours, judged), sep="\n")
    everything = list(judged)
    for factor in (Fraction(2), Fraction(1, 2)):
        changed = run.contradicted(ours, factor)
        again = run.judge_all(changed)
        everything += again
        print(f"\nOn {factor} times as many GPUs as they name:", run.summary(changed, again), sep="\n\n")
    if package is None:
        run.keep(everything)
    verdicts, seconds, code = run.by_command(listed)
    print(f"\n`stoker lint` over all {len(listed)} files in one call: {seconds:.1f} s, exit code {code}.")
    own = iter(judged)
    for sample, verdict in zip(listed, verdicts, strict=True):
        if sample.native:
            print(f"- {sample.package} {sample.path} ({sample.manifest['kind']}): {verdict}")
        elif verdict != next(own).verdict:
            print(f"- {sample.package} {sample.path}: the command says {verdict}, admission does not")


if __name__ == "__main__":
    main()
