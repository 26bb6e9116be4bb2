"""What the lines of a program's log say that it does: installs, downloads, trains, evaluates, saves, uploads, hangs.

Only lines whose wording is some tool's own are taken; whatever looks like a credential is dropped before anything else
looks at it.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from stoker.findings.finding import single_line
from stoker.telemetry.series import LogMark, MarkKind

MAX_TEXT = 200
"""Characters of a line that are kept."""
MAX_LINE = 2_000
"""Characters of a line that are looked at."""
THINNED = timedelta(seconds=15)
"""Of marks of one kind in one pod only one in so long is kept: half a step of the grid."""
MAX_MARKS = 500
"""Marks of one pod; beyond, the middle is left out: what matters is how it began and how it goes on."""

_STAMP = re.compile(r"(?P<time>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?P<rest>\.\d{1,9})?(?P<zone>Z|[+-]\d{2}:\d{2}) ?")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_PREFIX = re.compile(
    r"(?:\s+|\[[^\[\]]{1,80}\]:?|\([^()]{1,80}\)|\d{4}-\d\d-\d\d[T ][0-9:.,Z+]+"
    r"|(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|NOTICE)\b(?:[:|][\w.]*)*|[-|:>])"
)
"""What loggers write before a message: time, level, rank, process."""

_SECRET = re.compile(
    r"passw(?:or)?d|passphrase|secret|credential|api[_-]?key|access[_-]?key|private[ _-]?key|authorization"
    r"|token\s*[=:]|\bbearer\s+\S|-----BEGIN|\bAKIA[A-Z0-9]{8}|\bASIA[A-Z0-9]{8}|\bhf_\w{8}|\bgh[pousr]_\w{8}"
    r"|\bgithub_pat_|\bglpat-|\bxox[abprs]-|\bsk-[\w-]{12}|\beyJ[\w-]{10}|://[^/\s@]+@|[?&](?=[\w-]*(?:sig|key|token))[\w-]+=",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"(?<![\w/.+-])(?=[\w+-]{0,64}?\d)(?=[\w+-]{0,64}?[a-z])(?=[\w+-]{0,64}?[A-Z])[\w+-]{32,}")
"""A long word of digits and letters of both cases may be a key, whatever stands before it."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_KINDS: tuple[tuple[MarkKind, re.Pattern[str]], ...] = (
    (
        MarkKind.COLLECTIVE_TIMEOUT,
        _any(
            r"watchdog caught collective operation timeout",
            r"some NCCL operations have failed or timed out",
            r"watchdog thread (?:got stuck|terminated with exception)",
            r"heartbeat monitor timed out",
            r"\bWork(?:NCCL|HCCL|XCCL)\(.{0,300}timed out",
            r"\bcollective\b.{0,80}\btimed out\b",
            r"timed out waiting \d+ms for (?:recv|send) operation",
        ),
    ),
    (
        MarkKind.CHECKPOINT,
        _any(
            r"\bsaving (?:model |latest |the )?checkpoint",
            r"\b(?:saving|saved|writing|wrote)\b[^.]{0,40}\bcheckpoints?\b",
            r"\bcheckpoint\b[^.]{0,60}\b(?:saved|written|is ready now)\b",
            r"\b(?:model weights|optimizer state|scheduler state|random states) saved in\b",
            r"\bsaving current state to\b",
            r"\bsaving (?:the )?(?:model|model weights|optimizer|state dict|state_dict)\b.{0,20}\bto\b",
            r"\bsaving \S+\.(?:pt|pth|ckpt|safetensors|distcp)\b",
            r"\bsaved \S+\.(?:pt|pth|ckpt|safetensors|distcp)\b",
            r", global step \d+: .{0,120}\bsaving model to\b",
        ),
    ),
    (
        MarkKind.UPLOAD,
        _any(
            r"^upload: .{1,300} to s3://",
            r"^copying file://",
            r"\buploading (?:artifacts?|model|files?|results?|outputs?|logs?|checkpoints?|\d)",
            r"^upload(?:ing)? \d+ (?:lfs )?files",
            r"\bwandb: (?:uploading|synced|waiting for .{0,40} finish)",
            r"\bpushing (?:the )?(?:model|files?|checkpoint) to (?:the )?hub",
            r"^(?:processing files|new data upload) ?\(",
        ),
    ),
    (
        MarkKind.INSTALL,
        _any(
            r"^collecting [\w.\[\],-]+(?:[<>=!~]=?\S+| \(from )",
            r"^(?:obtaining|processing) \S*(?:\.whl|\.tar\.gz|git\+|file:/)",
            r"^(?:downloading|using cached) \S+(?:\.whl|\.tar\.gz|\.zip|\.metadata)\b",
            r"^(?:installing collected packages|successfully (?:installed|built)|requirement already satisfied)\b",
            r"^looking in (?:indexes|links):",
            r"^(?:preparing metadata|installing build dependencies|getting requirements to build|building wheels?) ",
            r"^(?:resolved|prepared|installed|downloaded|audited) \d+ packages? in ",
            r"^(?:collecting package metadata|solving environment|downloading and extracting packages)\b",
            r"^(?:preparing|verifying|executing) transaction: ",
            r"^(?:get|hit|ign):\d+ https?://",
            r"^reading package lists",
            r"^(?:unpacking|setting up) \S+ \(",
            r"^(?:preparing to unpack|selecting previously unselected package) ",
            r"^fetch https?://.{1,200}APKINDEX",
            r"^\(\d+/\d+\) installing \S+",
            r"^cloning into '",
            r"^(?:remote: )?(?:enumerating|counting|compressing|receiving) objects:",
            r"^resolving deltas:",
            r"^running (?:install|build_ext|bdist_wheel|develop)\b",
            r"^\[\d+/\d+\] .{0,400}\b(?:nvcc|g\+\+|c\+\+|clang\+\+)\b",
        ),
    ),
    (
        MarkKind.DOWNLOAD,
        _any(
            r"\.(?:safetensors|bin|gguf|parquet|arrow|tar|tgz|zip|gz|pt|pth|tfrecord|jsonl?)(?:\.\w{1,4})?:\s+\d{1,3}%\|",
            r"^(?:downloading|fetching)\b.{0,120}:\s+\d{1,3}%\|",
            r"^downloading (?:and preparing )?(?:data|dataset|shards|model|builder|files?|weights|checkpoint)\b",
            r"^downloading:? \"?https?://",
            r"^fetching \d+ files",
            r"^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--\s+https?://",
            r"^saving to: ",
            r"\b\d{1,3}%\[=*>?\s*\]\s",
            r"\bsaved \[\d+(?:/\d+)?\]",
            r"^% total\s+% received",
            r"^\d{1,3}\s+[\d.]+[kMGT]?\s+\d{1,3}\s+[\d.]+[kMGT]?\s+\d{1,3}\s+[\d.]+[kMGT]?\s",
            r"^download: s3://",
            r"^completed [\d.]+ [KMGT]iB/[\d.]+ [KMGT]iB .{0,40}remaining",
            r"^copying (?:gs|s3)://",
        ),
    ),
    (
        MarkKind.EVALUATION,
        _any(
            r"\*{3} ?running (?:evaluation|prediction|validation|test)",
            r"^(?:evaluating|evaluation|validating|validation|testing)\b[^|]{0,40}:?\s+\d{1,3}%",
            r"\bvalidation loss at iteration\b",
            r"['\"]eval_\w+['\"]:",
            r"\b(?:start(?:ing|ed)?|begin(?:ning)?|running) (?:the )?(?:evaluation|validation)\b",
            r"^evaluating (?:on|the|model|epoch|step)\b",
            r"^(?:eval|val|valid|validation|test):? \[\s*\d+/\d+\]",
        ),
    ),
    (
        MarkKind.EPOCH,
        _any(
            r"\bepoch[\s:=#]*(?:\[\s*)?\d+",
            r"\biteration\s+\d+\s*/\s*\d+",
            r"\b(?:global[ _]?step|train(?:ing)? step|step|iter(?:ation)?)[\s:=#]+(?:\[\s*)?\d+.{0,200}\bloss\b",
            r"\bloss\b.{0,200}\b(?:global[ _]?step|step|iter(?:ation)?)[\s:=#]+(?:\[\s*)?\d+",
            r"^\{'loss': ",
            r"^\d+/\d+ \[[=>.]+\]",
            r"^(?:train(?:ing)?\b[^|]{0,30}:?\s*)?\d{1,3}%\|.{0,120}\b\d+/\d+ \[.{0,80}(?:it/s|s/it)",
        ),
    ),
)


def kind_of(text: str) -> MarkKind | None:
    """What a line, without its time, says; None for one that says nothing of these."""
    message = text
    while prefix := _PREFIX.match(message):
        message = message[prefix.end() :]
    for kind, pattern in _KINDS:
        # `[3/8] nvcc ...` and `[Torch] Saving ...` are messages, though they look like a logger's prefix.
        if pattern.search(message) or pattern.search(text):
            return kind
    return None


def shown(line: str) -> str:
    """A line as a terminal would leave it: without escape sequences, of a progress bar its last state."""
    text = _ESCAPE.sub("", line.rstrip("\r\n").rpartition("\r")[2][:MAX_LINE])
    return single_line(text)


def looks_secret(text: str) -> bool:
    """Whether a line may hold a credential: better a line too many dropped than one kept."""
    return _SECRET.search(text) is not None or _RANDOM.search(text) is not None


def read_line(line: str) -> tuple[datetime, str] | None:
    """The time and the text of a line as the API server writes it with `timestamps`; None for a line without a time."""
    match = _STAMP.match(line)
    if match is None:
        return None
    rest = (match["rest"] or "")[:7]
    try:
        time = datetime.fromisoformat(f"{match['time']}{rest}{match['zone']}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time, line[match.end() :]


def log_marks(lines: Iterable[str], pod: str) -> Iterator[LogMark]:
    """The marks of a pod's log, in its order; of each kind at most one in THINNED."""
    last: dict[MarkKind, datetime] = {}
    for line in lines:
        read = read_line(line)
        if read is None:
            continue
        time, text = read[0], shown(read[1])
        # Far more lines say nothing than hold a secret: what is kept is asked for both.
        kind = kind_of(text)
        if kind is None or looks_secret(text):
            continue
        if kind in last and timedelta(0) <= time - last[kind] < THINNED:
            continue
        last[kind] = time
        yield LogMark(time=time, pod=pod, kind=kind, text=text[:MAX_TEXT])


def bounded(marks: Iterable[LogMark]) -> tuple[LogMark, ...]:
    """The marks in order of time, of each pod at most MAX_MARKS: the first and the last ones."""
    by_pod: dict[str, list[LogMark]] = {}
    for mark in sorted(set(marks), key=lambda one: (one.time, one.pod, one.kind)):
        by_pod.setdefault(mark.pod, []).append(mark)
    half = MAX_MARKS // 2
    kept = [mark for own in by_pod.values() for mark in (own if len(own) <= MAX_MARKS else [*own[:half], *own[-half:]])]
    return tuple(sorted(kept, key=lambda one: (one.time, one.pod)))


__all__ = ["MAX_MARKS", "MAX_TEXT", "bounded", "kind_of", "log_marks", "looks_secret", "read_line", "shown"]
