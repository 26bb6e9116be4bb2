"""`--logs-file`: logs that `kubectl logs --timestamps --prefix` has written."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.lint.files.manifests import InputError
from stoker.telemetry.log_marks import bounded, log_marks, read_line
from stoker.telemetry.series import JobFacts, LogMark

MAX_BYTES = 256 * 1024 * 1024
"""Bytes of a file of logs: it is read at once."""
HOW = "write it with kubectl logs --timestamps --prefix"
_POD = re.compile(r"\[pod/(?P<pod>[^/\s]{1,253})/(?P<container>[^\]\s]{1,63})\] ")


@dataclass(frozen=True, slots=True)
class RecordedLogs:
    """The marks of files, by pod."""

    by_pod: Mapping[str, tuple[LogMark, ...]] = field(default_factory=dict)

    async def marks(self, facts: JobFacts, container: str) -> tuple[LogMark, ...]:
        """Those of the job's pods, former ones too."""
        return bounded(mark for pod in (*facts.former_pods, *facts.pods) for mark in self.by_pod.get(pod.name, ()))


def read_logs(paths: Iterable[str], only_pod: str | None) -> RecordedLogs:
    """Read the files. Lines that name no pod belong to `only_pod`; None where it isn't known whose they are.

    Raises InputError.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for pod, line in _lines(path, only_pod):
            lines[pod].append(line)
    return RecordedLogs({pod: tuple(log_marks(own, pod)) for pod, own in lines.items()})


def _lines(path: str, only_pod: str | None) -> Iterable[tuple[str, str]]:
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise InputError(path, f"larger than {MAX_BYTES >> 20} MiB")
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise InputError(path, getattr(error, "strerror", None) or str(error)) from error
    timed = False
    for line in text.split("\n"):
        match = _POD.match(line)
        rest = line if match is None else line[match.end() :]
        if read_line(rest) is None:
            continue  # the rest of a line that held a line break
        timed = True
        pod = only_pod if match is None else match["pod"]
        if pod is None:
            raise InputError(
                path, f"its lines do not name the pod, and the jobs have several: {HOW}, or choose one job with --job"
            )
        yield pod, rest
    if not timed:
        raise InputError(path, f"no line begins with a time: {HOW}")


__all__ = ["RecordedLogs", "read_logs"]
