"""Rules for every page of the console: escaping, no secrets, live parts, errors as pages."""

import asyncio
from hashlib import sha256
from html import unescape
from urllib.parse import quote

import pytest

from gateway.console import integration_views, key_views, provider_views
from gateway.console.view_table import VIEWS
from tests.fakes.console import ONE, at_console, operation
from tests.fakes.gateways import SECRET_KEY, RunningGateway
from tests.fakes.processes import ROOT
from tests.fakes.tracker import Tracker


@pytest.mark.parametrize(
    "path", ["/nowhere", "/dev/nothing", "/dev/connection?integration=tracker&id=no", "/dev/key?id=x"]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_not_found_is_shown_as_a_page(shared_gateway: RunningGateway, path: str) -> None:
    async with at_console(shared_gateway) as console:
        assert "There is no such page" in await console.page(path, expect=404)


@pytest.mark.parametrize("path", ["/dev/connections?search=a%00b", "/dev/connection?integration=tracker&id=%00"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_nul_character_is_refused(shared_gateway: RunningGateway, path: str) -> None:
    """PostgreSQL refuses it in a query."""
    async with at_console(shared_gateway) as console:
        assert "NUL character" in await console.page(path, expect=400)


async def test_no_secret_is_in_any_byte_of_any_page(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    await running.import_connection(grant)
    minted = (await running.json("POST", "/environment/api-keys", json={"display_name": "k"}, expect=200))["data"]
    async with running.call_proxy("c1") as response:
        await response.read()
    secrets = [SECRET_KEY, grant["access_token"], grant["refresh_token"], minted["secret"]]
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
            for url in (path, f"{path.partition('?')[0]}.json?{path.partition('?')[2]}"):
                async with console.http.get(f"{running.url}/console{url}") as response:
                    text = await response.text()
                assert not [secret for secret in (*secrets, *cookies) if secret in text], url


async def test_live_part_equals_that_part_of_the_whole_page(running: RunningGateway) -> None:
    await running.runtime.store.call_log.add_many([operation(1), operation(2, status=500)])
    async with at_console(running) as console:
        for path in ("/dev", "/dev/calls?live=1"):
            whole = await console.page(path)
            async with console.http.get(f"{running.url}/console{path}", headers={"HX-Request": "true"}) as response:
                part = unescape(await response.text())
            assert part.lstrip().startswith('<div id="live"')
            assert "<html" not in part
            without_time = part.partition("</p>")[2][:200]
            assert without_time in whole
        newest = (await console.data("/dev/calls.json"))["operations"][0]["id"]
        assert f"seen={newest}" in await console.page("/dev/calls?live=1")
        assert 'class="failed fresh"' in await console.page(f"/dev/calls?live=1&seen={newest - 1}")


async def test_texts_from_callers_are_escaped_on_every_page(running: RunningGateway, tracker: Tracker) -> None:
    evil = '"><script>alert(1)</script><i hx-get="/x" hx-trigger="load" hx-on:click="alert(1)">'
    end_user = {"id": evil, "display_name": evil, "email": "a@example.com", "tags": {"plan": evil}}
    await running.import_connection(tracker.grant(), end_user=end_user, tags={"team": evil}, metadata={"note": evil})
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
                async with console.http.get(f"{running.url}/console/dev{place}", headers=headers) as response:
                    raw = await response.text()
                    assert response.status < 500, place
                shown += "alert(1)" in raw
                assert "<script>" not in raw, place
                assert "<i " not in raw, place
    assert shown > 30


def test_htmx_file_equals_the_release_on_npm() -> None:
    """htmx.org 2.0.11, dist/htmx.min.js. A new release changes the digest here and the version in ADR 52."""
    file = ROOT / "templates" / "console" / "htmx.min.js"
    assert sha256(file.read_bytes()).hexdigest() == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
    assert 'version:"2.0.11"' in file.read_text()
    assert "(2.0.11," in (ROOT / "docs" / "adr" / "0052-a-console-of-pages.md").read_text()


async def test_long_lists_have_pages(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (integration_views, "PAGE_SIZE"),
        (key_views, "ROWS_PER_PAGE"),
        (provider_views, "ROWS_PER_PAGE"),
    ):
        monkeypatch.setattr(module, name, 1)
    for name in ("a", "b"):
        await running.json("POST", "/environment/api-keys", json={"display_name": name}, expect=200)
        await running.json("POST", "/integrations", json={"unique_key": name, "provider": "ably"}, expect=200)
    async with at_console(running) as console:
        keys = await console.data("/dev/keys.json")
        assert ([key["display_name"] for key in keys["keys"]], keys["following"]) == (["b"], 2)
        older = await console.data("/dev/keys.json?before=2")
        assert ([key["display_name"] for key in older["keys"]], older["following"]) == (["a"], None)
        for view, number in (("integrations", 3), ("providers", 2)):
            seen, place = [], 0
            for _ in range(number):
                data = await console.data(f"/dev/{view}.json?from={place}")
                seen += [item.get("key", item["name"]) for item in data[view]]
                place = data["following"]
            assert (len(set(seen)), place) == (number, None)
        assert "from=1" in await console.page("/dev/integrations")
