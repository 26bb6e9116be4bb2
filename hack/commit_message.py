"""Check the form of a commit's message: the subject's length, and one blank line before the body.

    python3 hack/commit_message.py FILE

Git runs it by hack/hooks/commit-msg once `make hooks` has been run in a checkout. Prints one line per fault and exits 1
if there is one. It needs no package, so that it works before `make venv`.
"""

import sys
from pathlib import Path

LONGEST = 72
"""Characters of a subject: `git log --oneline` shows them whole in a terminal of 80 columns."""
SCISSORS = "# ------------------------ >8 ------------------------"
"""`git commit --verbose` puts the change below this line; git cuts it off."""
COMMENT = "#"


def faults(message: str) -> list[str]:
    """What is wrong with a message, as git hands it to a hook: with comments, which do not count."""
    written, _, _ = message.partition(SCISSORS)
    lines = [line.rstrip() for line in written.splitlines() if not line.startswith(COMMENT)]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    if not lines:
        return []  # git itself refuses an empty message
    subject, *rest = lines
    found = []
    if len(subject) > LONGEST:
        found.append(
            f"the subject has {len(subject)} characters, at most {LONGEST} are allowed: put reasons into the body"
        )
    if rest and rest[0]:
        found.append(f'a blank line is missing between the subject and the body, before "{rest[0]}"')
    if rest and rest[:2] == ["", ""]:
        found.append("more than one blank line stands between the subject and the body")
    return found


def main() -> int:
    """Check the file that git names."""
    found = faults(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
