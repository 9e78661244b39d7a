"""What the console's pages show and do; each page and its JSON are made of the same data."""

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from gateway.console import integration_views, key_views, provider_views
from gateway.console.view_table import VIEWS
from gateway.integrations.client_mistakes import client_mistakes
from gateway.records.audit import AuditFilter
from gateway.records.connection import RefusedScopes
from gateway.records.integration import Integration
from gateway.records.operation import Operation
from gateway.secret import Secret
from gateway.store import ListFilter
from tests.fakes.console import at_console, form_in
from tests.fakes.gateways import SECRET_KEY, RunningGateway
from tests.fakes.processes import ROOT
from tests.fakes.tracker import Tracker

ONE = "/dev/connection?integration=tracker&id=c1"
MORE = (
    "/dev/integration?key=tracker",
    "/dev/events",
    "/dev/providers",
    "/dev/incident?integration=tracker",
    "/dev/incident?key=1",
)


def operation(number: int, **fields: Any) -> Operation:
    at = datetime.now(UTC) - timedelta(seconds=number)
    plain = Operation("call", at, f"r{number}", "dev", "tracker", "c1", "GET", path=f"/items/{number}", status=200)
    return plain._replace(**fields)


async def test_an_idle_gateway_needs_nobody(running: RunningGateway) -> None:
    async with at_console(running) as console:
        page = await console.page("/dev")
        assert "Nothing needs you" in page
        data = await console.data("/dev.json")
        assert (data["failures"], data["trouble"], data["dead"], data["traffic"]) == ([], [], [], None)


async def test_now_groups_failures_and_leads_to_each(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    refused = [operation(n, status=403, error_code="forbidden", key_id=7, rule="rules") for n in range(3)]
    down = [operation(n, status=502, error_code="upstream_unreachable") for n in range(10, 15)]
    await log.add_many([*refused, *down, operation(20, upstream_ms=5.0, gateway_ms=0.2), operation(21, status=404)])
    async with at_console(running) as console:
        data = await console.data("/dev.json")
        found = [(one["count"], one["kind"], one["reason"]) for one in data["failures"]]
        assert found == [(5, "call", "upstream_unreachable"), (3, "call", "forbidden"), (1, "call", "404")]
        assert data["traffic"]["calls"] == 10
        assert data["traffic"]["failed_percent"] == 90.0
        page = await console.page("/dev")
        assert "code=upstream_unreachable" in page
        listed = await console.data("/dev/calls.json?kind=call&integration=tracker&code=forbidden&since=24h")
        assert len(listed["operations"]) == 3
        assert (await console.data("/dev/calls.json?status=404&failed=1&since=24h"))["operations"][0]["status"] == 404


async def test_one_call_with_all_that_happened_under_it(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    await log.add_many(
        [
            operation(
                2, kind="refresh", request_id="r1", path="", method="", token_ms=None, error_code="invalid_grant"
            ),
            operation(1, gateway_ms=0.5, token_ms=20.0, upstream_ms=80.0, rule="GET /items/*", key_id=3),
            operation(3),
        ]
    )
    async with at_console(running) as console:
        calls = (await console.data("/dev/calls.json?request=r1&kind=call"))["operations"]
        one = await console.data(f"/dev/call.json?id={calls[0]['id']}")
        assert one["operation"]["path"] == "/items/1"
        assert [other["kind"] for other in one["others"]] == ["refresh"]
        assert [(part["name"], part["ms"]) for part in one["where"]["parts"]] == [
            ("gateway", 0.5),
            ("token", 20.0),
            ("provider", 80.0),
        ]
        assert "Gateway-Dry-Run: true" in one["curl"]
        page = await console.page(f"/dev/call?id={calls[0]['id']}")
        assert "GET /items/*" in page
        for path in ("/dev/call?id=0", "/dev/call?id=x", "/dev/call?id=99999999999"):
            await console.page(path, expect=404)


@pytest.mark.parametrize("query", ["since=x", "status=9xx", "key=x", "before=-1", "kind=dance", "text=x"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_filter_is_named(shared: RunningGateway, query: str) -> None:
    async with at_console(shared) as console:
        assert f"'{query.partition('=')[0]}' " in await console.page(f"/dev/calls?{query}", expect=400)


async def test_a_connection_with_its_story_and_its_acts(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant(), end_user={"id": "u1", "display_name": "Ada <b>"})
    async with at_console(running) as console:
        page = await console.page(ONE)
        assert "active: authorized" in page
        form = form_in(page)
        where = {"form": form, "integration": "tracker", "id": "c1"}
        before = await console.data(ONE.replace("?", ".json?"))
        await console.send("/dev/connection/refresh", where)
        after = await console.data(ONE.replace("?", ".json?"))
        assert after["connection"]["last_refreshed_at"] > before["connection"]["last_refreshed_at"]
        shown = await console.send("/dev/connection/link", where)
        assert "/connect?session_token=" in shown
        kept = await console.send("/dev/connection/delete", {**where, "typed": "c2"}, expect=400)
        assert "type the connection's id" in kept
        done = await console.send("/dev/connection/delete", {**where, "typed": "c1"})
        assert "is gone here" in done
        await console.page(ONE, expect=404)


async def test_connections_are_found_and_paged(running: RunningGateway, tracker: Tracker) -> None:
    for n in range(53):
        await running.imported(tracker.grant(), f"c{n}")
    async with at_console(running) as console:
        first = await console.data("/dev/connections.json")
        assert (len(first["connections"]), first["connections"][0]["connection_id"]) == (50, "c52")
        rest = await console.data(f"/dev/connections.json?cursor={first['following']}")
        assert [one["connection_id"] for one in rest["connections"]] == ["c2", "c1", "c0"]
        assert (await console.data("/dev/connections.json?trouble=1"))["connections"] == []
        found = await console.data("/dev/connections.json?search=C51")
        assert [one["connection_id"] for one in found["connections"]] == ["c51"]


async def test_a_connection_that_the_provider_ended_is_in_trouble(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported({**tracker.grant(), "refresh_token": "unknown"})
    async with at_console(running) as console:
        where = {"form": form_in(await console.page(ONE)), "integration": "tracker", "id": "c1"}
        failed = await console.send("/dev/connection/refresh", where)
        assert "The refresh failed" in failed
        data = await console.data("/dev.json")
        assert [(one["connection_id"], one["state"]) for one in data["trouble"]] == [("c1", "needs_reauth")]
        assert "The end user connects again" in await console.page(ONE)


async def test_keys_stand_under_their_makers_and_can_be_asked_and_revoked(running: RunningGateway) -> None:
    rules = {"display_name": "agent", "limits": {"rules": ["GET /v1/items/*"], "budget": 10}}
    made = (await running.json("POST", "/environment/api-keys", json=rules, expect=200))["data"]
    async with at_console(running) as console:
        page = await console.page(f"/dev/key?id={made['id']}&method=GET&path=/v1/items/5")
        assert "It passes" in page
        assert made["secret"] not in page
        page = await console.page(f"/dev/key?id={made['id']}&method=DELETE&path=/v1/items/5")
        assert "no rule of it allows DELETE" in page
        listed = (await console.data("/dev/keys.json"))["keys"]
        assert [(one["id"], one["depth"], one["budget"]) for one in listed] == [(made["id"], 0, 10)]
        done = await console.send("/dev/key/revoke", {"form": form_in(page), "id": str(made["id"])})
        assert "are over" in done
        assert (await console.data("/dev/keys.json"))["keys"] == []
        assert (await console.data("/dev/keys.json?ended=1"))["keys"][0]["revoked_at"] is not None


@pytest.mark.parametrize(
    "path", ["/nowhere", "/dev/nothing", "/dev/connection?integration=tracker&id=no", "/dev/key?id=x"]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_there_is_said_on_a_page(shared: RunningGateway, path: str) -> None:
    async with at_console(shared) as console:
        assert "There is no such page" in await console.page(path, expect=404)


async def test_an_integration_that_cannot_work_says_why(running: RunningGateway) -> None:
    async with at_console(running) as console:
        (one,) = (await console.data("/dev/integrations.json"))["integrations"]
        assert (one["key"], one["has_client_secret"], one["faults"]) == ("tracker", True, [])
        secret = running.runtime.generation.integrations.get("dev", "tracker").client_secret
        assert secret is not None
        assert secret.reveal() not in await console.page("/dev/integrations")


async def test_what_is_done_at_the_console_is_in_the_audit_by_name(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    async with at_console(running, name="ada") as console:
        where = {"form": form_in(await console.page(ONE)), "integration": "tracker", "id": "c1"}
        await console.send("/dev/connection/link", where)
        await console.send("/dev/integration/connect", {"form": where["form"], "key": "tracker"})
        await console.send("/dev/connection/delete", {**where, "typed": "c1"})
        await running.runtime.audit_keeper.once()
        links = (await console.data("/dev/audit.json?action=connect_link.created"))["records"]
        assert {(one["connection_id"], one["actor"]["name"]) for one in links} == {("c1", "ada"), (None, "ada")}
        assert all(len(one["detail"]["session"]) == 16 for one in links)
        data = await console.data("/dev/audit.json?action=connection.deleted")
        (one,) = data["records"]
        assert (one["actor"]["kind"], one["actor"]["name"], one["actor"]["command"]) == ("operator", "ada", "console")
        assert (one["connection_id"], one["address"]) == ("c1", "127.0.0.1")
        assert "connection.deleted" in await console.page("/dev/audit")
        form = where["form"]
        await console.send("/dev/key/mint", {"form": form, "name": "mine", "kind": "key"})
        await console.send("/dev/key/revoke", {"form": form, "id": "1"})
        await running.runtime.audit_keeper.once()
        for action in ("key.created", "key.revoked"):
            (one,) = (await console.data(f"/dev/audit.json?action={action}"))["records"]
            assert (one["actor"]["kind"], one["actor"]["name"], one["actor"]["command"]) == (
                "operator",
                "ada",
                "console",
            )
    (signed_in,) = await running.runtime.store.audit.find(AuditFilter(action="operator.signed_in"))
    assert signed_in.as_json()["detail"] == {"role": "operator"}


async def test_what_a_key_did_is_counted(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    for _ in range(3):
        async with running.proxied("c1") as answer:
            await answer.read()
    await running.runtime.call_queue.flush()
    async with at_console(running) as console:
        uses = (await console.data("/dev/audit.json"))["uses"]
        assert (uses["calls"], uses["data"][0]["connection_id"]) == (3, "c1")


async def test_no_secret_is_in_any_byte_of_any_page(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    await running.imported(grant)
    made = (await running.json("POST", "/environment/api-keys", json={"display_name": "k"}, expect=200))["data"]
    async with running.proxied("c1") as answer:
        await answer.read()
    secrets = [SECRET_KEY, grant["access_token"], grant["refresh_token"], made["secret"]]
    async with at_console(running) as console:
        cookies = [cookie.value for cookie in console.http.cookie_jar]
        await asyncio.sleep(0)
        for path in (
            "/dev",
            "/dev/connections",
            ONE,
            "/dev/calls",
            "/dev/keys",
            "/dev/key?id=1",
            "/dev/events",
            "/dev/providers",
        ):
            for address in (path, f"{path.partition('?')[0]}.json?{path.partition('?')[2]}"):
                async with console.http.get(f"{running.url}/console{address}") as answer:
                    text = await answer.text()
                assert not [one for one in (*secrets, *cookies) if one in text], address


async def test_providers_are_seen_by_what_went_wrong_with_them(running: RunningGateway) -> None:
    log = running.runtime.store.call_log
    rows = [operation(n, gateway_ms=0.2, token_ms=0.0, upstream_ms=40.0) for n in range(10)]
    rows += [operation(11, status=429), operation(12, status=502, error_code="upstream_unreachable")]
    rows += [operation(13, kind="refresh", error_code="invalid_grant", status=0)]
    await log.add_many(rows)
    async with at_console(running) as console:
        (one,) = (await console.data("/dev/providers.json"))["providers"]
        assert (one["integrations"], one["calls"], one["failed"], one["p95_ms"]) == (["tracker"], 12, 3, 50)
        assert one["errors"] == {"throttled": 1, "unreachable": 1, "refresh failed": 1}
        assert one["last_success"] is not None
        assert "throttled 1" in await console.page("/dev/providers")


async def test_a_day_is_drawn_from_its_sums(running: RunningGateway) -> None:
    rows = [operation(n * 60, gateway_ms=1.0, token_ms=2.0, upstream_ms=40.0) for n in range(200)]
    await running.runtime.store.call_log.add_many(rows)
    async with at_console(running) as console:
        traffic = (await console.data("/dev.json"))["traffic"]
        assert (traffic["calls"], traffic["failed"], traffic["provider_ms"]) == (200, 0, {"p50": 50, "p95": 50})
        assert traffic["milliseconds"] == {"gateway": 1.0, "token": 2.0, "provider": 40.0}
        assert sum(int(bar["text"].split(": ")[1].split(",")[0]) for bar in traffic["chart"]["bars"]) == 200
        assert len(await console.page("/dev")) <= 40_000


async def test_a_call_is_repeated_as_a_dry_run(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    await running.imported(grant)
    wish = {"display_name": "agent", "limits": {"rules": ["GET /items/*"]}}
    made = (await running.json("POST", "/environment/api-keys", json=wish, expect=200))["data"]
    log = running.runtime.store.call_log
    refused = operation(2, method="DELETE", key_id=made["id"], status=403, error_code="forbidden", rule="rules")
    gone = operation(3, connection_id="gone")
    await log.add_many([operation(1, key_id=made["id"]), refused, gone, operation(4, kind="refresh", path="")])
    sent = tracker.calls["api"]
    async with at_console(running) as console:
        found = {one["request_id"]: one["id"] for one in (await console.data("/dev/calls.json"))["operations"]}
        page = await console.page(f"/dev/call?id={found['r1']}")
        form = form_in(page)

        async def dry(name: str, expect: int = 200) -> str:
            return await console.send("/dev/call/dry-run", {"form": form, "id": str(found[name])}, expect=expect)

        passes = await dry("r1")
        assert f"GET {tracker.url}/items/1" in passes
        assert "Bearer ***" in passes
        assert "Its key allows it" in passes
        assert grant["access_token"] not in passes
        assert "Its key refuses it" in await dry("r2")
        assert "no connection 'gone'" in await dry("r3")
        assert "Only a call" in await dry("r4", expect=400)
        assert "do not allow" in await console.page(f"/dev/call?id={found['r2']}")
    assert tracker.calls["api"] == sent


async def test_an_integration_has_a_page_with_what_looks_wrong_and_a_test(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.imported(tracker.grant())
    await running.runtime.store.call_log.add_many([operation(1, status=429), operation(2)])
    async with at_console(running) as console:
        data = await console.data("/dev/integration.json?key=tracker")
        assert [one["ok"] for one in data["findings"]] == [True] * len(data["findings"])
        assert (data["calls"], data["failures"][0]["reason"]) == (2, "429")
        assert [one["connection_id"] for one in data["connections"]] == ["c1"]
        page = await console.page("/dev/integration?key=tracker")
        assert f"{running.url}/oauth/callback" in page
        made = await console.send("/dev/integration/connect", {"form": form_in(page), "key": "tracker", "user": "me"})
        assert "/connect?session_token=" in made
        await console.page("/dev/integration?key=no", expect=404)


async def test_authorizations_that_never_return_point_to_the_callback_address(
    running: RunningGateway, tracker: Tracker
) -> None:
    begin = f"{running.url}/oauth/connect/tracker?connect_session_token={await running.session_token()}"
    for _ in range(3):  # a provider shows its error instead of sending the browser back
        async with running.http.get(begin, allow_redirects=False) as answer:
            assert answer.headers["Location"].startswith(f"{tracker.url}/authorize")
    async with at_console(running) as console:
        found = (await console.data("/dev/integration.json?key=tracker"))["findings"][-1]
        assert (found["ok"], found["what"]) == (False, "In the last hour 3 authorizations began, and 0 returned.")
        assert f"compare the callback address registered there: {running.url}/oauth/callback" in found["do"]
        async with running.http.get(begin) as answer:
            assert answer.status == 200
        found = (await console.data("/dev/integration.json?key=tracker"))["findings"][-1]
        assert (found["ok"], found["do"]) == (True, "")
        assert found["what"] == "In the last hour 4 authorizations began, and 1 returned."


def test_mistakes_in_copying_a_client_are_found_by_their_shape() -> None:
    def given(client_id: str | None, client_secret: str | None = None) -> list[str]:
        secret = None if client_secret is None else Secret(client_secret)
        one = Integration(
            environment="dev", integration_id="x", provider="jira", client_id=client_id, client_secret=secret
        )
        return [f"{key} {trouble}" for key, trouble in client_mistakes(one)]

    assert given("abc-1", "s3cr3t-value") == []
    assert given("'abc'", "•••• 1234") == ["client_id has quotes around it", "client_secret holds a space or a newline"]
    assert given("same", "same") == ["client_secret is the same as client_id"]
    assert given(None) == []


async def test_a_live_part_is_the_part_of_the_page(running: RunningGateway) -> None:
    await running.runtime.store.call_log.add_many([operation(1), operation(2, status=500)])
    async with at_console(running) as console:
        for path in ("/dev", "/dev/calls?live=1"):
            whole = await console.page(path)
            async with console.http.get(f"{running.url}/console{path}", headers={"HX-Request": "true"}) as answer:
                part = unescape(await answer.text())
            assert part.lstrip().startswith('<div id="live"')
            assert "<html" not in part
            without_time = part.partition("</p>")[2][:200]
            assert without_time in whole
        newest = (await console.data("/dev/calls.json"))["operations"][0]["id"]
        assert f"seen={newest}" in await console.page("/dev/calls?live=1")
        assert 'class="failed fresh"' in await console.page(f"/dev/calls?live=1&seen={newest - 1}")


async def test_what_a_caller_writes_is_text_on_every_page(running: RunningGateway, tracker: Tracker) -> None:
    evil = '"><script>alert(1)</script><i hx-get="/x" hx-trigger="load" hx-on:click="alert(1)">'
    end_user = {"id": evil, "display_name": evil, "email": "a@example.com", "tags": {"plan": evil}}
    await running.imported(tracker.grant(), end_user=end_user, tags={"team": evil}, metadata={"note": evil})
    await running.json("POST", "/environment/api-keys", json={"display_name": evil}, expect=200)
    failed = operation(1, path=f"/{evil}", error_code=evil, status=500, host=evil, rule=evil, detail={"message": evil})
    of_one = operation(
        2,
        integration_id="tracker",
        connection_id="c1",
        path=f"/{evil}",
        error_code=evil,
        key_id=1,
        detail={"tool": evil},
    )
    await running.runtime.store.call_log.add_many([failed, of_one, operation(3, connection_id=evil)])
    asked = quote(evil)
    shown = 0
    async with at_console(running) as console:
        number = (await console.data("/dev/calls.json?failed=1"))["operations"][0]["id"]
        places = [
            *("", "/calls", "/calls?live=1", f"/call?id={number}", "/keys", "/key?id=1", "/audit", "/events"),
            *("/connections", ONE.removeprefix("/dev"), "/integration?key=tracker", "/incident?key=1&since=24h"),
            *(
                f"/{view}?{name}={asked}"
                for view in VIEWS
                if view
                for name in ("search", "path", "key", "id", "integration")
            ),
        ]
        for place in places:
            for headers in ({}, {"HX-Request": "true"}):
                async with console.http.get(f"{running.url}/console/dev{place}", headers=headers) as answer:
                    raw = await answer.text()
                    assert answer.status < 500, place
                shown += "alert(1)" in raw
                assert "<script>" not in raw, place
                assert "<i " not in raw, place
    assert shown > 30


def test_htmx_is_the_file_that_npm_has() -> None:
    """htmx.org 2.0.11, dist/htmx.min.js: a new release changes its digest here and its version in ADR 52."""
    file = ROOT / "templates" / "console" / "htmx.min.js"
    assert sha256(file.read_bytes()).hexdigest() == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
    assert 'version:"2.0.11"' in file.read_text()
    assert "(2.0.11," in (ROOT / "docs" / "adr" / "0052-a-console-of-pages.md").read_text()


async def test_connections_that_lack_scopes_are_found(running: RunningGateway, tracker: Tracker) -> None:
    for name in ("c1", "c2"):
        await running.imported(tracker.grant(), name)
    store = running.runtime.store
    row = (await store.connections.list("dev", ListFilter(connection_id="c2")))[0]
    await store.rejections.note_scopes(row, RefusedScopes(("admin",), datetime.now(UTC), "/x"))
    async with at_console(running) as console:
        found = await console.data("/dev/connections.json?scopes=1")
        assert [one["connection_id"] for one in found["connections"]] == ["c2"]
        assert "admin" in await console.page("/dev/connection?integration=tracker&id=c2")


async def test_long_lists_have_pages(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((integration_views, "LISTED"), (key_views, "ROWS"), (provider_views, "ROWS")):
        monkeypatch.setattr(module, name, 1)
    for name in ("a", "b"):
        await running.json("POST", "/environment/api-keys", json={"display_name": name}, expect=200)
        await running.json("POST", "/integrations", json={"unique_key": name, "provider": "ably"}, expect=200)
    async with at_console(running) as console:
        keys = await console.data("/dev/keys.json")
        assert ([one["display_name"] for one in keys["keys"]], keys["following"]) == (["b"], 2)
        older = await console.data("/dev/keys.json?before=2")
        assert ([one["display_name"] for one in older["keys"]], older["following"]) == (["a"], None)
        for view, number in (("integrations", 3), ("providers", 2)):
            seen, place = [], 0
            for _ in range(number):
                data = await console.data(f"/dev/{view}.json?from={place}")
                seen += [one.get("key", one["name"]) for one in data[view]]
                place = data["following"]
            assert (len(set(seen)), place) == (number, None)
        assert "from=1" in await console.page("/dev/integrations")
