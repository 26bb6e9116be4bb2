"""The past of back-dated pods, as blocks of a Prometheus data base.

Samples come from the function that the exporter plays, so that the live series go on where the history ends, counters
included.
"""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from e2e.cluster.provider import ClusterError
from e2e.telemetry.metrics import CADVISOR_JOB, DCGM_JOB, PlayedPod, PodPlayer, Series

# One block for the whole past. With promtool's default of two hours it would read the file once for every block.
_BLOCK = "10000h"


def write_open_metrics(file: TextIO, pods: Sequence[PlayedPod], *, until: float, step: float, interval: float) -> int:
    """Write what the pods have shown from their start `until` then (seconds since the epoch); return the samples.

    Samples are `step` seconds apart, the last at `until`. `interval` is as for the exporter.
    """
    samples = 0
    for pod in pods:
        if pod.started is None or pod.started >= until:
            continue
        player = PodPlayer(pod, pod.program())
        count = int((until - pod.started) // step)
        times = [until - step * number for number in range(count, -1, -1)]
        # a series' samples must come in order, those of different series in any: one time after the other is fine
        for at in times:
            lines = [
                f'{one.name}{{{one.labels},job="{job}"}} {one.value} {one.taken_at or at:.3f}\n'
                for job, one in _at(player, at, interval)
                # Prometheus takes no sample from before the end of what it has.
                if one.taken_at is None or one.taken_at <= until
            ]
            file.writelines(lines)
            samples += len(lines)
    file.write("# EOF\n")
    return samples


def create_blocks(promtool: Path, open_metrics: Path, data: Path) -> None:
    """Turn OpenMetrics text into blocks in the data folder. Raises ClusterError with what promtool says."""
    data.mkdir(parents=True, exist_ok=True)
    argv = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", f"--max-block-duration={_BLOCK}", "--quiet"]
    answer = subprocess.run([*argv, str(open_metrics), str(data)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ClusterError(f"promtool could not create blocks from {open_metrics}: {answer.stderr.strip()[-2000:]}")


def _at(player: PodPlayer, at: float, interval: float) -> Iterator[tuple[str, Series]]:
    for one in player.dcgm(at, interval):
        yield DCGM_JOB, one
    for one in player.cadvisor(at):
        yield CADVISOR_JOB, one
