"""How much larger a batch the GPUs' memory certainly allows."""

import re

from stoker.findings.wording import gib, percent

FILL_PERCENT = 80.0
"""How full a larger batch may make the memory."""
BATCH = re.compile(r"(?P<option>[\w.-]+)[ =](?P<size>[0-9]{1,9})\b")


def larger_batch(batch_size: str | None, peak: float, capacity: float | None) -> str:
    """The change, with a batch size that certainly fits: memory grows at most in proportion to the batch.

    `batch_size` is the option as written, `peak` the percentage of memory in use, `capacity` the memory in MiB.
    """
    factor = 1
    while 2 * factor * peak <= FILL_PERCENT:
        factor *= 2
    written = BATCH.match(batch_size) if batch_size else None
    if factor == 1:
        room = ""
    else:
        target = f"{factor} times the batch" if written is None else str(int(written["size"]) * factor)
        most = f"{percent(factor * peak)} of the memory" if capacity is None else gib(factor * peak / 100 * capacity)
        room = f" ({target} needs at most {most})"
    option = "the batch size" if written is None else f"{written['option']} from {written['size']}"
    return f"Raise {option}{room}, that of evaluation separately; mind the learning rate."
