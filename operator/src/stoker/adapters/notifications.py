"""Messages to people, by Apprise (https://github.com/caronc/apprise): chats, mail, webhooks, each known by a URL.

The URLs are secrets. They are read from files of a mounted Secret, each time anew, and leave this module only towards
their own servers: neither what Apprise says of a failure nor what the libraries under it log is passed on.
"""

import asyncio
import logging
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stoker.api.meta import LABEL_VALUE
from stoker.api.notification import Message

SEND_TIMEOUT = 30.0
"""Seconds that one address may take; Apprise's own limits are 4 s for a connection and for each answer."""
SENDERS = 16
"""So many threads send at once; one that hangs keeps its place until it ends, and its address gets no other."""
MAX_FILE = 65_536
"""Bytes of a file of addresses."""
MAX_ADDRESSES = 32
"""Addresses of one channel."""
MAX_ADDRESS = 2_048
"""Characters of one address; Apprise has no bound of its own."""

KEY = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""What a Secret's key may be called (k8s.io/apimachinery, IsConfigMapKey)."""
PLACES = ("owner", "team", "namespace")
_PLACE = re.compile(r"\{([^{}]*)\}")
_BEFORE_PATH = re.compile(r"[^/?#]*://[^/?#]*|[^/?#]*")
"""Of a URL the scheme, the user and the host; of anything else all that could be."""
_THREAD = "notification-"


class NoAddressesError(Exception):
    """Why nobody can be told, in words that hold no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One line of a channel's file. `name` says which one it is without giving it away."""

    name: str
    url: str = field(repr=False)


class Channels:
    """The channels' addresses, in the files of a folder: one file a channel, one URL a line."""

    def __init__(self, folder: Path | None) -> None:
        """`folder` None: there are no channels."""
        self._folder = folder

    def addresses(self, key: str, values: Mapping[str, str]) -> list[Address]:
        """The addresses of the channel `key` with `values` for {owner}, {team} and {namespace}; a line with one that
        has no value is left out. Raises NoAddressesError.
        """
        return [address for line in self._lines(key) if (address := _address(key, *line, values)) is not None]

    def _lines(self, key: str) -> Iterator[tuple[int, str]]:
        if self._folder is None:
            raise NoAddressesError("the controller has no notification Secret (the chart's notification.secretName)")
        if not KEY.fullmatch(key) or key == ".":
            raise NoAddressesError("the name is not a valid key of a Secret")
        try:
            with (self._folder / key).open("rb") as file:
                content = file.read(MAX_FILE + 1)
            text = content.decode()
        except FileNotFoundError:
            raise NoAddressesError(f"the notification Secret has no key {key}") from None
        except (OSError, ValueError):
            raise NoAddressesError(f"the key {key} of the notification Secret can't be read as text") from None
        if len(content) > MAX_FILE:
            raise NoAddressesError(f"the key {key} of the notification Secret has more than {MAX_FILE} bytes")
        lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
        lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
        if not lines:
            raise NoAddressesError(f"the key {key} of the notification Secret has no address")
        if len(lines) > MAX_ADDRESSES:
            raise NoAddressesError(f"the key {key} of the notification Secret has more than {MAX_ADDRESSES} addresses")
        yield from lines


def _address(key: str, number: int, line: str, values: Mapping[str, str]) -> Address | None:
    name = f"line {number} of {key}"
    if len(line) > MAX_ADDRESS:
        raise NoAddressesError(f"{name} has more than {MAX_ADDRESS} characters")
    wanted = _PLACE.findall(line)
    if not set(wanted) <= set(PLACES):
        raise NoAddressesError(f"{name}: in braces stand {', '.join(f'{{{one}}}' for one in PLACES)} only")
    if not _only_in_values(line):
        raise NoAddressesError(
            f"{name}: a placeholder stands in the path, or in what an option is set to: the author of a job must not"
            " choose the server, the user or the option"
        )
    if not all(LABEL_VALUE.fullmatch(values.get(one, "")) and values.get(one) for one in wanted):
        return None
    return Address(name=name, url=_PLACE.sub(lambda match: quote(values[match[1]], safe=""), line))


def _only_in_values(line: str) -> bool:
    head = _BEFORE_PATH.match(line)
    assert head is not None  # it matches nothing, too
    _, _, query = line.partition("?")
    options = (option.partition("=") for option in query.split("&")) if query else ()
    return "{" not in head[0] and not any("{" in name for name, _, _ in options)


class Mail(Channels):
    """Channels, and the sending: each message to one address, in threads that nothing waits for at the end of the
    process.
    """

    def __init__(
        self, folder: Path | None, *, timeout: float = SEND_TIMEOUT, may_send: Callable[[], bool] = lambda: True
    ) -> None:
        """`may_send`: whether it is this process that speaks; of several only the leader does."""
        super().__init__(folder)
        self._may_send = may_send
        self._timeout = timeout
        self._places = asyncio.Semaphore(SENDERS)
        self._hanging: Counter[str] = Counter()

    async def send(self, address: Address, message: Message) -> str | None:
        """Send; None when the address has taken the message, otherwise why not, in fixed words. Raises nothing."""
        if not self._may_send():
            return "another controller may be the leader"
        if self._hanging[address.name]:
            return "it has not answered an earlier message yet"
        try:
            async with asyncio.timeout(self._timeout):
                await self._places.acquire()
                return await self._threaded(address, message)
        except TimeoutError:
            return f"no answer within {self._timeout:g} s"

    async def _threaded(self, address: Address, message: Message) -> str | None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def done(result: str | None) -> None:
            self._places.release()
            if answer.cancelled():
                self._hanging[address.name] -= 1
            else:
                answer.set_result(result)

        def run() -> None:
            try:
                result = _send(address.url, message)
            except Exception as error:
                # What it says may hold the address.
                result = f"Apprise failed ({type(error).__name__})"
            try:
                loop.call_soon_threadsafe(done, result)
            except RuntimeError:
                return  # the process ends

        try:
            threading.Thread(target=run, name=f"{_THREAD}{id(answer):x}", daemon=True).start()
        except RuntimeError:
            self._places.release()
            return "no thread can be started"
        try:
            return await answer
        except asyncio.CancelledError:
            # The answer may have come in the same moment, and then nothing hangs.
            self._hanging[address.name] += answer.cancelled()
            raise


def _send(url: str, message: Message) -> str | None:
    with _LOADING:
        library = _apprise()
    service = library.module.Apprise.instantiate(url, asset=library.asset)
    if service is None:
        return "Apprise does not know this kind of address"
    channel = library.module.Apprise(asset=library.asset)
    channel.add(service)
    kind = library.module.NotifyType.WARNING if message.alarms else library.module.NotifyType.INFO
    text = library.module.NotifyFormat.TEXT
    library.reasons.forget()
    taken = channel.notify(title=message.title, body=message.body, notify_type=kind, body_format=text)
    return None if taken else library.reasons.of_this_thread()


class _Reasons(logging.Handler):
    """Why Apprise could not send, from what it logs in a thread: of its words only a status and that it had no
    connection are kept.
    """

    _STATUS = re.compile(r"\berror=([1-5][0-9]{2})\b")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found = threading.local()

    def forget(self) -> None:
        self._found.reason = None

    def of_this_thread(self) -> str:
        return getattr(self._found, "reason", None) or "it was not accepted"

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if status := self._STATUS.search(said):
            self._found.reason = f"HTTP {status[1]}"
        elif "connection error" in said.lower():
            self._found.reason = "no connection, or it broke off"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    module: Any
    asset: Any
    reasons: _Reasons


_LOADING = threading.Lock()


@cache
def _apprise() -> _Library:
    """Apprise, imported when it is first needed: it brings 25 MB into memory."""
    from urllib3.exceptions import InsecureRequestWarning  # noqa: PLC0415 - as said

    with warnings.catch_warnings():
        # Some of its plug-ins, which it loads all with the first address, warn of themselves.
        warnings.simplefilter("ignore", DeprecationWarning)
        import apprise  # noqa: PLC0415 - as said

        apprise.Apprise.instantiate("json://localhost")
    own = logging.getLogger("apprise")
    own.propagate = False
    reasons = _Reasons()
    own.addHandler(reasons)
    # The libraries under it name URLs in their debugging output, and this warning names a host.
    for handler in logging.getLogger().handlers:
        handler.addFilter(_not_of_senders)
    warnings.filterwarnings("ignore", category=InsecureRequestWarning)
    # In the calling thread, without files of its own, and to no other server than the one in the URL.
    asset = apprise.AppriseAsset(async_mode=False, service_timeout=0, storage_mode="memory", http_redirects=False)
    asset.app_id, asset.app_desc, asset.app_url = "Stoker", "Stoker", ""
    return _Library(module=apprise, asset=asset, reasons=reasons)


def _not_of_senders(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(_THREAD)
