"""Commands that run another command given as their arguments: `nohup`, `timeout 1h`, `env X=y`, `conda run -n x`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.words import duration


@dataclass(frozen=True, slots=True)
class _Form:
    """valued: options followed by a value. operands: words before the command. subcommands: one must come first."""

    valued: frozenset[str] = frozenset()
    operands: int = 0
    subcommands: frozenset[str] = frozenset()
    required: bool = False


def _form(valued: str = "", operands: int = 0, subcommands: str = "", *, required: bool = False) -> _Form:
    return _Form(frozenset(valued.split()), operands, frozenset(subcommands.split()), required)


_FORMS = {
    "command": _form(),
    "builtin": _form(),
    "exec": _form("-a"),
    "time": _form("-f -o --format --output"),
    "nohup": _form(),
    "timeout": _form("-k -s --kill-after --signal", 1),
    "gtimeout": _form("-k -s --kill-after --signal", 1),
    "nvidia_entrypoint.sh": _form(),
    "_entrypoint.sh": _form(),
    "with-contenv": _form(),
    "s6-setuidgid": _form("", 1),
    "setpriv": _form("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig"),
    "nice": _form("-n --adjustment"),
    "ionice": _form("-c -n -p -t"),
    "chrt": _form("-T -P -D", 1),
    "sudo": _form("-u -g -p -C -h -r -t -D -R -T --user --group --chdir"),
    "doas": _form("-u -C"),
    "setsid": _form(),
    "stdbuf": _form("-i -o -e --input --output --error"),
    "unbuffer": _form(),
    "numactl": _form("-N -m -C -i -p -P --cpunodebind --membind --physcpubind --interleave --preferred"),
    "taskset": _form("", 1),
    "catchsegv": _form(),
    "xvfb-run": _form("-s -e -f -n -w --server-args --error-file --server-num"),
    "tini": _form("-e -p"),
    "dumb-init": _form(),
    "catatonit": _form(),
    "gosu": _form("", 1),
    "su-exec": _form("", 1),
    "chroot": _form("", 1),
    "setarch": _form("", 1),
    "unshare": _form(),
    "prlimit": _form(),
    "chronic": _form(),
    "systemd-cat": _form("-t -p"),
    "ddtrace-run": _form(),
    "opentelemetry-instrument": _form(),
    "strace": _form("-o -e -p -s -u -P"),
    "ltrace": _form("-o -e -p -s -u"),
    "valgrind": _form(),
    "conda": _form("-n -p --name --prefix --cwd", 0, "run", required=True),
    "mamba": _form("-n -p --name --prefix --cwd", 0, "run", required=True),
    "micromamba": _form("-n -p -r --name --prefix --cwd --root-prefix", 0, "run", required=True),
    "poetry": _form("-C -P", 0, "run", required=True),
    "pipenv": _form("", 0, "run", required=True),
    "pdm": _form("-p", 0, "run", required=True),
    "rye": _form("", 0, "run", required=True),
    "pixi": _form("-e --environment --manifest-path", 0, "run", required=True),
    "hatch": _form("-e", 0, "run", required=True),
    "uv": _form("--with --python -p --extra --group --index-url --env-file --project --directory", 0, "run",
                required=True),
    "uvx": _form("--from --with -p --python --index-url"),
    "coverage": _form("--rcfile --source --include --omit --data-file --context", 0, "run", required=True),
    "memray": _form("-o --output", 0, "run", required=True),
    "viztracer": _form("-o --output_file --tracer_entries --max_stack_depth"),
    "scalene": _form("--outfile --profile-interval --cpu-sampling-rate"),
    "perf": _form("-e -o -F -c -p -C --event --output --call-graph", 0, "record stat", required=True),
    "compute-sanitizer": _form("--tool --log-file --target-processes --kernel-name --save"),
    "cuda-memcheck": _form("--tool --log-file"),
    "nsys": _form("-o -t -w -f -x -s -c -d -y -e --output --trace --sample --capture-range --delay --duration "
                  "--force-overwrite --cudabacktrace --stats --gpu-metrics-device --trace-fork-before-exec",
                  0, "profile launch", required=True),
    "ncu": _form("-o -k -c -s --export --kernel-name --launch-count --launch-skip --set --section --metrics "
                 "--target-processes"),
    "py-spy": _form("-o -f -r -d --output --format --rate --duration", 0, "record", required=True),
    "singularity": _form("-B --bind --env --pwd -H --home --env-file", 1, "exec", required=True),
    "apptainer": _form("-B --bind --env --pwd -H --home --env-file", 1, "exec", required=True),
    "kernprof": _form("-o -s --outfile --setup"),
    "doppler": _form("-p -c --project --config", 0, "run", required=True),
    "busybox": _form(),
    "flock": _form("-w -E --timeout --wait", 1),
}  # fmt: skip


@dataclass(slots=True)
class Unwrapped:
    """What is left of a command without its wrappers.

    assignments: variables that `env` sets. cleared: `env -i`. removed: `env -u NAME`. shell_text: the argument of
    `su -c TEXT` and kin, to be run by a shell. replaces: an `exec` was among them. seconds: of `timeout`.
    background: a terminal or session of its own (`tmux new -d`, `setsid -f`) goes on beside the script.
    """

    fields: list[Field]
    wrappers: tuple[str, ...] = ()
    assignments: list[tuple[str, Field, int]] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    cleared: bool = False
    replaces: bool = False
    seconds: float | None = None
    shell_text: Field | None = None
    background: bool = False


def unwrap(fields: Sequence[Field]) -> Unwrapped:
    """Take wrappers off, outermost first. A wrapper whose options can't be followed stays as the command."""
    result = Unwrapped(list(fields))
    for _ in range(16):
        name = _name(result.fields)
        if name == "env":
            rest = _env(result)
        elif name in ("su", "runuser", "script"):
            return _with_shell_text(result, name)
        elif name == "tmux":
            rest = _detached(result)
            result.background = result.background or rest is not None
        elif name in _FORMS:
            rest = _strip(result, name)
        else:
            break
        if rest is None:
            break
        if name == "exec":
            result.replaces = True
        result.wrappers = (*result.wrappers, name)
        result.fields = rest
    return result


def _name(fields: Sequence[Field]) -> str:
    text = fields[0].text if fields else None
    return "" if text is None else text.rsplit("/", 1)[-1]


def _strip(result: Unwrapped, name: str) -> list[Field] | None:
    form = _FORMS[name]
    fields = result.fields
    position = 1
    operands = form.operands
    pending = set(form.subcommands)
    while position < len(fields):
        text = fields[position].text
        if text is None:
            if operands and not fields[position].many:
                operands -= 1
                position += 1
                continue
            if form.required and pending:
                return None
            break
        if text == "--":
            position += 1
            if not operands and not pending:
                break
        elif text.startswith("-") and len(text) > 1:
            if name == "command" and text in ("-v", "-V"):
                return None
            if name == "setsid" and text in ("-f", "--fork"):
                result.background = True
            position += 2 if text in form.valued else 1
        elif pending:
            if text not in pending:
                return None
            pending.clear()
            position += 1
        elif operands:
            if name in ("timeout", "gtimeout"):
                result.seconds = duration(text)
            operands -= 1
            position += 1
        elif name == "sudo" and "=" in text and text.split("=", 1)[0].isidentifier():
            key = text.split("=", 1)[0]
            result.assignments.append((key, fields[position], len(key) + 1))
            position += 1
        else:
            break
    if form.required and pending:
        return None
    if position >= len(fields) and name != "exec":
        return None
    if name == "flock" and (_name(fields[position:]) == "-c" or (fields[position].text or "").isdecimal()):
        return None
    return list(fields[position:])


def _env(result: Unwrapped) -> list[Field] | None:
    fields = result.fields
    position = 1
    while position < len(fields):
        head = values.prefix(fields[position].value)
        text = fields[position].text
        if text == "--":
            position += 1
            break
        if text in ("-i", "-", "--ignore-environment"):
            result.cleared = True
            position += 1
        elif text in ("-u", "--unset", "-C", "--chdir"):
            if text in ("-u", "--unset") and position + 1 < len(fields):
                result.removed.add(fields[position + 1].text or "")
            position += 2
        elif text is not None and text.startswith("--unset="):
            result.removed.add(text.removeprefix("--unset="))
            position += 1
        elif text is not None and text.startswith("-"):
            if text.startswith(("-S", "--split-string", "-vS")):
                return None
            position += 1
        elif "=" in head and head.split("=", 1)[0].isidentifier():
            key = head.split("=", 1)[0]
            result.assignments.append((key, fields[position], len(key) + 1))
            position += 1
        else:
            break
    return list(fields[position:]) if position < len(fields) else None


def _detached(result: Unwrapped) -> list[Field] | None:
    """`tmux new-session -d -s NAME COMMAND`; None for anything else that tmux does."""
    fields = result.fields[1:]
    detached = False
    if not fields or fields[0].text not in ("new-session", "new"):
        return None
    fields = fields[1:]
    while fields and (text := fields[0].text) is not None and text.startswith("-"):
        if not re.fullmatch(r"-[AdDEPX]*[stnxyceF]?", text):
            return None
        detached = detached or "d" in text
        fields = fields[2 if text[-1] in "stnxyceF" else 1 :]
    return fields if detached and fields and fields[0].text is not None else None


def _with_shell_text(result: Unwrapped, name: str) -> Unwrapped:
    """`su -c TEXT`, `script -qec TEXT FILE`."""
    for index, each in enumerate(result.fields):
        letters = re.fullmatch(r"-[aefq]*c", each.text or "") if name == "script" else None
        if (each.text in ("-c", "--command") or letters) and index + 1 < len(result.fields):
            result.shell_text = result.fields[index + 1]
            result.wrappers = (*result.wrappers, name)
            break
    return result
