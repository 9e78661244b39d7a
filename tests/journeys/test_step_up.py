"""If a provider refuses a call because a scope is missing, the response has a link to grant this scope."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from gateway.http.scope_challenge import MAX_SCOPES
from gateway.records.states import State
from gateway.refresh.backoff import API_DEGRADED
from tests.fakes.agent_gateway import Responding, agent_gateway
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.tracker import Tracker

NEEDS = {"/admin": "admin", "/write": "write"}
QUERY = "provider_config_key=tracker&include=history"


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """Yield a gateway with connection `c1`, which was granted `read` and `extra`. The integration requests only `read`."""
    tracker.scopes_of = dict(NEEDS)
    entry = tracker_entry(tracker.url) | {"default_scopes": ["read"], "available_scopes": ["read", "extra", "admin"]}
    write_entry(tmp_path, "tracker", entry)
    configuration = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
    configuration["environments"]["dev"]["connect_links_in_errors"] = True
    gateway = RunningGateway(tmp_path, configuration)
    await gateway.start()
    await authorize(gateway, await connect_link(gateway, "c1", scopes="read,extra"))
    yield gateway
    await gateway.stop()


async def connect_link(running: RunningGateway, connection_id: str, *, scopes: str | None = None) -> str:
    """Return a connect link for the connection. `scopes`: comma-separated, instead of the integration's scopes."""
    async with running.call_proxy(connection_id) as response:
        link = (await response.json())["error"]["payload"]["connect_url"]
    if scopes is None:
        return str(link)
    row = await running.runtime.sessions.find(token_of(link))
    fixed = {"tracker": {"connection_config": {"oauth_scopes_override": scopes}}}
    token, _ = await running.runtime.sessions.open(
        "dev", "", connection_id=row.connection_id, allowed_integrations=("tracker",), defaults=fixed
    )
    return f"{running.url}/connect?session_token={token}"


def token_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["session_token"][0]


async def authorize(running: RunningGateway, link: str) -> str:
    """Open the link as the end user's browser does, give consent at the provider, and return to the gateway."""
    async with running.http.get(
        f"{running.url}/oauth/connect/tracker?connect_session_token={token_of(link)}"
    ) as response:
        assert response.status == 200, await response.text()
        return await response.text()


async def call(running: RunningGateway, path: str, **headers: str) -> tuple[int, Any, str | None]:
    async with running.call_proxy("c1", path, headers=headers) as response:
        challenge = response.headers.get("WWW-Authenticate", "")
        assert (response.status == 403) == ('error="insufficient_scope"' in challenge)
        assert "Gateway-Error" not in response.headers
        return response.status, await response.json(), response.headers.get("Gateway-Connect-Url")


async def scopes(running: RunningGateway) -> Any:
    return (await running.json("GET", f"/connections/c1?{QUERY}"))["scopes"]


async def test_the_link_of_a_refused_call_requests_the_missing_scope_and_keeps_the_granted_ones(
    running: RunningGateway, tracker: Tracker
) -> None:
    status, body, link = await call(running, "/admin")
    assert (status, body) == (403, {"missing": "admin"}), "the provider's response must pass unchanged"
    assert link is not None
    found = await scopes(running)
    assert (found["granted"], found["missing"]) == (["read", "extra"], ["admin"])
    assert (found["refused"]["scopes"], found["refused"]["path"]) == (["admin"], "/admin")
    await authorize(running, link)
    assert tracker.authorize_query["scope"].split() == ["read", "admin", "extra"]
    assert (await call(running, "/admin"))[0] == 200
    assert await scopes(running) == {"granted": ["read", "admin", "extra"], "needed": ["read"], "missing": []}


async def test_the_link_stays_the_same_and_collects_the_scopes_of_further_calls(
    running: RunningGateway, tracker: Tracker
) -> None:
    links = [(await call(running, path))[2] for path in ("/admin", "/write", "/admin", "/x")]
    assert links[3] is None
    assert links[0] == links[1] == links[2]
    assert links[0] is not None
    async with running.http.get(links[0]) as page:
        text = await page.text()
    assert "admin" in text
    assert "write" in text
    await authorize(running, links[0])
    assert tracker.authorize_query["scope"].split() == ["read", "admin", "write", "extra"]


async def test_a_403_for_a_missing_scope_does_not_count_as_a_rejected_credential(
    running: RunningGateway, tracker: Tracker
) -> None:
    for _ in range(API_DEGRADED[403].count + 2):
        assert (await call(running, "/admin"))[0] == 403
    rows = await running.runtime.store.connections.list("dev", _no_filter())
    assert [row.state for row in rows] == [State.ACTIVE]
    assert not running.runtime.live.rejections.suspected


async def test_a_key_that_may_create_no_session_gets_no_link_and_the_connection_shows_the_missing_scope(
    running: RunningGateway, tracker: Tracker
) -> None:
    body = {"display_name": "narrow", "scopes": ["environment:proxy"]}
    minted = await running.json("POST", "/environment/api-keys", json=body, expect=200)
    assert (await call(running, "/admin", Authorization=f"Bearer {minted['data']['secret']}"))[2] is None
    connection = await running.json("GET", f"/connections/c1?{QUERY}")
    assert connection["state"] == "active"
    cause = connection["diagnosis"]["causes"][0]
    assert cause["cause"] == "scopes_missing"
    assert "lacks 'admin'" in cause["why"]
    assert connection["diagnosis"]["action"]["do"] == "reconnect"
    assert any(
        entry["detail"] == "admin" and "/admin" in entry["what"] for entry in connection["diagnosis"]["timeline"]
    )


async def test_a_session_of_the_application_requests_the_missing_scope_unless_it_fixes_the_scopes(
    running: RunningGateway, tracker: Tracker
) -> None:
    await call(running, "/admin")
    body: dict[str, Any] = {"connection_id": "c1", "integration_id": "tracker"}
    fixed = {"integrations_config_defaults": {"tracker": {"connection_config": {"oauth_scopes_override": "read"}}}}
    session = await running.json("POST", "/connect/sessions/reconnect", json=body | fixed, expect=201)
    await authorize(running, session["data"]["connect_link"])
    assert tracker.authorize_query["scope"] == "read"
    await call(running, "/admin")
    session = await running.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    await authorize(running, session["data"]["connect_link"])
    assert tracker.authorize_query["scope"].split() == ["read", "admin"]


async def test_a_scope_that_the_provider_calls_invalid_is_not_requested_again(
    running: RunningGateway, tracker: Tracker
) -> None:
    _, _, link = await call(running, "/admin")
    assert link is not None
    tracker.callback_extra = {"error": "invalid_scope"}
    start = f"{running.url}/oauth/connect/tracker?connect_session_token={token_of(link)}"
    async with running.http.get(start) as response:
        assert response.status == 400
    tracker.callback_extra = {}
    assert (await scopes(running))["missing"] == []
    await authorize(running, link)
    assert tracker.authorize_query["scope"] == "read"


async def test_if_any_of_several_scopes_suffices_none_is_requested_until_the_integration_names_one(
    running: RunningGateway, tracker: Tracker
) -> None:
    entry = tracker_entry(tracker.url) | {"default_scopes": ["read"], "available_scopes": ["read", "extra", "admin"]}
    entry["proxy"] = entry["proxy"] | {"scope_challenge": "any"}
    write_entry(running.folder, "tracker", entry)
    await running.restart()
    tracker.scopes_of = {"/admin": "admin root"}
    status, _, link = await call(running, "/admin")
    assert (status, link) == (403, None)
    connection = await running.json("GET", f"/connections/c1?{QUERY}")
    assert connection["scopes"]["missing"] == []
    assert "none of 'admin', 'root'" in connection["diagnosis"]["causes"][0]["why"]
    running.document["environments"]["dev"]["integrations"]["tracker"]["scopes"] = ["read", "admin"]
    await running.restart()
    assert (await scopes(running))["missing"] == ["admin"]
    assert (await call(running, "/admin"))[2] is not None


async def test_the_connections_that_lack_scopes_are_listed(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("c2", "c3"):
        await authorize(running, await connect_link(running, name))
    assert await connections_that_lack_scopes(running) == []
    await call(running, "/admin")
    assert await connections_that_lack_scopes(running) == ["c1"]
    running.document["environments"]["dev"]["integrations"]["tracker"]["scopes"] = ["read", "report"]
    await running.restart()
    assert sorted(await connections_that_lack_scopes(running)) == ["c1", "c2", "c3"]
    assert sorted(await connections_that_lack_scopes(running, limit="1")) == ["c1", "c2", "c3"]
    monkeypatch.setattr("gateway.connections.lacking_scopes.MAX_ROWS_READ", 1)
    monkeypatch.setattr("gateway.connections.lacking_scopes.ROWS_PER_QUERY", 2)
    assert sorted(await connections_that_lack_scopes(running)) == ["c1", "c2", "c3"]
    async with running.http.get(
        f"{running.url}/connections?missingScopes=true&page=1", headers=running.headers
    ) as response:
        assert response.status == 400


async def connections_that_lack_scopes(running: RunningGateway, **query: str) -> list[str]:
    """Return all listed connections. Read the list page by page."""
    found: list[str] = []
    while True:
        parameters = "&".join(f"{name}={text}" for name, text in {"missingScopes": "true", **query}.items())
        page = await running.json("GET", f"/connections?{parameters}")
        found += [connection["connection_id"] for connection in page["connections"]]
        if "next_cursor" not in page:
            return found
        query["cursor"] = page["next_cursor"]


async def test_a_credential_in_the_base_url_is_not_in_the_stored_path(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path, base="/base/bot${apiKey}") as gateway:
        gateway.provider.responding = refusing("admin")
        key = await gateway.key("GET /base/**", scopes=["environment:proxy", "environment:connections:read"])
        bearer = {"Authorization": f"Bearer {key}"}
        async with gateway.running.call_proxy("c1", "/items?q=1", integration="acme", headers=bearer) as response:
            assert response.status == 403
        url = f"{gateway.running.url}/connections/c1?provider_config_key=acme&include=history"
        async with gateway.running.http.get(url, headers=bearer) as response:
            connection = await response.json()
        assert "key-of-c1" not in str(connection)
        assert connection["scopes"]["refused"]["path"] == "/items"


async def test_the_number_of_stored_scopes_that_a_provider_names_is_limited(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path) as gateway:
        written = []
        for n in range(MAX_SCOPES + 5):
            gateway.provider.responding = refusing(f"scope-{n}")
            async with gateway.running.call_proxy("c1", "/items", integration="acme") as response:
                assert response.status == 403
            connection = await gateway.running.json("GET", "/connections/c1?provider_config_key=acme&include=history")
            written.append(connection["scopes"]["refused"]["at"])
        assert connection["scopes"]["refused"]["scopes"] == [f"scope-{n}" for n in range(MAX_SCOPES)]
        assert written[MAX_SCOPES:] == written[MAX_SCOPES - 1 : -1]


async def test_links_of_refused_calls_use_at_most_half_of_the_sessions_of_a_key(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path) as gateway:
        gateway.running.document["connect"] = {"sessions_per_minute": 4}
        gateway.running.document["environments"]["dev"]["connect_links_in_errors"] = True
        await gateway.running.restart()
        await gateway.connect("c3")
        gateway.provider.responding = refusing("admin")
        links = []
        for connection_id in ("c1", "c2", "c3", "c1"):
            async with gateway.running.call_proxy(connection_id, "/items", integration="acme") as response:
                links.append(response.headers.get("Gateway-Connect-Url"))
        assert [link is not None for link in links] == [True, True, False, True]
        assert links[0] == links[3]
        for expected in (201, 201, 429):
            body = {"end_user": {"id": "u1"}}
            await gateway.running.json("POST", "/connect/sessions", json=body, expect=expected)


def refusing(scope: str) -> Responding:
    async def response(_: web.Request) -> web.Response:
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        return web.Response(status=403, headers={"WWW-Authenticate": challenge})

    return response


def _no_filter() -> Any:
    from gateway.store import ListFilter

    return ListFilter()
