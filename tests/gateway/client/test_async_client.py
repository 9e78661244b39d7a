"""The gateway's API through both clients, async and sync."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.app.routes import ROUTES
from gateway.client import AsyncClient, Client, GatewayError
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import KEY, Lists, PagedGateway, paged, pages_of, serving

Call = Callable[..., Awaitable[Any]]
RECONNECTS = any(path == "/connect/sessions/reconnect" for _, path, _ in ROUTES)
GIVEN = {"type": "API_KEY", "apiKey": "another-key"}


@pytest.fixture
async def paged_gateway(tmp_path: Path) -> AsyncIterator[PagedGateway]:
    async with paged(tmp_path, pages_of(1)) as running:
        yield running


@pytest.fixture
async def echo_server() -> AsyncIterator[Lists]:
    """A server that replaces the gateway and returns the request."""

    async def response(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        return web.json_response({"data": {"method": request.method, "body": body}, "metadata": None})

    async with serving(response) as lists:
        yield lists


def calling(kind: str, url: str) -> Call:
    """Return a function ``await call("method", …)`` for a client of that kind. A list method returns a list."""
    names: Any = {"provider_config_key": "tracker", "connection_id": "c1"}

    async def asynchronous(method: str, *args: Any, **options: Any) -> Any:
        async with AsyncClient(url, SECRET_KEY, **names) as client:
            echo_call = getattr(client, method)(*args, **options)
            return [item async for item in echo_call] if hasattr(echo_call, "__aiter__") else await echo_call

    def blocking(method: str, *args: Any, **options: Any) -> Any:
        with Client(url, SECRET_KEY, **names) as client:
            result = getattr(client, method)(*args, **options)
            return list(result) if hasattr(result, "__next__") else result

    async def call_in_thread(method: str, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(blocking, method, *args, **options)

    return asynchronous if kind == "async" else call_in_thread


@pytest.fixture(params=["async", "sync"])
def call(request: pytest.FixtureRequest, paged_gateway: PagedGateway) -> Call:
    return calling(request.param, paged_gateway.gateway.url)


@pytest.fixture(params=["async", "sync"])
def echo_call(request: pytest.FixtureRequest, echo_server: Lists) -> Call:
    return calling(request.param, echo_server.url)


async def test_connections_are_imported_listed_read_and_deleted_through_the_client(call: Call) -> None:
    made = await call("import_connection", GIVEN, connection_id="mine", metadata={"a": 1}, tags={"team": "x"})
    assert (made["connection_id"], made["metadata"]) == ("mine", {"a": 1})
    assert [item["connection_id"] for item in await call("list_connections")] == ["mine", "c2", "c1"]
    found = await call("list_connections", integrations=["tracker"], tags={"team": "x"})
    assert [item["connection_id"] for item in found] == ["mine"]
    assert "credentials" not in found[0]
    assert (await call("get_connection", connection_id="mine"))["credentials"] == GIVEN
    assert await call("get_metadata", connection_id="mine") == {"a": 1}
    assert await call("get_metadata") == {}
    assert (await call("delete_connection", connection_id="mine"))["success"] is True
    assert await call("list_connections", connection_id="mine") == []


async def test_import_without_an_id_uses_the_clients_connection_id(call: Call) -> None:
    assert (await call("get_connection"))["credentials"]["apiKey"] == KEY
    assert (await call("import_connection", GIVEN))["connection_id"] == "c1"
    assert (await call("get_connection"))["credentials"] == GIVEN


async def test_list_of_connections_is_fetched_page_by_page(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client.async_client.PAGE_SIZE", 1)
    assert [item["connection_id"] for item in await call("list_connections", search="c")] == ["c2", "c1"]


async def test_metadata_and_tags_are_kept_by_the_real_gateway(call: Call) -> None:
    await call("set_metadata", {"a": 1, "b": 1}, connection_id=["c1", "c2"])
    await call("update_metadata", {"b": 2})
    assert await call("get_metadata") == {"a": 1, "b": 2}
    assert await call("get_metadata", connection_id="c2") == {"a": 1, "b": 1}
    await call("update_connection", {"tags": {"team": "y"}})
    assert (await call("get_connection"))["tags"] == {"team": "y"}
    with pytest.raises(GatewayError, match="unknown_connection"):
        await call("set_metadata", {}, connection_id=["c1", "nobody"])


@pytest.mark.skipif(not RECONNECTS, reason="this gateway makes no sessions to reconnect yet")
async def test_reconnect_session_is_created_by_the_real_gateway(call: Call) -> None:
    assert (await call("create_reconnect_session"))["token"]


async def test_a_connect_session_is_made_for_an_end_user(call: Call) -> None:
    made = await call("create_connect_session", end_user={"id": "u1"}, allowed_integrations=["tracker"])
    assert made["connect_link"].endswith(made["token"])
    with pytest.raises(GatewayError, match="invalid_body") as refused:
        await call("create_connect_session", end_user={"id": "u1"}, allowed_integrations=["nothing"])
    assert refused.value.errors[0]["path"] == ["allowed_integrations", "0"]


async def test_integrations_and_providers_are_read(call: Call) -> None:
    assert [item["unique_key"] for item in await call("list_integrations")] == ["tracker"]
    assert (await call("get_provider", "tracker"))["auth_mode"] == "API_KEY"
    with pytest.raises(GatewayError, match="not_found"):
        await call("get_provider", "no-such")


async def test_integrations_are_made_changed_and_deleted(call: Call) -> None:
    app = {"type": "OAUTH2", "client_id": "ours", "client_secret": "hidden", "scopes": "read,write"}
    made = await call("create_integration", "github", "hub-eu", credentials=app, display_name="Hub")
    assert (made["unique_key"], made["provider"], made["display_name"]) == ("hub-eu", "github", "Hub")
    changed = await call("update_integration", "hub-eu", unique_key="hub", display_name="The hub")
    assert (changed["unique_key"], changed["display_name"]) == ("hub", "The hub")
    response = await call("get_integration", "hub", include=("webhook", "credentials"))
    assert response["credentials"]["client_id"] == "ours"
    assert "webhook_url" in response
    assert "credentials" not in await call("get_integration", "hub")
    assert (await call("delete_integration", "hub"))["success"] is True
    with pytest.raises(GatewayError, match="conflict"):
        await call("update_integration", display_name="mine")


async def test_the_catalog_is_searched(call: Call) -> None:
    found = await call("list_providers", "jira", auth_mode="OAUTH2")
    assert "jira" in [item["name"] for item in found]
    assert {item["auth_mode"] for item in found} == {"OAUTH2"}
    assert len(await call("list_providers")) > 1000


async def test_connection_history_is_returned_when_requested(call: Call) -> None:
    assert "history" not in await call("get_connection")
    assert "history" in await call("get_connection", history=True)


@pytest.mark.parametrize(
    ("method", "args", "sent"),
    [
        ("set_metadata", ({"a": 1},), ("POST", {"connection_id": "c1", "metadata": {"a": 1}})),
        (
            "update_metadata",
            ({"a": 1}, None, ["x", "y"]),
            ("PATCH", {"connection_id": ["x", "y"], "metadata": {"a": 1}}),
        ),
    ],
)
async def test_metadata_is_sent_in_the_apis_format(
    method: str, args: Any, sent: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.client.calls import ApiCall as Asked

    seen: list[Asked] = []
    async with AsyncClient("http://gw", "k", provider_config_key="tracker", connection_id="c1") as client:

        async def record_call(asked: Asked) -> Any:
            seen.append(asked)

        monkeypatch.setattr(client, "_call_api", record_call)
        await getattr(client, method)(*args)
    verb, body = sent
    assert [(one.method, one.target, one.body) for one in seen] == [
        (verb, "/connections/metadata", {"provider_config_key": "tracker", **body})
    ]


async def test_a_reconnect_session_names_the_connection(echo_call: Call) -> None:
    response = await echo_call("create_reconnect_session", end_user={"id": "u1"})
    assert response == {
        "method": "POST",
        "body": {"integration_id": "tracker", "connection_id": "c1", "end_user": {"id": "u1"}},
    }


async def test_a_connection_is_changed_under_its_encoded_name(echo_call: Call, echo_server: Lists) -> None:
    await echo_call("update_connection", {"tags": {"a": "b"}}, connection_id="a/b c")
    await echo_call("delete_connection", connection_id="a/b c", revoke=False)
    assert echo_server.seen == [
        "/connections/a%2Fb%20c?provider_config_key=tracker",
        "/connections/a%2Fb%20c?provider_config_key=tracker&revoke=false",
    ]


def test_error_has_the_retry_time_and_the_connect_url() -> None:
    fault = GatewayError(
        424, "reconnect_needed", "no", payload={"retry_at": "2030-01-02T03:04:05Z", "connect_url": "u"}
    )
    assert (fault.retry_at, fault.connect_url) == (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "u")
    assert GatewayError(424, "x", "no", payload={"retry_at": "soon"}).retry_at is None
    assert GatewayError(424, "x", "no").retry_at is None


async def test_response_of_another_server_raises_a_gateway_error_without_a_code() -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<h1>somebody else</h1>", status=200 if "200" in request.path else 502)

    async with serving(page) as other, AsyncClient(other.url, "k") as client:
        for name in ("200", "502"):
            with pytest.raises(GatewayError, match="somebody else") as refused:
                await client.get_provider(name)
            assert (refused.value.status, refused.value.code) == (int(name), "")
