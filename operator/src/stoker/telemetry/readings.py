"""What a source's samples mean: totals and rates under one name, values told twice, two exporters on one device.

Readings are arrays of shape (samples, 2): seconds since the epoch, rising, and values.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from stoker.telemetry.series import FloatArray

MOST = np.finfo(np.float64).max
GROWTH_SAMPLES = 10
"""Changes from which a running total is told from a rate."""
RESETS_SHARE = 0.02
"""A total falls only when it begins anew; a rate falls about as often as it rises."""


def parsed(text: bytes) -> FloatArray:
    """Samples as Prometheus writes them in JSON, `[1700000000,"0.5"],[1700000030,"NaN"]`, with brackets around them or
    without. Raises ValueError for anything else.
    """
    numbers = text.translate(None, b'[]" \t\r\n')
    values: FloatArray = np.array(numbers.split(b",") if numbers else [], dtype=np.float64)
    return values.reshape(-1, 2)


def reading(samples: FloatArray, most: float = MOST) -> FloatArray:
    """The samples without those that are no values: NaN, infinite, negative or over `most`."""
    with np.errstate(invalid="ignore"):
        kept: FloatArray = samples[(samples[:, 1] >= 0) & (samples[:, 1] <= most)]
    return kept


def scaled(one: FloatArray, factor: float) -> FloatArray:
    """The same in another unit."""
    product: FloatArray = one * np.array((1.0, factor))
    return product


def highest(readings: Iterable[FloatArray]) -> float:
    """The largest value, 0 without any."""
    return max((float(one[:, 1].max()) for one in readings if len(one)), default=0.0)


def mean_rates(total: FloatArray, taken: FloatArray, step: float, gap: float, most: float = MOST) -> FloatArray:
    """The mean rate, per second, of a total that always grows (energy), in the `step` before each reading of it.

    `taken` says at the same times when the sample was taken that was the latest then. The exporter may renew a total
    more rarely than it is scraped, so an unchanged one is the same sample once more: growth is spread over the time
    between two changes, whatever the phases of collection, scrape and step. Nothing is known over a fall, over a
    stretch of more than `gap` seconds without samples, after the last change, and where the rate is over `most`; a step
    of which less than half is known has no rate.
    """
    times, mine, others = np.intersect1d(total[:, 0], taken[:, 0], return_indices=True)
    if len(times) < 2:
        return total[:0]
    scraped, values = taken[others, 1], total[mine, 1]
    changes = np.flatnonzero(np.concatenate(([True], (np.diff(values) != 0) & (np.diff(scraped) > 0))))
    if len(changes) < 2:
        return total[:0]
    seconds, growth = np.diff(scraped[changes]), np.diff(values[changes])
    silence = np.maximum.reduceat(np.diff(scraped), changes[:-1])
    known = (growth > 0) & (growth / seconds <= most) & (silence <= gap)
    grown, lasted = (np.concatenate(([0.0], np.cumsum(np.where(known, part, 0.0)))) for part in (growth, seconds))
    corners = scraped[changes]
    covered = np.interp(times, corners, lasted) - np.interp(times - step, corners, lasted)
    within = np.interp(times, corners, grown) - np.interp(times - step, corners, grown)
    kept = covered >= step / 2
    return np.column_stack((times[kept], within[kept] / covered[kept]))


def link_rates(devices: Sequence[FloatArray], gap: float) -> list[FloatArray]:
    """What one metric says of the traffic of several devices' links, as rates.

    Exporters publish a rate or a running total under one name. It is the same for all devices, so all of them tell
    which; a value that never changes is a total at rest, for a rate under traffic is never exact.
    """
    return [_differences(one, gap) if _grow(devices) else _moving(one) for one in devices]


def steadiest(readings: Sequence[FloatArray]) -> list[FloatArray]:
    """Several exporters' readings of one signal of one device: first the one with most samples, of several that which
    saw more.

    Their sum would be a device that is not there, and their mean neither's.
    """
    return sorted(readings, key=lambda one: (-len(one), -float(one[:, 1].sum())))


def added(parts: Sequence[FloatArray]) -> FloatArray:
    """The sum, at the times that all parts have."""
    times, values = parts[0].T
    for part in parts[1:]:
        times, mine, others = np.intersect1d(times, part[:, 0], return_indices=True)
        values = values[mine] + part[others, 1]
    return np.column_stack((times, values))


def proven(one: FloatArray, held: FloatArray | None) -> FloatArray:
    """Without the zeros that nothing backs: those at times at which `held` is not over 0."""
    backed = np.empty(0) if held is None else held[held[:, 1] > 0, 0]
    return one[(one[:, 1] > 0) | np.isin(one[:, 0], backed)]


def _grow(devices: Iterable[FloatArray]) -> bool:
    changes = np.concatenate([np.empty(0), *(np.diff(one[:, 1]) for one in devices)])
    changes = changes[changes != 0]
    return len(changes) >= GROWTH_SAMPLES and float((changes < 0).mean()) <= RESETS_SHARE


def _differences(one: FloatArray, gap: float) -> FloatArray:
    spans, growth = np.diff(one, axis=0).T
    kept = (growth >= 0) & (spans <= gap)
    return np.column_stack((one[1:, 0][kept], growth[kept] / spans[kept]))


def _moving(one: FloatArray) -> FloatArray:
    if len(one) < GROWTH_SAMPLES or np.ptp(one[:, 1]) > 0:
        return one
    return scaled(one, 0.0)
