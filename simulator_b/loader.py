"""A data loader as a queue: workers that make batches ahead, and a training that takes them in order."""

import numpy as np

from simulator_b.track import FloatArray


def waits(make: FloatArray, use: FloatArray, workers: int, ahead: int) -> FloatArray:
    """How long each step waits for its batch, in seconds.

    `make` and `use` are the seconds of one worker for each batch and of the GPU for each step. Batch i is made by
    worker i mod `workers`, as torch.utils.data.DataLoader hands them out; a worker begins a batch when it has made its
    last one and no more than `workers * ahead` batches lie unused. With no workers the training makes each batch
    itself, so it waits for all of it.
    """
    if workers == 0:
        return make.copy()
    free = [0.0] * workers
    taken: list[float] = []
    waited = np.zeros(len(make))
    clock = 0.0
    most = workers * ahead
    for number, (cost, step) in enumerate(zip(make.tolist(), use.tolist(), strict=True)):
        worker = number % workers
        begin = max(free[worker], taken[number - most] if number >= most else 0.0)
        free[worker] = ready = begin + cost
        waited[number] = max(ready - clock, 0.0)
        clock = max(clock, ready)
        taken.append(clock)
        clock += step
    return waited
