"""Messages reach real servers on loopback, and nothing but the servers learns their addresses."""

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import Message as Letter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiosmtpd.controller import Controller

from stoker.adapters import notifications
from stoker.adapters.notifications import Address, Mail, NoAddressesError
from stoker.api.notification import Message
from tests.certificates.authority import Authority

MESSAGE = Message(
    title="nlp/gpt will be suspended", body="All 8 GPUs are idle.\nTo postpone this: stoker snooze", alarms=True
)
SECRET = "s3cr3t-t0ken"
WHO = {"owner": "ada", "team": "nlp", "namespace": "lab"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A web server on loopback that answers every POST; gives its port."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Inbox:
    """A webhook that keeps what it is sent."""

    def __init__(self, status: int = 200) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self._status = status

    async def __call__(self, request: web.Request) -> web.Response:
        self.requests.append((request.path_qs, dict(request.headers), await request.json()))
        return web.Response(status=self._status, text=f"echoes {request.path_qs}")


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A server's, whose certificate nobody's authority has issued."""
    Authority().issue(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    return context


def address(url: str) -> Address:
    return Address(name="line 1 of team", url=url)


def mail(folder: Path, **lines: str) -> Mail:
    for key, content in lines.items():
        (folder / key).write_text(content)
    return Mail(folder, timeout=20)


# ------------------------------------------------------------------------------------------------------- what is sent


async def test_a_webhook_gets_title_and_text() -> None:
    inbox = Inbox()
    async with serving(inbox) as port:
        assert await Mail(None).send(address(f"json://127.0.0.1:{port}/hooks/{SECRET}?+X-Team=nlp"), MESSAGE) is None
    ((path, headers, body),) = inbox.requests
    assert path == f"/hooks/{SECRET}"
    assert headers["X-Team"] == "nlp"
    assert (body["title"], body["message"], body["type"]) == (MESSAGE.title, MESSAGE.body, "warning")


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # pytest undoes what the process has set
async def test_teams_gets_a_card(tls: ssl.SSLContext) -> None:
    inbox = Inbox(202)
    async with serving(inbox, tls=tls) as port:
        url = f"workflows://127.0.0.1:{port}/workflow/{SECRET}?verify=no"
        assert await Mail(None).send(address(url), MESSAGE) is None
    ((path, _, body),) = inbox.requests
    assert SECRET in path
    assert "All 8 GPUs are idle" in json.dumps(body)


async def test_a_chat_with_slacks_form_of_webhooks_gets_a_text() -> None:
    """Mattermost's, since Slack's own host can't be set."""
    inbox = Inbox()
    async with serving(inbox) as port:
        token = "a" * 26
        assert await Mail(None).send(address(f"mmost://127.0.0.1:{port}/{token}"), MESSAGE) is None
    ((path, _, body),) = inbox.requests
    assert path == f"/hooks/{token}"
    assert MESSAGE.title in body["text"]
    assert "To postpone this: stoker snooze" in body["text"]


class Letterbox:
    """An SMTP server's handler that keeps letters."""

    def __init__(self, answer: str = "250 OK") -> None:
        self.letters: list[tuple[list[str], Letter]] = []
        self._answer = answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.letters.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return self._answer


@pytest.fixture
def letterbox() -> Iterator[tuple[Letterbox, int]]:
    """A real SMTP server on loopback."""
    box = Letterbox()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Controller(box, hostname="127.0.0.1", port=port)
    server.start()
    yield box, port
    server.stop()


async def test_mail_goes_to_the_owner_that_the_job_is_labelled_with(
    letterbox: tuple[Letterbox, int], tmp_path: Path
) -> None:
    box, port = letterbox
    lines = f"mailto://127.0.0.1:{port}?from=stoker@example.com&to={{owner}}@example.com&mode=insecure\n"
    post = mail(tmp_path, team=lines)
    (found,) = post.addresses("team", WHO)
    assert await post.send(found, MESSAGE) is None
    ((to, letter),) = box.letters
    assert to == ["ada@example.com"]
    assert letter["Subject"] == MESSAGE.title
    content = letter.get_payload(decode=True) if not letter.is_multipart() else letter.as_bytes()
    assert isinstance(content, bytes)
    assert b"All 8 GPUs are idle." in content


# --------------------------------------------------------------------------------------------------- what goes wrong


async def test_a_server_that_refuses_is_named_by_its_status_alone() -> None:
    for status in (400, 404, 500, 503):
        async with serving(Inbox(status)) as port:
            assert await Mail(None).send(address(f"json://127.0.0.1:{port}/{SECRET}"), MESSAGE) == f"HTTP {status}"


async def test_no_server_is_no_connection() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        failure = await Mail(None).send(address(f"json://127.0.0.1:{port}/{SECRET}"), MESSAGE)
    assert failure == "no connection, or it broke off"


async def test_a_certificate_of_nobody_is_no_connection(tls: ssl.SSLContext) -> None:
    inbox = Inbox()
    async with serving(inbox, tls=tls) as port:
        failure = await Mail(None).send(address(f"jsons://127.0.0.1:{port}/{SECRET}"), MESSAGE)
    assert failure == "no connection, or it broke off"
    assert inbox.requests == []


async def test_who_leads_no_more_sends_nothing() -> None:
    inbox = Inbox()
    leads = True
    post = Mail(None, may_send=lambda: leads)
    async with serving(inbox) as port:
        assert await post.send(address(f"json://127.0.0.1:{port}/"), MESSAGE) is None
        leads = False
        assert await post.send(address(f"json://127.0.0.1:{port}/"), MESSAGE) == "another controller may be the leader"
    assert len(inbox.requests) == 1


async def test_a_redirect_is_not_followed() -> None:
    inbox = Inbox()
    async with serving(inbox) as elsewhere:

        async def redirect(request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{elsewhere}/")

        async with serving(redirect) as port:
            assert await Mail(None).send(address(f"json://127.0.0.1:{port}/"), MESSAGE) == "HTTP 307"
    assert inbox.requests == []


async def test_a_server_that_hangs_holds_up_nobody_and_gets_no_more_until_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = asyncio.Event()

    async def trickle(request: web.Request) -> web.StreamResponse:
        """Sends a byte before each of the client's limits passes, for ever."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        while not released.is_set():
            await answer.write(b" ")
            await asyncio.sleep(0.05)
        return answer

    post = Mail(None, timeout=0.5)
    async with serving(trickle) as port, serving(Inbox()) as free:
        slow, other = address(f"json://127.0.0.1:{port}/"), Address(name="line 2", url=f"json://127.0.0.1:{free}/")
        answers = await asyncio.gather(post.send(slow, MESSAGE), post.send(slow, MESSAGE))
        assert set(answers) == {"no answer within 0.5 s"}
        assert await post.send(slow, MESSAGE) == "it has not answered an earlier message yet"
        monkeypatch.setattr(post, "_timeout", 60)  # who answers may take its time on a busy machine
        assert await post.send(other, MESSAGE) is None
        released.set()
        while await post.send(slow, MESSAGE) is not None:
            await asyncio.sleep(0.01)


async def test_an_answer_that_comes_as_the_time_is_up_leaves_nothing_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_send", lambda _url, _message: None)
    loop, post = asyncio.get_running_loop(), Mail(None)
    call_soon = loop.call_soon_threadsafe

    def at_once(callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return call_soon(lambda: (callback(*args), sending.cancel()))

    with monkeypatch.context() as moment:
        moment.setattr(loop, "call_soon_threadsafe", at_once)
        sending = asyncio.create_task(post.send(address("json://example.com"), MESSAGE))
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert await post.send(address("json://example.com"), MESSAGE) is None


async def test_without_a_thread_nothing_is_sent_and_no_place_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    post = Mail(None)
    with monkeypatch.context() as moment:
        moment.setattr(threading.Thread, "start", none_left)
        for _ in range(notifications.SENDERS + 1):
            assert await post.send(address("json://example.com"), MESSAGE) == "no thread can be started"
    monkeypatch.setattr(notifications, "_send", lambda _url, _message: None)
    assert await post.send(address("json://example.com"), MESSAGE) is None


@pytest.mark.parametrize(
    "url", ["xoxb-1234", "nonsense://token", "slack://short", "json://", "mailto://", "://", "\x00", "json://[::1"]
)
async def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    assert await Mail(None).send(address(url), MESSAGE) == "Apprise does not know this kind of address"


async def test_no_secret_is_logged_or_returned(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the most talkative level, of servers that refuse, break off, or are none, and of what is no address at all."""
    notifications._apprise.cache_clear()  # takes caplog's handler for one of the process' own
    caplog.set_level(logging.DEBUG)
    root = logging.getLogger()
    text = logging.StreamHandler()
    root.addHandler(text)
    try:
        async with serving(Inbox(500)) as port:
            urls = (
                f"json://ada:{SECRET}@127.0.0.1:{port}/{SECRET}?+Authorization={SECRET}&-q={SECRET}",
                f"json://127.0.0.1:1/{SECRET}",
                f"jsons://127.0.0.1:{port}/{SECRET}?verify=no",
                f"mailto://ada:{SECRET}@127.0.0.1:1?from=a@example.com&to={SECRET}@example.com",
                f"slack://{SECRET}",
                f"{SECRET}://{SECRET}:{SECRET}@{SECRET}/{SECRET}?{SECRET}={SECRET}",
                f"json://{SECRET}.invalid:99999/{SECRET}",
                f"file:///{SECRET}",
            )
            said = [str(await Mail(None).send(address(url), MESSAGE)) for url in urls]
    finally:
        root.removeHandler(text)
    everything = "\n".join([*said, caplog.text, *capfd.readouterr(), repr(address(SECRET))])
    assert SECRET not in everything
    assert said[0] == "HTTP 500"


# ----------------------------------------------------------------------------------------------------- the addresses


def urls(folder: Path, content: str, values: dict[str, str] = WHO) -> list[str]:
    return [one.url for one in mail(folder, team=content).addresses("team", values)]


def test_a_channel_is_a_file_of_addresses_read_each_time(tmp_path: Path) -> None:
    post = mail(tmp_path, team="# the team's\n\njson://a\n  slack://b \n")
    assert [(one.name, one.url) for one in post.addresses("team", {})] == [
        ("line 3 of team", "json://a"),
        ("line 4 of team", "slack://b"),
    ]
    (tmp_path / "team").write_text("json://c")
    assert [one.url for one in post.addresses("team", {})] == ["json://c"]


def test_a_line_whose_placeholder_has_no_value_is_left_out(tmp_path: Path) -> None:
    lines = "json://a/{owner}\njson://b/{team}?to={namespace}\njson://c"
    assert urls(tmp_path, lines) == ["json://a/ada", "json://b/nlp?to=lab", "json://c"]
    assert urls(tmp_path, lines, {**WHO, "owner": ""}) == ["json://b/nlp?to=lab", "json://c"]
    assert urls(tmp_path, lines, {}) == ["json://c"]


@pytest.mark.parametrize(
    "hostile", ["a@evil.example", "a/../b", "x?verify=no", "a&to=b", "a\nb", "a b", "{team}", "ä", "%2e"]
)
def test_what_could_be_no_label_fills_no_placeholder(tmp_path: Path, hostile: str) -> None:
    assert urls(tmp_path, "json://a/{owner}", {"owner": hostile}) == []


@pytest.mark.parametrize(
    "line",
    [
        "json://{team}.example.com/hook",
        "json://{team}",
        "mailto://{owner}:x@example.com",
        "{team}://example.com",
        "json://example.com/hook?{team}=yes",
        "{team}",
    ],
)
def test_no_label_chooses_server_user_or_option(tmp_path: Path, line: str) -> None:
    with pytest.raises(NoAddressesError, match="line 1 of team: a placeholder stands in the path"):
        urls(tmp_path, line)


def test_other_braces_are_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(NoAddressesError) as refused:
        urls(tmp_path, f"json://a/{{{SECRET}}}")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "key, content, said",
    [
        ("none", "x", "the notification Secret has no key none"),
        ("..", "x", "the name is not a valid key of a Secret"),
        (".", "x", "the name is not a valid key of a Secret"),
        ("../team", "x", "the name is not a valid key of a Secret"),
        ("..data", "x", "the name is not a valid key of a Secret"),
        ("team", "# nobody\n", "the key team of the notification Secret has no address"),
        ("team", "json://a\n" * 33, "the key team of the notification Secret has more than 32 addresses"),
        ("team", "json://a/" + "a" * 3000, "line 1 of team has more than 2048 characters"),
        ("team", "#" * 70_000, "the key team of the notification Secret has more than 65536 bytes"),
    ],
)
def test_a_channel_without_addresses_says_why(tmp_path: Path, key: str, content: str, said: str) -> None:
    post = mail(tmp_path, team=content)
    with pytest.raises(NoAddressesError) as why:
        post.addresses(key, {})
    assert str(why.value) == said


def test_bytes_that_are_no_text_are_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "team").write_bytes(b"json://\xff\xfe")
    with pytest.raises(NoAddressesError, match="the key team of the notification Secret can't be read as text"):
        Mail(tmp_path).addresses("team", {})


def test_without_a_secret_nobody_can_be_told() -> None:
    with pytest.raises(NoAddressesError, match=r"notification\.secretName"):
        Mail(None).addresses("team", {})
