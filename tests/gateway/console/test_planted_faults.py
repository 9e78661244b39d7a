"""Ten typical faults: for each one, the console's first page, or a page one click away, shows the cause and the fix."""

import asyncio
import re
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import unescape
from pathlib import Path

import pytest
from aiohttp import web

from gateway import clock
from gateway.clock import Offset, ProviderDates
from gateway.console import alarms, sign_in
from gateway.errors import Unavailable
from gateway.records.operation import Operation, OperationFilter
from gateway.store.console_sessions import ConsoleSessionStore
from tests.fakes.console import ONE, AtConsole, at_console
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import closed_port
from tests.fakes.tracker import Tracker

LINK = re.compile(r"<main.*</main>", re.DOTALL)
MARKUP = re.compile(r"<[^>]*>")
HREF = re.compile(r'href="([^"]+)"')


@pytest.fixture
def closed_server_port() -> Iterator[int]:
    with closed_port() as port:
        yield port


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path, closed_server_port: int) -> AsyncIterator[RunningGateway]:
    """A gateway with an integration `down`, whose provider is down, and with a dead webhook receiver."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    down = {"display_name": "Down", "categories": ["crm"], "auth_mode": "API_KEY", "provenance": "reviewed"}
    write_entry(tmp_path, "down", {**down, "proxy": {"base_url": f"http://127.0.0.1:{closed_server_port}"}})
    configuration = document(["127.0.0.1/32"], down={"provider": "down"})
    configuration["environments"]["dev"]["webhook_url"] = f"http://127.0.0.1:{closed_server_port}/events"
    found = RunningGateway(tmp_path, configuration)
    await found.start()
    yield found
    await found.stop()


async def words_not_within_one_click(console: AtConsole, *arguments: str) -> list[str]:
    """Return the words that are neither on the first page nor all together on one page that it links to."""
    first = await console.page("/dev")
    missing = [word for word in arguments if word not in first]
    main = LINK.search(first)
    assert main is not None
    for url in dict.fromkeys(HREF.findall(main[0])):
        path = unescape(url).partition("/console")[2]
        if missing and path:
            both = first + await console.page(path)
            missing = min(missing, [word for word in arguments if word not in both], key=len)
    return missing


async def flush(running: RunningGateway) -> None:
    await running.runtime.call_queue.flush()


async def test_an_expired_client_secret_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    tracker.response = web.json_response({"error": "invalid_client", "error_description": "secret expired"}, status=401)
    grant = {**tracker.grant(), "expires_at": "2020-01-01T00:00:00Z"}
    grant.pop("expires_in", None)
    await running.import_connection(grant)
    await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true")
    for _ in range(2):
        async with running.call_proxy("c1") as response:
            assert response.status == 424
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console,
                "client secret has expired",
                "Create a new secret in the provider's developer console",
                "tracker",
            )
            == []
        )
        first = await console.page("/dev")
        assert "reconnect_needed" in first
        assert "revoked the access" not in first
        assert "let the end user connect again" not in first.lower()
        findings = (await console.data("/dev/integration.json?key=tracker"))["findings"]
        assert "refuses the app itself" in next(finding["what"] for finding in findings if not finding["ok"])
        assert not any("looks right" in finding["what"] for finding in findings)
        assert "The integration is correct: let the end user connect again" in await console.page(ONE)
        tracker.response = None
        await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true", expect=200)
        await flush(running)
        assert all(finding["ok"] for finding in (await console.data("/dev/integration.json?key=tracker"))["findings"])
        shown = (await console.data("/dev.json"))["failures"]
        assert {item["reason"] for item in shown if item["goes_on"]} <= {"event_not_delivered"}
        assert "Resolved: the provider accepts the app again." in await console.page("/dev")
        assert "The integration is correct" not in await console.page(ONE)


async def test_a_revoked_grant_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection({**tracker.grant(), "refresh_token": "revoked"})
    await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true")
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console, "revoked the access", "Let the end user connect again", "tracker/c1", "needs reauth"
            )
            == []
        )


async def test_an_outage_of_the_provider_is_explained(running: RunningGateway) -> None:
    body = {
        "provider_config_key": "down",
        "connection_id": "d1",
        "credentials": {"type": "API_KEY", "apiKey": "k-0123"},
    }
    await running.json("POST", "/connections", json=body, expect=201)
    for _ in range(25):
        async with running.call_proxy("d1", integration="down") as response:
            assert response.status in (502, 503)
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console, "The provider does not respond", "Check the provider's status page", "down"
            )
            == []
        )
        first = await console.page("/dev")
        assert "calls to it are refused for now" in first
        assert "the provider did not respond to earlier calls" in first
        assert "Problems of the gateway itself" not in first
        assert "circuit open" in await console.page("/dev/providers")
        rows = {provider["name"]: provider for provider in (await console.data("/dev/providers.json"))["providers"]}
        assert rows["tracker"]["left_alone"] == []  # same host, other port
        assert rows["down"]["left_alone"]
        assert set(rows["down"]["errors"]) == {"unreachable", "held back"}


async def test_a_rate_limit_of_the_provider_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    tracker.refusal, tracker.forbidden = 429, {"/x"}
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1") as response:
        assert response.status == 429
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(console, "The provider limits the rate", "Send fewer calls", "tracker")
            == []
        )


async def test_a_wrong_clock_is_explained(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    off, now = Offset(), datetime.now(UTC)
    off.add_measurement(now, now, now + timedelta(seconds=42))
    async with at_console(running) as console:
        monkeypatch.setattr(clock, "offset", off)
        assert await words_not_within_one_click(console, "42 s behind the database's", "Synchronize it with NTP") == []


async def test_a_clock_that_differs_from_providers_is_explained(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    dates, now = ProviderDates(), datetime.now(UTC)
    for _ in range(3):
        dates.add_date(now, now, format_datetime(now - timedelta(seconds=900), usegmt=True))
    async with at_console(running) as console:
        assert "the clocks of the providers" not in await console.page("/dev")
        monkeypatch.setattr(clock, "provider_dates", dates)
        assert (
            await words_not_within_one_click(
                console, "900 s ahead of the clocks of the providers that responded last", "Synchronize this machine"
            )
            == []
        )


async def test_a_wrong_redirect_url_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    error = {"error": "redirect_uri_mismatch", "error_description": "The redirect_uri is not registered"}
    tracker.response = web.json_response(error, status=400)
    token = await running.session_token()
    url = f"{running.url}/oauth/connect/tracker?connect_session_token={token}"
    async with running.http.get(url) as response:
        assert response.status == 400
    await flush(running)
    async with at_console(running) as console:
        assert await words_not_within_one_click(console, "callback URL", "token_request_failed", "tracker") == []
        (operation,) = (await console.data("/dev/calls.json?kind=authorization"))["operations"]
        assert "redirect_uri_mismatch" in await console.page(f"/dev/call?id={operation['id']}")
        assert f"{running.url}/oauth/callback" in await console.page("/dev/integrations")


async def test_a_webhook_receiver_that_is_down_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    log, wanted = running.runtime.store.call_log, OperationFilter("dev", kind="delivery")
    async with asyncio.timeout(PATIENCE_S):
        while not (await log.find(wanted)).operations:
            await asyncio.sleep(0.01)  # the gateway's own loop delivers
            await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console, "does not accept events", "Fix the receiver", "1 event waits for delivery"
            )
            == []
        )


async def test_a_misused_key_is_explained(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    body = {"display_name": "agent", "limits": {"rules": ["GET /items/*"]}}
    minted = (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    headers = {"Authorization": f"Bearer {minted['secret']}"}
    async with running.call_proxy("c1", "/admin", method="DELETE", headers=headers) as response:
        assert response.status == 403
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(console, "do not allow", "Revoke the key", f"key?id={minted['id']}") == []
        )
        assert "no call reached it" in await console.page("/dev")
        assert "over 10,000" not in await console.page("/dev/providers")
        (operation,) = (await console.data("/dev/calls.json?code=forbidden"))["operations"]
        assert (operation["key_id"], operation["path"]) == (minted["id"], "/admin")


async def test_a_key_that_calls_too_often_or_without_its_scope_is_explained(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    eager = {"display_name": "eager", "limits": {"connections": ["tracker/c1"], "rate": 1}}
    other = {"display_name": "other", "scopes": ["environment:logs:read"]}
    made = [
        (await running.json("POST", "/environment/api-keys", json=body, expect=200))["data"] for body in (eager, other)
    ]
    for item, status in ((made[0], 200), (made[0], 429), (made[1], 403)):
        async with running.call_proxy("c1", headers={"Authorization": f"Bearer {item['secret']}"}) as response:
            assert response.status == status
    await flush(running)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console, "more calls than its rate or budget allows", "Mint a key with a higher rate", "tracker"
            )
            == []
        )
        for entry, code in ((made[0], "too_many_request"), (made[1], "forbidden")):
            (found,) = (await console.data(f"/dev/calls.json?code={code}"))["operations"]
            assert (found["key_id"], found["provider_config_key"], found["connection_id"]) == (
                entry["id"],
                "tracker",
                "c1",
            )


async def test_an_unwritable_call_log_is_explained(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_records: object) -> None:
        raise Unavailable("store_unavailable", "less than 128 MiB are free")

    monkeypatch.setattr(running.runtime.store.call_log, "add_many", refuse)
    async with running.call_proxy("unknown") as response:
        await response.read()
    async with asyncio.timeout(PATIENCE_S):
        while running.runtime.call_queue.unwritable is None:
            await asyncio.sleep(0.01)
    async with at_console(running) as console:
        assert (
            await words_not_within_one_click(
                console, "The call log is not written: less than 128 MiB are free", "Calls still work"
            )
            == []
        )


async def test_a_failure_that_has_ended_is_dimmed(running: RunningGateway) -> None:
    rows = [
        Operation("call", datetime.now(UTC) - age, "r", "dev", "tracker", "c1", "GET", "", "/x", status)
        for age, status in ((timedelta(0), 404), (timedelta(hours=2), 429))
    ]
    await running.runtime.store.call_log.add_many(rows)
    async with at_console(running) as console:
        page = await console.page("/dev")
        assert page.count('<tr class="over">') == 1
        shown = (await console.data("/dev.json"))["failures"]
        assert [(item["reason"], item["goes_on"]) for item in shown] == [("404", True), ("429", False)]


async def test_a_nearly_full_disk_is_explained(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 (same as in shutil)
    async with at_console(running) as console:
        monkeypatch.setattr(alarms.shutil, "disk_usage", lambda _: usage(100 << 30, 99 << 30, 300 << 20))
        assert (
            await words_not_within_one_click(
                console, f"The disk of {running.folder} has 300 of 102,400 MiB free", "Free space on the disk"
            )
            == []
        )
        for page in ("/dev/connections", "/dev/calls"):
            assert "has 300 of 102,400 MiB free. What to do" in MARKUP.sub("", await console.page(page))
        monkeypatch.setattr(alarms.shutil, "disk_usage", lambda _: usage(300 << 20, 2 << 20, 298 << 20))
        assert "of 300 MiB free" not in await console.page("/dev"), "a small disk with most of it free"


async def test_a_disabled_call_log_is_explained(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_console(running) as console:
        assert "The call log is off" not in await console.page("/dev/calls")
        monkeypatch.setattr(running.runtime.call_queue, "stores_calls", False)
        assert "The call log is off" in await console.page("/dev/calls")


async def test_an_outage_of_the_store_is_explained(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_console(running) as console:
        with monkeypatch.context() as patched:
            patched.setattr(type(running.runtime.live.feed), "outage_s", property(lambda _: 42.0))
            assert (
                await words_not_within_one_click(
                    console, "The database has been unreachable for 42 s", "Check that it runs"
                )
                == []
            )

        async def raise_unavailable(*_: object, **__: object) -> None:
            raise Unavailable("store_unavailable", "The store cannot be reached: no route.", retry_after_s=5)

        monkeypatch.setattr(ConsoleSessionStore, "get", raise_unavailable)
        page = await console.page("/dev", expect=503)
        assert "The store cannot be reached" in page
        assert "This page reloads every 15 s" in page
        assert '<meta http-equiv="refresh" content="15">' in page
        assert "the disk" not in page
        monkeypatch.setattr(sign_in, "has_shared_store", lambda _: True)
        assert "Start PostgreSQL" in await console.page("/dev", expect=503)
