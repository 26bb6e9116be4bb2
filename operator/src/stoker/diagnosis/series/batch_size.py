"""How much larger a batch the GPUs' memory certainly allows."""

from stoker.findings.quantity import small_number
from stoker.findings.wording import gib, percent
from stoker.telemetry.series import BatchSize

FILL_PERCENT = 80.0
"""How full a larger batch may make the memory."""


def larger_batch(batch_size: BatchSize | None, peak: float, capacity: float | None) -> str:
    """The change, with a batch size that certainly fits: memory grows at most in proportion to the batch.

    `batch_size` is the option that was found, `peak` the percentage of memory in use, `capacity` the memory in MiB.
    """
    factor = 1
    while 2 * factor * peak <= FILL_PERCENT:
        factor *= 2
    size = None if batch_size is None else small_number(batch_size.value)
    if factor == 1:
        room = ""
    else:
        target = f"{factor} times the batch" if size is None else str(size * factor)
        most = f"{percent(factor * peak)} of the memory" if capacity is None else gib(factor * peak / 100 * capacity)
        room = f" ({target} needs at most {most})"
    option = "the batch size" if batch_size is None or size is None else f"{batch_size.option} from {size}"
    return f"Raise {option}{room}, that of evaluation separately; mind the learning rate."
