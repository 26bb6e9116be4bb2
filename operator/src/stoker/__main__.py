"""The composition root: `python -m stoker` and the console script `stoker`."""

import os
import sys

from stoker.cli import EXIT_INTERRUPTED, stoker


def main() -> None:
    """Run the command line."""
    try:
        stoker(prog_name="stoker")
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            # The interpreter would wait for threads that wait for a server; who has interrupted waits for neither.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
