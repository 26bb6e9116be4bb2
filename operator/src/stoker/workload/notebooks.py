"""Where Jupyter servers answer in a trainer's pod: by the script that starts them, or by the owner's word."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.api.dljob import TRAINER
from stoker.api.names import JUPYTER_ANNOTATION
from stoker.findings.quantity import small_number
from stoker.lint.launch.model import Command, LaunchPlan, Role
from stoker.shell.model import Word

DEFAULT_PORT = 8888
"""The port of jupyter_server where no option names one."""
OFF = "off"
PORT_VARIABLE, TOKEN_VARIABLE = "JUPYTER_PORT", "JUPYTER_TOKEN"
"""jupyter_server's own defaults of --port and of the token."""

_SERVERS = frozenset(
    {
        *("jupyter-lab", "jupyter-notebook", "jupyter-server", "jupyter-labhub", "jupyterhub-singleuser"),
        *("jupyterlab", "notebook", "jupyter_server"),
        *("start-notebook.sh", "start-notebook.py", "start-singleuser.sh"),
    }
)
"""Commands, modules, and the start scripts of Jupyter's own images."""
_APPLICATIONS = frozenset({"lab", "notebook", "server", "nbclassic", "labhub"})
"""What of `jupyter APPLICATION` serves notebooks."""
_OPTION = re.compile(r"--(?:[A-Za-z]\w*\.)?(port|base_url|token|certfile|sock)(?:=(.*))?", re.DOTALL)
"""Alone or of a class, as jupyter_server spells them: --port, --ServerApp.base_url, --IdentityProvider.token."""
_ADDRESS = re.compile(r"([0-9]{1,5})(/.*)?", re.DOTALL)
_BASE = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[\w.~@%+=:-]+)*/?", re.ASCII)
MAX_BASE = 200
"""Characters of a base URL that is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """A Jupyter server. `port` and `base` (`/user/ann`, or nothing) say where it answers, unless `fault` says why that
    is not known. `token` is what it asks for, as far as it stands in the script.
    """

    port: int = DEFAULT_PORT
    base: str = ""
    token: str | None = field(default=None, repr=False)
    fault: str | None = None


def notebooks(plan: LaunchPlan | None) -> tuple[Notebook, ...]:
    """The servers that a script starts, in its order."""
    if plan is None:
        return ()
    commands = (command for command in plan.of(Role.INTERACTIVE) if _serves(command))
    return tuple(dict.fromkeys(_started(command) for command in commands))


def named(annotations: Mapping[str, str]) -> tuple[Notebook, ...] | None:
    """What the owner says of them in the annotation; None without it. With `off` there are none to ask."""
    text = annotations.get(JUPYTER_ANNOTATION)
    if text is None:
        return None
    if text == OFF:
        return ()
    address = _ADDRESS.fullmatch(text)
    base = _base((address[2] or "") if address is not None else "?")
    if address is None or base is None or not 0 < int(address[1]) < 65536:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        allowed = f"must be a port with the server's base URL, such as 8888 or 8888/user/ann, or {OFF}"
        return (Notebook(fault=f"annotation {JUPYTER_ANNOTATION}: {shown!r}: {allowed}"),)
    return (Notebook(port=int(address[1]), base=base),)


def literal_token(pod: Mapping[str, Any]) -> str | None:
    """The token that stands in the trainer's environment; None where there is none, or a Secret holds it."""
    trainer: Mapping[str, Any] = next((one for one in pod["spec"]["containers"] if one["name"] == TRAINER), {})
    values = [one.get("value") for one in trainer.get("env", ()) if one["name"] == TOKEN_VARIABLE]
    return values[-1] if values else None


def _serves(command: Command) -> bool:
    if command.tool in _SERVERS:
        return True
    words = [word.text or "" for word in command.invocation.argv]
    after = words[words.index("jupyter") + 1 :] if "jupyter" in words else words[1:]
    application = next((word for word in after if not word.startswith("-")), None)
    return command.tool == "jupyter" and (application is None or application in _APPLICATIONS)


def _started(command: Command) -> Notebook:
    given = dict(_options(command.invocation.argv))
    environment = command.invocation.environment
    if given.get("certfile", "") != "" or given.get("sock", "") != "":
        return Notebook(fault="it listens with TLS or on a Unix socket")
    port = given["port"] if "port" in given else _variable(environment, PORT_VARIABLE, str(DEFAULT_PORT))
    base = _base(given.get("base_url", "") or "") if given.get("base_url", "") is not None else None
    number = small_number(port)
    if number is None or not 0 < number < 65536 or base is None:
        return Notebook(fault="the script does not show its port and base URL")
    token = given["token"] if "token" in given else _variable(environment, TOKEN_VARIABLE, None)
    return Notebook(port=number, base=base, token=token)


def _options(words: Sequence[Word]) -> Iterator[tuple[str, str | None]]:
    """The options that matter, each with its value; None for one that is not known."""
    for index, word in enumerate(words):
        option = _OPTION.fullmatch(word.text if word.text is not None else word.prefix)
        if option is None:
            continue
        if word.text is None:
            yield option[1], None
        elif option[2] is not None:
            yield option[1], option[2]
        else:
            yield option[1], words[index + 1].text if index + 1 < len(words) else None


def _variable(environment: Mapping[str, Word], name: str, default: str | None) -> str | None:
    word = environment.get(name)
    return default if word is None else word.text


def _base(text: str) -> str | None:
    """A base URL's path without the slash at its end; None for one that is none."""
    text = f"/{text.strip('/')}" if text.strip("/") else ""
    return text if len(text) <= MAX_BASE and _BASE.fullmatch(text) else None
