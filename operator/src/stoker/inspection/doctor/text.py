"""Text for people: a line for each check, and what to do under each that is not ok."""

from collections.abc import Iterator, Sequence

from stoker.adapters.terminal import Terminal, styled
from stoker.inspection.doctor.check import Status
from stoker.inspection.doctor.examination import Checked
from stoker.inspection.text import MIN_WIDTH, wrapped

COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "red", Status.NOT_CHECKED: "bright_black"}


def render(checked: Sequence[Checked], terminal: Terminal) -> str:
    """All checks by group, and how many ended how."""
    return "".join(f"{line}\n" for line in _lines(checked, terminal))


def _lines(checked: Sequence[Checked], terminal: Terminal) -> Iterator[str]:
    width, group = max(terminal.width, MIN_WIDTH), None
    for one in checked:
        if one.check.group is not group:
            if group is not None:
                yield ""
            group = one.check.group
            yield styled(group.value, terminal, bold=True)
        status = styled(one.outcome.status.value, terminal, colour=COLOURS[one.outcome.status], bold=True)
        yield from wrapped(f"{status}: {one.check.name}: ", one.outcome.found, width)
        if one.advice:
            yield from wrapped("    = ", one.advice, width)
    yield ""
    ends = [one.outcome.status for one in checked]
    yield ", ".join(f"{ends.count(status)} {status.value}" for status in Status if status in ends) + "."


__all__ = ["render"]
