"""All GPUs have been idle since the work ended, and the job does not end.

## What it flags

The rule flags a job whose GPUs worked for at least ten minutes and then all stopped, while its processes stay alive
and do nothing else either: next to no CPU time, no traffic, no writes.

## Why it costs GPU time

The job holds its GPUs until its last process ends. The usual reasons are a `sleep` after the training command ("until
the upload is through"), a `tail -f` that keeps the container alive, and a server or a lost worker that the script
waits for.

## When it stays silent

- Any GPU works, or any GPU of any pod has no samples, and for ten minutes after that: a missing sample is not idle.
- A pod computes, sends, receives, writes, or waits for its disks or mounts, and for ten minutes after that: a final
  evaluation on the CPUs or an upload is work.
- After a restart, until the new run has worked for ten minutes: it may wait for its peers or its data.
- A running job, until it has been idle twice as long as in its longest pause so far, also before a restart.
- Interactive and serving jobs, which do not end when they are idle. A job serves, whatever type it declares, if its
  program or its image is a model server. It also serves if its container declares a port or a readiness probe, and its
  work, or what a pod receives, comes in twenty or more short bursts of like size at irregular times.
- An idle time of less than ten minutes.

The finding is only possible where a slow upload or a checkpoint cannot be excluded:

- without CPU samples of the pods;
- where the traffic cannot be seen, because a pod uses the node's network (`hostNetwork`), has no network samples, or
  mounts storage (a persistent volume, NFS, CSI) whose traffic is that of the node. This does not apply if the CPUs of
  all pods stay at 0.02 cores or less during the whole idle time, or its last hour;
- without network samples of the pods, for the first hour;
- where the job has come back from two pauses of ten minutes or more, or works or receives in many short bursts of like
  size, as what is asked from outside does: it may be asked again, and pauses grow towards the night;
- where the processes take more than 0.1 cores in a pod, but not more than 0.2 for each GPU beside, a quarter of what
  they took at work, and always the same: a framework's processes poll while they rest.

## Change

Remove the sleep and let the job end with its last command. If the job must wait for an upload, run the upload in the
foreground, or `wait` for its process.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job: ten extra
  minutes of sleep on eight GPUs
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.gaps import long_gaps
from stoker.diagnosis.series.person import looks_interactive
from stoker.diagnosis.series.requests import acts_as_service, comes_back
from stoker.diagnosis.series.resting_processes import Rest, idle_cores, processes_rest
from stoker.diagnosis.series.unseen_traffic import cpus_rest, is_hidden, waits_for_io
from stoker.findings.finding import Recoverable, rfc3339
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.screen import LONGEST_GAP
from stoker.telemetry.series import PodSignal

TRAFFIC = (PodSignal.NET_RX, PodSignal.NET_TX, PodSignal.DISK_READ, PodSignal.DISK_WRITE)
LEAST_TAIL_SECONDS = 600.0
"""Seconds: the study's own example (ICSE 2024, section 4.1). A pause for a checkpoint or a validation is shorter."""
LEAST_WORK_SECONDS = 600.0
"""Seconds of work before the idle time. Chosen because less may have been a test."""
PAUSE_FACTOR = 2.0
"""Times the longest pause so far. Chosen because a job that went on after a pause may do so again."""
QUIET_BYTES = 100e3
"""bytes/s of a pod. Chosen because probes, metrics and log lines stay below, and an upload does not."""
POLLS = "the processes take some CPU, though little of what they took at work"
ACTIVE = {PodSignal.CPU: 0.5, PodSignal.IO_PRESSURE: 5.0, **dict.fromkeys(TRAFFIC, 1e6)}
"""CPU cores, percent of I/O pressure and bytes/s in a single step from which a pod works. Chosen above the quiet
bounds, because one step may hold a probe's or a log shipper's spike.
"""
SETTLING_SECONDS = 120.0
"""Seconds after the work in which the pods' rates still show it: Prometheus computes them over one or two minutes."""
UNSEEN_UPLOAD_SECONDS = 3600.0
"""Seconds after the work from which an upload that cannot be seen counts as finished, if the CPUs have been idle since.
Chosen because uploads are shorter.
"""


def check(exam: Examination) -> Iterator[Claim]:
    """Report an idle time after enough work in which GPUs, CPUs and network do nothing."""
    if acts_as_service(exam) or exam.facts.job_type is JobType.INTERACTIVE or looks_interactive(exam):
        return
    worked = np.flatnonzero(exam.any_busy & exam.attempts[-1]) if exam.attempts else np.empty(0, dtype=np.int64)
    if not len(worked) or len(worked) * exam.step < LEAST_WORK_SECONDS:
        return
    last = int(np.flatnonzero(exam.life)[-1]) + 1
    settled = int(worked[-1]) + 1 + int(SETTLING_SECONDS / exam.step)
    least = max(LEAST_TAIL_SECONDS, PAUSE_FACTOR * _longest_pause(exam) if exam.running else 0.0)
    # Where a sleeping shell's rest is too short, that of processes which poll may be long enough: for less certainty.
    shell, processes_alone = (
        _rest(exam, int(worked[-1]) + 1, settled, last, polling=polling) for polling in (False, True)
    )
    first = shell if (last - shell) * exam.step >= least else processes_alone
    if (last - first) * exam.step < least:
        return
    tail, quiet = exam.steps(first, last), exam.steps(max(first, settled), last)
    if not exam.covered_idle(tail):
        return
    cpu, sent = exam.pod_peak(PodSignal.CPU, quiet), exam.pod_peak(PodSignal.NET_TX, quiet)
    processes = processes_rest(exam, quiet)
    if (cpu is not None and processes is None) or _traffic(exam, quiet) or waits_for_io(exam, quiet):
        return
    explains = exam.explains(tail)
    hours = exam.idle_hours(explains)
    since, until = exam.time(first), exam.until(last)
    number = exam.facts.gpus
    whole = {1: "The GPU has", 2: "Both GPUs have"}.get(number, f"All {number} GPUs have")
    rest = f"{minutes(tail.sum() * exam.step)} up to {rfc3339(exam.time(last))}"
    if until is not None:
        rest = f"{minutes(tail.sum() * exam.step)} until the end"
    meanwhile = "no CPU samples" if cpu is None else f"at most {cpu:.2f} CPU cores a pod"
    traffic = ", no network samples" if sent is None else ", no traffic"
    long_enough = sent is not None or (last - first) * exam.step >= UNSEEN_UPLOAD_SECONDS
    lately = exam.steps(max(first, last - int(UNSEEN_UPLOAD_SECONDS / exam.step)), last)
    through = cpus_rest(exam, quiet) or ((tail & ~lately).any() and cpus_rest(exam, lately))
    ruled_out = cpu is not None and long_enough and (not is_hidden(exam, quiet) or through)
    unseen = "" if ruled_out or cpu is None else ", but a slow upload can't be ruled out"
    back = comes_back(exam) if exam.running else ""
    doubts = [_polling(processes) if first == shell else POLLS, back]
    doubtful = "".join(f", but {doubt}" for doubt in doubts if doubt)
    yield Claim(
        detail=(f"{whole} been idle since {rfc3339(since)} ({rest}); {gpu_hours(hours)} lost."),
        evidence=(
            f"{minutes(len(worked) * exam.step)} of work before; idle {interval(since, until)}, "
            f"{count(number, 'GPU')}, {meanwhile}{traffic}{unseen}{doubtful}"
        ),
        confidence=Confidence.LIKELY if ruled_out and not doubtful else Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="the GPUs are free once the job ends"),
        # Somebody may use it on demand.
        alternatives=(Category.INTERACTIVE_JOB,) if back else (),
        explains=explains,
        stays_possible=bool(doubtful),
    )


def _polling(processes: Rest | None) -> str:
    """What speaks against rest in processes that take some CPU; empty where none do."""
    if processes is None or not processes.polls:
        return ""
    return "something takes some CPU though the GPUs' memory was given back" if processes.ended else POLLS


def _rest(exam: Examination, ended: int, settled: int, last: int, *, polling: bool) -> int:
    """The step at which the pods become idle after the last work, which ends at `ended`: the one after the last step
    from `settled` on in which any pod is active, or after the last long gap in the samples since. `polling` lets
    processes take what those of a framework take at rest.
    """
    active = np.zeros(len(exam.series.times), dtype=np.bool_)
    hosts = {pod.name for pod in exam.pods if pod.host_network}
    idle = idle_cores(exam) if polling else {}
    for pod in exam.series.pods:
        for signal, bound in ACTIVE.items():
            least = max(bound, idle.get(pod.pod, 0.0)) if signal is PodSignal.CPU else bound
            values = pod.signals.get(signal)
            if values is None or (pod.pod in hosts and signal in (PodSignal.NET_RX, PodSignal.NET_TX)):
                continue
            with np.errstate(invalid="ignore"):
                active |= values >= least
    found = np.flatnonzero(active[settled:last])
    first = settled + int(found[-1]) + 1 if len(found) else ended
    gaps = long_gaps(exam, first, last)
    if not exam.covered_idle(exam.steps(first, last)) or any(
        (stop - start) * exam.step > LONGEST_GAP.total_seconds() for start, stop in gaps
    ):
        first = max([first, *(stop for _, stop in gaps)])
    return first


def _longest_pause(exam: Examination) -> float:
    """Seconds of the longest stretch without work between two with work, in the job's earlier attempts as well: a job
    that was suspended as ended, and worked again after it was resumed, may pause as long again.
    """
    worked = (np.flatnonzero(exam.any_busy & attempt) for attempt in exam.attempts)
    return max(float(np.diff(steps).max(initial=1) - 1) * exam.step for steps in worked)


def _traffic(exam: Examination, quiet: BoolArray) -> bool:
    """Whether some pod sends, receives or writes. Signals without samples do not count."""
    levels = (exam.pod_peak(signal, quiet) for signal in TRAFFIC)
    return any(level is not None and level >= QUIET_BYTES for level in levels)


RULE = Rule(
    id="D101",
    name="unreleased-job",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="All GPUs have been idle since the work ended, and the job does not end.",
    fix="Let the job end with its last command: remove the sleep or the wait after it; wait for an upload itself.",
    check=check,
)
