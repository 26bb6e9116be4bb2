"""The composition root: `python -m stoker` and the console script `stoker`."""

from stoker.cli import stoker


def main() -> None:
    """Run the command line."""
    stoker(prog_name="stoker")


if __name__ == "__main__":
    main()
