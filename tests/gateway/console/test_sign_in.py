"""Sign-in to the console: who gets in, for how long, and which forms are accepted."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from gateway.access.client_window import MAX_LINES
from gateway.records.audit import AuditFilter
from gateway.store.console_sessions import new_link
from gateway.store.transactions import Transactions
from tests.fakes.console import AtConsole, at_console, csrf_token, switch_on
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

PAGES = ["", "/dev", "/dev/connections", "/dev/connection?integration=tracker&id=c1", "/dev/calls", "/dev/call?id=1"]
PAGES += [
    "/dev/integrations",
    "/dev/keys",
    "/dev/key?id=1",
    "/dev/events",
    "/dev/providers",
    "/dev/incident?integration=tracker",
]
ACTS = [
    "connection/refresh",
    "connection/link",
    "connection/delete",
    "key/revoke",
    "events/replay",
    "incident/revoke",
    "key/mint",
]


async def test_there_is_no_console_until_it_is_configured(running: RunningGateway) -> None:
    for path in (*PAGES, "/sign-in", "/dev.json"):
        async with running.http.get(f"{running.url}/console{path}") as response:
            text = await response.text()
            assert (response.status, "Sign in" in text) == (404, False), path


async def test_nobody_sees_a_page_without_signing_in(running: RunningGateway, tracker: Tracker) -> None:
    switch_on(running)
    await running.import_connection(tracker.grant(), "connection-of-anna")
    headers = {"Authorization": running.headers["Authorization"], "Cookie": "gw-console=" + "x" * 43}
    for path in PAGES:
        async with running.http.get(f"{running.url}/console{path}", headers=headers) as response:
            text = await response.text()
            found = (response.status, "gateway console" in text, "connection-of-anna" in text)
            assert found == (401, True, False), path
        head, _, query = path.partition("?")
        async with running.http.get(f"{running.url}/console{head or '/dev'}.json?{query}", headers=headers) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (401, "missing_auth_header"), path


async def test_a_link_works_once_and_only_by_its_button(running: RunningGateway) -> None:
    switch_on(running)
    token, _ = await new_link(running.runtime.store.console_sessions, "ada", "operator")
    url = f"{running.url}/console/sign-in"
    for _ in range(2):  # a link scanner opens it
        async with running.http.get(url, params={"link": token.reveal()}) as response:
            assert (response.status, "Set-Cookie" in response.headers) == (200, False)
    form = {"link": token.reveal()}
    async with running.http.post(url, data=form, allow_redirects=False) as response:
        cookie = response.headers["Set-Cookie"]
        assert (response.status, response.headers["Location"]) == (303, f"{running.url}/console")
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"))
    async with running.http.post(url, data=form, allow_redirects=False) as response:
        assert (response.status, "Set-Cookie" in response.headers) == (403, False)


async def test_a_link_ends_after_ten_minutes_and_a_session_after_its_hours(
    running: RunningGateway, advance_clock: Callable[[float], None]
) -> None:
    switch_on(running, session_hours=1)
    store = running.runtime.store.console_sessions
    token, _ = await new_link(store, "ada", "operator")
    late, _ = await new_link(store, "ada", "operator")
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        url = f"{running.url}/console/sign-in"
        async with http.post(url, data={"link": token.reveal()}) as response:
            assert response.status == 200
        advance_clock(660)
        async with http.post(url, data={"link": late.reveal()}) as response:
            assert response.status == 403
        console = AtConsole(running, http)
        await console.page("/dev")
        advance_clock(3600)
        await console.page("/dev", expect=401)


async def test_signing_out_ends_the_session_for_the_cookie_too(running: RunningGateway) -> None:
    async with at_console(running) as console:
        kept = {cookie.key: cookie.value for cookie in console.http.cookie_jar}
        await console.send("/sign-out", {}, expect=200)
        await console.page("/dev", expect=401)
        async with running.http.get(f"{running.url}/console/dev", cookies=kept) as response:
            assert response.status == 401


async def test_a_wrong_link_or_cookie_causes_no_database_write(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(running)
    writes = []

    async def write(_: Transactions, work: Any, **__: Any) -> None:
        writes.append(work)

    monkeypatch.setattr(Transactions, "write", write)
    url = f"{running.url}/console"
    async with running.http.post(f"{url}/sign-in", data={"link": "x" * 43}, allow_redirects=False) as response:
        assert response.status == 403
    headers = {"Cookie": "gw-console=" + "x" * 43}
    async with running.http.post(f"{url}/sign-out", headers=headers, allow_redirects=False) as response:
        assert response.status == 303
    assert writes == []


async def test_over_https_the_cookie_is_bound_to_this_host(running: RunningGateway) -> None:

    config = running.runtime.generation.config
    running.configure(server=replace(config.server, public_url="https://gw.example.com"))
    switch_on(running)
    token, _ = await new_link(running.runtime.store.console_sessions, "ada", "operator")
    url = f"{running.url}/console/sign-in"
    async with running.http.post(url, data={"link": token.reveal()}, allow_redirects=False) as response:
        cookie = response.headers["Set-Cookie"]
    assert cookie.startswith("__Host-gw-console=")
    assert "Secure" in cookie
    signed_in = cookie.partition(";")[0]
    # another host of the domain can set a cookie with this name, since the name begins with U+2000
    for sent, status in ((signed_in, 200), (f"\u2000{signed_in}", 401), (f"a=b; \u00a0{signed_in}", 401)):
        async with running.http.get(
            f"{running.url}/console/dev", headers={"Cookie": sent}, allow_redirects=False
        ) as response:
            assert response.status == status, sent


async def test_a_viewer_sees_everything_and_changes_nothing(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    where = {"integration": "tracker", "id": "c1"}
    async with at_console(running) as operator:
        form = csrf_token(await operator.page("/dev/connection?integration=tracker&id=c1"))
    async with at_console(running, "viewer") as viewer:
        page = await viewer.page("/dev/connection?integration=tracker&id=c1")
        assert "<button" not in page.partition("<main")[2]
        for act in ACTS:
            text = await viewer.send(f"/dev/{act}", {**where, "form": form}, expect=403)
            assert "cannot change anything" in text
    assert (await running.json("GET", "/connections"))["connections"][0]["connection_id"] == "c1"


FORGED: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("without the form's value", {}, {}),
    ("with another's value", {"form": "0" * 64}, {}),
    ("from another site", {"form": "own"}, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
    ("from another port", {"form": "own"}, {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}),
    ("from a name beside it", {"form": "own"}, {"Origin": "https://other.example", "Sec-Fetch-Site": "same-site"}),
    ("with an origin that its site contradicts", {"form": "own"}, {"Sec-Fetch-Site": "cross-site"}),
    ("with another session's form", {"form": "other"}, {}),
    ("from a sandboxed frame", {"form": "own"}, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}),
]


@pytest.mark.parametrize(("fields", "headers"), [item[1:] for item in FORGED], ids=[item[0] for item in FORGED])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_forged_form_does_nothing(
    shared_gateway: RunningGateway, shared_tracker: Tracker, fields: dict[str, str], headers: dict[str, str]
) -> None:
    await shared_gateway.import_connection(shared_tracker.grant())
    async with at_console(shared_gateway) as console:
        own_form = csrf_token(await console.page("/dev/connection?integration=tracker&id=c1"))
        form_fields = {"integration": "tracker", "id": "c1", "typed": "c1", "all_dead": "1", **fields}
        async with at_console(shared_gateway) as another:
            other_form = csrf_token(await another.page("/dev/connection?integration=tracker&id=c1"))
        forms = {"own": own_form, "other": other_form}
        form_fields |= {"form": forms[form_fields["form"]]} if form_fields.get("form") in forms else {}
        for act in ACTS:
            await console.send(f"/dev/{act}", form_fields, headers=headers, expect=403)
            assert len((await shared_gateway.json("GET", "/connections"))["connections"]) == 1, act


async def test_json_is_not_a_form(running: RunningGateway) -> None:
    async with at_console(running) as console:
        url = f"{running.url}/console/dev/events/replay"
        async with console.http.post(url, json={"all_dead": "1"}) as response:
            assert response.status == 400


@pytest.mark.parametrize("path", ["/dev", "/dev/connections", "/dev/calls?live=1"])
async def test_no_page_may_be_framed_cached_or_leak_its_url(running: RunningGateway, path: str) -> None:
    async with at_console(running) as console, console.http.get(f"{running.url}/console{path}") as response:
        headers, text = response.headers, await response.text()
    policy = headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    nonces = {item[1] for item in re.finditer(r"script-src 'nonce-([^']+)'", policy)}
    assert {item[1] for item in re.finditer(r'<script [^>]*nonce="([^"]+)"', text)} == nonces
    assert len(nonces) == (0 if "connections" in path else 1)
    assert text.count("<script") == 2 * len(nonces), "htmx, and the script that marks an old page"
    assert "unsafe" not in policy
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert (headers["X-Frame-Options"], headers["X-Content-Type-Options"]) == ("DENY", "nosniff")


async def test_all_operators_can_be_signed_out_together(running: RunningGateway) -> None:
    async with at_console(running) as console:
        assert await running.runtime.store.console_sessions.end_all() == 1
        await console.page("/dev", expect=401)
    assert await sign_outs(running) == [{"kind": "system", "detail": {"ended": 1}}]


async def test_sign_out_is_audited_with_the_name_of_the_operator(running: RunningGateway) -> None:
    async with at_console(running) as console:
        await console.send("/sign-out", {}, expect=200)
        await console.send("/sign-out", {}, expect=200)
    assert await sign_outs(running) == [
        {"kind": "operator", "name": "ada", "command": "console", "detail": {"role": "operator"}}
    ]


async def sign_outs(running: RunningGateway) -> list[dict[str, Any]]:
    """Return the actor and the detail of each record of a sign-out."""
    await running.runtime.audit_keeper.run_once()
    found = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_out"))
    return [{**item.as_json()["actor"], "detail": item.as_json()["detail"]} for item in found]


async def test_invalid_sign_in_links_are_logged_a_few_times_only(running: RunningGateway) -> None:
    switch_on(running)
    url, headers = f"{running.url}/console/sign-in", {"Origin": running.url}
    with capture_logs() as logs:
        for _ in range(MAX_LINES + 5):
            async with running.http.post(url, data={"link": "x"}, headers=headers) as response:
                assert response.status == 403
    events = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert events == [*["console_sign_in_refused"] * MAX_LINES, "refusals_not_logged"]
