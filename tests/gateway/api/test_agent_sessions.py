"""``POST /sessions`` end to end: the connections and tools of a session, its MCP URL, and how it ends."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import clock
from gateway.catalog.api_operations import ProviderOperations
from gateway.catalog.load_catalog import Catalog
from tests.fakes.agent_gateway import BASE, AgentGateway, agent_gateway
from tests.gateway.mcp.test_operation_tools import operations

RED_TENANT: dict[str, Any] = {"connections": {"any": [{"tags": {"Team": "red"}}]}}


@pytest.fixture
async def gateway(tmp_path: Path) -> Any:
    async with agent_gateway(tmp_path) as made:
        operations(tmp_path)
        yield made


async def create_session(gateway: AgentGateway, expect: int = 200, *, tenant: Any = RED_TENANT, **body: Any) -> Any:
    response = await gateway.running.json("POST", "/sessions", json={"tenant": tenant, **body}, expect=expect)
    return response["data"] if expect == 200 else response["error"]


def bearer(session: Any) -> dict[str, str]:
    return {"path": f"/session/{session['session_id']}/mcp"}


async def test_session_has_the_tenants_connection_and_the_requested_tools(gateway: AgentGateway) -> None:
    session = await create_session(
        gateway, toolset={"acme": {"allow": {"tools": ["get_item", "list_items"]}}}, expires_in="15m"
    )
    assert session["mcp_url"].endswith(bearer(session)["path"])
    assert session["toolset"] == {"acme": {"connected": True, "tools_pinned": 2, "tools_searchable": 0}}
    assert session["meta_tools"] == {"nango_tool_search": True, "nango_execute": True, "nango_proxy": False}
    token = session["session_token"]
    assert set(await gateway.tools(token, **bearer(session))) == {"get_item", "list_items"}
    assert set(await gateway.tools(token, path=f"/sessions/{session['session_id']}/mcp")) == {
        "get_item",
        "list_items",
    }
    result = await gateway.call(token, "get_item", {"item_id": "7"}, **bearer(session))
    assert result.get("isError") is False, result
    refused = await gateway.call(token, "call_api", {"method": "DELETE", "path": "/items/7"}, **bearer(session))
    assert refused["isError"]
    assert [call[:3] for call in gateway.provider.calls] == [("GET", f"{BASE}/items/7", "Bearer key-of-c1")]


async def test_the_catalogs_operations_are_not_read_on_the_event_loop(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read the operations takes about 10 ms for each integration of the environment."""
    threads: list[threading.Thread] = []
    read = Catalog.operations

    def operations(catalog: Catalog, name: str) -> ProviderOperations | None:
        threads.append(threading.current_thread())
        return read(catalog, name)

    monkeypatch.setattr(Catalog, "operations", operations)
    await create_session(gateway)
    assert len(threads) >= 2
    assert threading.main_thread() not in threads


async def test_deny_removes_tools_and_a_missing_allow_list_allows_all(gateway: AgentGateway) -> None:
    session = await create_session(gateway, toolset={"acme": {"deny": {"tools": ["delete_item"]}}})
    tools = await gateway.tools(session["session_token"], **bearer(session))
    assert {"create_item", "set_owner"} <= set(tools)
    assert "delete_item" not in tools
    everything = await create_session(gateway)
    assert set(await gateway.tools(everything["session_token"], **bearer(everything))) >= {"delete_item", *tools}


async def test_ambiguous_connections_are_listed_and_no_session_is_created(gateway: AgentGateway) -> None:
    await gateway.connect("c3", tags={"team": "red"})
    fault = await create_session(gateway, 400)
    assert fault["code"] == "ambiguous_connections"
    found = fault["payload"]["integrations"]["acme"]
    assert (found["match_count"], {candidate["connection_id"] for candidate in found["candidates"]}) == (
        2,
        {"c1", "c3"},
    )
    assert (await gateway.running.json("GET", "/environment/api-keys", expect=200))["data"] == []
    pinned = {
        "connections": {**RED_TENANT["connections"], "pinned": [{"integration_id": "acme", "connection_id": "c3"}]}
    }
    session = await create_session(gateway, tenant=pinned)
    await gateway.call(session["session_token"], "list_items", **bearer(session))
    assert gateway.provider.calls[-1][2] == "Bearer key-of-c3"


def body_with_pinned_connection(connection_id: str) -> dict[str, Any]:
    return {
        "connections": {
            **RED_TENANT["connections"],
            "pinned": [{"integration_id": "acme", "connection_id": connection_id}],
        }
    }


IMPOSSIBLE: list[tuple[Any, int, str, Any]] = [
    ({"toolset": {"other": "*"}}, 400, "unknown_integration", {"integrations": ["other"]}),
    (
        {"toolset": {"acme": {"allow": {"tools": ["create-issue"]}}}},
        400,
        "unknown_tool",
        {"tools": [{"integration_id": "acme", "tool": "create-issue"}]},
    ),
    (
        {"toolset": {"acme": {"deny": {"tools": ["get_item"]}}}, "pinned_tools": {"acme": ["get_item"]}},
        400,
        "tool_not_in_toolset",
        {"pinned": [{"integration_id": "acme", "tool": "get_item"}]},
    ),
    ({"meta_tools": {"nango_shell": True}}, 400, "unknown_meta_tool", {"meta_tools": ["nango_shell"]}),
    (
        {"tenant": body_with_pinned_connection("c9")},
        400,
        "unknown_pinned_connection",
        {"pinned": [{"integration_id": "acme", "connection_id": "c9"}]},
    ),
    (
        {"tenant": body_with_pinned_connection("c2")},
        400,
        "pinned_connection_not_matched",
        {"pinned": [{"integration_id": "acme", "connection_id": "c2", "candidates": [{"connection_id": "c1"}]}]},
    ),
    ({"tenant": {"connections": {"any": [{"tags": {"team": "green"}}]}}}, 404, "unknown_connection", None),
    ({"meta_tools": {"nango_proxy": True}}, 501, "not_offered", None),
    ({"meta_tools": {"nango_execute": False}}, 501, "not_offered", None),
    ({"tenant": {"connections": {}}}, 400, "invalid_body", None),
    ({"tenant": {"connections": {"any": [{"tags": {}}]}}}, 400, "invalid_body", None),
    ({"expires_in": "31d"}, 400, "invalid_body", None),
    ({"expires_in": "0s"}, 400, "invalid_body", None),
]


async def test_impossible_session_is_refused_with_a_reason(gateway: AgentGateway) -> None:
    for body, status, code, payload in IMPOSSIBLE:
        fault = await create_session(gateway, status, **body)
        assert fault["code"] == code, body
        assert fault.get("payload") == payload, body
        assert (await gateway.running.json("GET", "/environment/api-keys", expect=200))["data"] == [], body


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"pinned_tools": {"acme": ["x"] * 1001}}, ["pinned_tools", "acme"]),
        ({"pinned_tools": {f"i{n}": [] for n in range(1001)}}, ["pinned_tools"]),
        ({"meta_tools": {f"i{n}": True for n in range(1001)}}, ["meta_tools"]),
        ({"toolset": {f"i{n}": "*" for n in range(1001)}}, ["toolset"]),
        ({"toolset": {"acme": {"deny": {"tools": ["x"] * 1001}}}}, ["toolset"]),
    ],
)
async def test_lists_of_names_are_limited(gateway: AgentGateway, body: Any, path: list[str]) -> None:
    fault = await create_session(gateway, 400, **body)
    assert fault["code"] == "invalid_body"
    assert path in [error["path"][: len(path)] for error in fault["errors"]]


async def test_a_provider_without_operations_is_refused_instead_of_creating_a_key_without_rules(tmp_path: Path) -> None:
    async with agent_gateway(tmp_path) as gateway:
        for toolset in ("*", {"acme": "*"}):
            assert (await create_session(gateway, 501, toolset=toolset))["code"] == "not_offered"


async def test_a_toolset_that_allows_nothing_is_refused(gateway: AgentGateway) -> None:
    fault = await create_session(gateway, 501, toolset={"acme": {"allow": {"tools": []}}})
    assert fault["code"] == "not_offered"


async def test_a_session_refuses_requests_after_its_end(gateway: AgentGateway) -> None:
    session, other = await create_session(gateway), await create_session(gateway)
    token, path = session["session_token"], f"/sessions/{session['session_id']}"
    status, body = await gateway.send_message(other["session_token"], "tools/list", **bearer(session))
    assert (status, body["error"]["code"]) == (404, "session_not_found")
    ended = await gateway.running.json("DELETE", path, expect=200)
    assert (ended["data"]["session_id"], ended["data"]["reason"]) == (session["session_id"], "terminated")
    assert (await gateway.send_message(token, "tools/list", **bearer(session)))[0] == 401
    assert await gateway.running.json("DELETE", path, expect=200) == ended
    assert (await gateway.send_message(other["session_token"], "tools/list", **bearer(other)))[0] == 200


async def test_a_key_that_is_not_a_session_cannot_be_deleted_as_a_session(gateway: AgentGateway) -> None:
    await gateway.key("GET /items")
    key = (await gateway.running.json("GET", "/environment/api-keys", expect=200))["data"][0]
    for item in (key["id"], 999, "x"):
        fault = await gateway.running.json("DELETE", f"/sessions/{item}", expect=404)
        assert fault["error"]["code"] == "session_not_found"
    assert (await gateway.running.json("GET", "/environment/api-keys", expect=200))["data"] == [key]


async def test_an_agent_session_is_limited_like_the_key_that_made_it(gateway: AgentGateway) -> None:
    scopes = ["environment:agent_sessions:write", "environment:proxy"]
    narrow = await gateway.key("GET /base/v1/items", scopes=scopes)
    headers = {"Authorization": f"Bearer {narrow}"}
    blue = {"tenant": {"connections": {"any": [{"tags": {"team": "blue"}}]}}}
    async with gateway.running.http.post(f"{gateway.running.url}/sessions", json=blue, headers=headers) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "unknown_connection")
    async with gateway.running.http.post(
        f"{gateway.running.url}/sessions", json={"tenant": RED_TENANT}, headers=headers
    ) as response:
        session = (await response.json())["data"]
    refused = await gateway.call(session["session_token"], "get_item", {"item_id": "7"}, **bearer(session))
    assert refused.get("isError", True)
    without = await gateway.key("GET /items", scopes=["environment:agent_sessions:write"])
    headers = {"Authorization": f"Bearer {without}"}
    async with gateway.running.http.post(
        f"{gateway.running.url}/sessions", json={"tenant": RED_TENANT}, headers=headers
    ) as response:
        assert response.status == 403
    assert gateway.provider.calls == []


async def test_a_session_expires(gateway: AgentGateway) -> None:
    session = await create_session(gateway, expires_in="2s")
    path = f"/sessions/{session['session_id']}"
    now = clock.now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + timedelta(seconds=5))
        ended = await gateway.running.json("DELETE", path, expect=200)
        assert (ended["data"]["reason"], ended["data"]["ended_at"]) == ("expired", session["expires_at"])


async def test_different_tools_for_two_integrations_at_one_host_are_refused_and_long_lists_are_split(
    gateway: AgentGateway,
) -> None:
    body = {"provider": "acme", "unique_key": "other"}
    await gateway.running.json("POST", "/integrations", json=body, expect=200)
    credentials = {"type": "API_KEY", "apiKey": "k"}
    connection = {
        "provider_config_key": "other",
        "connection_id": "o1",
        "credentials": credentials,
        "tags": {"team": "red"},
    }
    await gateway.running.json("POST", "/connections", json=connection, expect=201)
    few = {"allow": {"tools": ["get_item"]}}
    assert (await create_session(gateway, 501, toolset={"acme": few, "other": "*"}))["code"] == "not_offered"
    session = await create_session(gateway, toolset={"acme": few, "other": few})
    assert session["toolset"]["other"]["connected"]
    tools = await gateway.tools(session["session_token"], **bearer(session))
    assert tools["get_item"]["inputSchema"]["properties"]["connection"]["enum"] == ["acme/c1", "other/o1"]


async def test_above_the_maximum_number_tools_are_searched_and_cannot_be_pinned(
    gateway: AgentGateway, tmp_path: Path
) -> None:
    names = [f"get_a_thing_with_a_rather_long_name_{n}" for n in range(40)]
    operations(tmp_path, *(f"{name}\tGET\t/things/{name}\tread" for name in names), "drop\tDELETE\t/things\tdelete")
    session = await create_session(gateway, toolset={"acme": {"deny": {"tools": ["drop"]}}})
    assert session["toolset"] == {"acme": {"connected": True, "tools_pinned": 0, "tools_searchable": 40}}
    item = {"name": names[-1], "arguments": {}}
    result = await gateway.call(session["session_token"], "call_tool", item, **bearer(session))
    assert result["isError"] is False
    assert gateway.provider.calls[-1][1] == f"{BASE}/things/{names[-1]}"
    fault = await create_session(gateway, 501, pinned_tools={"acme": names[:1]})
    assert fault["code"] == "not_offered"
