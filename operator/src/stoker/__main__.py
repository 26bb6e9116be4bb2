"""The composition root: `python -m stoker` and the console script `stoker`."""

import sys


def main() -> None:
    """Run the command line."""
    sys.exit("stoker: no commands yet")


if __name__ == "__main__":
    main()
