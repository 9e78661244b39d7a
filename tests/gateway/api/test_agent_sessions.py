"""``POST /sessions`` end to end: the connections and tools of a session, its MCP URL, and how it ends."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import clock
from gateway.catalog.api_operations import ProviderOperations
from gateway.catalog.load_catalog import Catalog
from tests.fakes.agents import BASE, Agents, agents
from tests.gateway.mcp.test_operation_tools import operations

RED_TENANT: dict[str, Any] = {"connections": {"any": [{"tags": {"Team": "red"}}]}}


@pytest.fixture
async def door(tmp_path: Path) -> Any:
    async with agents(tmp_path) as made:
        operations(tmp_path)
        yield made


async def create_session(door: Agents, expect: int = 200, *, tenant: Any = RED_TENANT, **body: Any) -> Any:
    response = await door.running.json("POST", "/sessions", json={"tenant": tenant, **body}, expect=expect)
    return response["data"] if expect == 200 else response["error"]


def bearer(session: Any) -> dict[str, str]:
    return {"path": f"/session/{session['session_id']}/mcp"}


async def test_session_has_the_tenants_connection_and_the_requested_tools(door: Agents) -> None:
    session = await create_session(
        door, toolset={"lane": {"allow": {"tools": ["get_item", "list_items"]}}}, expires_in="15m"
    )
    assert session["mcp_url"].endswith(bearer(session)["path"])
    assert session["toolset"] == {"lane": {"connected": True, "tools_pinned": 2, "tools_searchable": 0}}
    assert session["meta_tools"] == {"nango_tool_search": True, "nango_execute": True, "nango_proxy": False}
    token = session["session_token"]
    assert set(await door.tools(token, **bearer(session))) == {"get_item", "list_items"}
    assert set(await door.tools(token, path=f"/sessions/{session['session_id']}/mcp")) == {
        "get_item",
        "list_items",
    }
    result = await door.call(token, "get_item", {"item_id": "7"}, **bearer(session))
    assert result.get("isError") is False, result
    refused = await door.call(token, "call_api", {"method": "DELETE", "path": "/items/7"}, **bearer(session))
    assert refused["isError"]
    assert [call[:3] for call in door.provider.calls] == [("GET", f"{BASE}/items/7", "Bearer key-of-c1")]


async def test_the_catalogs_operations_are_not_read_on_the_event_loop(
    door: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take about 10 ms for each integration of the environment."""
    threads: list[threading.Thread] = []
    read = Catalog.operations

    def operations(catalog: Catalog, name: str) -> ProviderOperations | None:
        threads.append(threading.current_thread())
        return read(catalog, name)

    monkeypatch.setattr(Catalog, "operations", operations)
    await create_session(door)
    assert len(threads) >= 2
    assert threading.main_thread() not in threads


async def test_deny_removes_tools_and_a_missing_allow_list_allows_all(door: Agents) -> None:
    session = await create_session(door, toolset={"lane": {"deny": {"tools": ["delete_item"]}}})
    tools = await door.tools(session["session_token"], **bearer(session))
    assert {"create_item", "set_owner"} <= set(tools)
    assert "delete_item" not in tools
    everything = await create_session(door)
    assert set(await door.tools(everything["session_token"], **bearer(everything))) >= {"delete_item", *tools}


async def test_ambiguous_connections_are_listed_and_no_session_is_created(door: Agents) -> None:
    await door.connect("c3", tags={"team": "red"})
    fault = await create_session(door, 400)
    assert fault["code"] == "ambiguous_connections"
    found = fault["payload"]["integrations"]["lane"]
    assert (found["match_count"], {candidate["connection_id"] for candidate in found["candidates"]}) == (
        2,
        {"c1", "c3"},
    )
    assert (await door.running.json("GET", "/environment/api-keys", expect=200))["data"] == []
    pinned = {
        "connections": {**RED_TENANT["connections"], "pinned": [{"integration_id": "lane", "connection_id": "c3"}]}
    }
    session = await create_session(door, tenant=pinned)
    await door.call(session["session_token"], "list_items", **bearer(session))
    assert door.provider.calls[-1][2] == "Bearer key-of-c3"


def pinned_to(connection_id: str) -> dict[str, Any]:
    return {
        "connections": {
            **RED_TENANT["connections"],
            "pinned": [{"integration_id": "lane", "connection_id": connection_id}],
        }
    }


@pytest.mark.parametrize(
    ("body", "status", "code", "payload"),
    [
        ({"toolset": {"other": "*"}}, 400, "unknown_integration", {"integrations": ["other"]}),
        (
            {"toolset": {"lane": {"allow": {"tools": ["create-issue"]}}}},
            400,
            "unknown_tool",
            {"tools": [{"integration_id": "lane", "tool": "create-issue"}]},
        ),
        (
            {"toolset": {"lane": {"deny": {"tools": ["get_item"]}}}, "pinned_tools": {"lane": ["get_item"]}},
            400,
            "tool_not_in_toolset",
            {"pinned": [{"integration_id": "lane", "tool": "get_item"}]},
        ),
        ({"meta_tools": {"nango_shell": True}}, 400, "unknown_meta_tool", {"meta_tools": ["nango_shell"]}),
        (
            {"tenant": pinned_to("c9")},
            400,
            "unknown_pinned_connection",
            {"pinned": [{"integration_id": "lane", "connection_id": "c9"}]},
        ),
        (
            {"tenant": pinned_to("c2")},
            400,
            "pinned_connection_not_matched",
            {"pinned": [{"integration_id": "lane", "connection_id": "c2", "candidates": [{"connection_id": "c1"}]}]},
        ),
        ({"tenant": {"connections": {"any": [{"tags": {"team": "green"}}]}}}, 404, "unknown_connection", None),
        ({"meta_tools": {"nango_proxy": True}}, 501, "not_offered", None),
        ({"meta_tools": {"nango_execute": False}}, 501, "not_offered", None),
        ({"tenant": {"connections": {}}}, 400, "invalid_body", None),
        ({"tenant": {"connections": {"any": [{"tags": {}}]}}}, 400, "invalid_body", None),
        ({"expires_in": "31d"}, 400, "invalid_body", None),
        ({"expires_in": "0s"}, 400, "invalid_body", None),
    ],
)
async def test_impossible_session_is_refused_with_a_reason(
    door: Agents, body: Any, status: int, code: str, payload: Any
) -> None:
    fault = await create_session(door, status, **body)
    assert fault["code"] == code
    assert fault.get("payload") == payload
    assert (await door.running.json("GET", "/environment/api-keys", expect=200))["data"] == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"pinned_tools": {"lane": ["x"] * 1001}}, ["pinned_tools", "lane"]),
        ({"pinned_tools": {f"i{n}": [] for n in range(1001)}}, ["pinned_tools"]),
        ({"meta_tools": {f"i{n}": True for n in range(1001)}}, ["meta_tools"]),
        ({"toolset": {f"i{n}": "*" for n in range(1001)}}, ["toolset"]),
        ({"toolset": {"lane": {"deny": {"tools": ["x"] * 1001}}}}, ["toolset"]),
    ],
)
async def test_lists_of_names_are_limited(door: Agents, body: Any, path: list[str]) -> None:
    fault = await create_session(door, 400, **body)
    assert fault["code"] == "invalid_body"
    assert path in [error["path"][: len(path)] for error in fault["errors"]]


async def test_a_provider_without_operations_is_refused_instead_of_creating_a_key_without_rules(tmp_path: Path) -> None:
    async with agents(tmp_path) as door:
        for toolset in ("*", {"lane": "*"}):
            assert (await create_session(door, 501, toolset=toolset))["code"] == "not_offered"


async def test_a_toolset_that_allows_nothing_is_refused(door: Agents) -> None:
    fault = await create_session(door, 501, toolset={"lane": {"allow": {"tools": []}}})
    assert fault["code"] == "not_offered"


async def test_a_session_refuses_requests_after_its_end(door: Agents) -> None:
    session, other = await create_session(door), await create_session(door)
    token, path = session["session_token"], f"/sessions/{session['session_id']}"
    status, body = await door.send_message(other["session_token"], "tools/list", **bearer(session))
    assert (status, body["error"]["code"]) == (404, "session_not_found")
    ended = await door.running.json("DELETE", path, expect=200)
    assert (ended["data"]["session_id"], ended["data"]["reason"]) == (session["session_id"], "terminated")
    assert (await door.send_message(token, "tools/list", **bearer(session)))[0] == 401
    assert await door.running.json("DELETE", path, expect=200) == ended
    assert (await door.send_message(other["session_token"], "tools/list", **bearer(other)))[0] == 200


async def test_the_session_url_ends_no_key_that_is_not_a_session(door: Agents) -> None:
    await door.key("GET /items")
    key = (await door.running.json("GET", "/environment/api-keys", expect=200))["data"][0]
    for item in (key["id"], 999, "x"):
        fault = await door.running.json("DELETE", f"/sessions/{item}", expect=404)
        assert fault["error"]["code"] == "session_not_found"
    assert (await door.running.json("GET", "/environment/api-keys", expect=200))["data"] == [key]


async def test_an_agent_session_is_limited_like_the_key_that_made_it(door: Agents) -> None:
    scopes = ["environment:agent_sessions:write", "environment:proxy"]
    narrow = await door.key("GET /base/v1/items", scopes=scopes)
    headers = {"Authorization": f"Bearer {narrow}"}
    blue = {"tenant": {"connections": {"any": [{"tags": {"team": "blue"}}]}}}
    async with door.running.http.post(f"{door.running.url}/sessions", json=blue, headers=headers) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "unknown_connection")
    async with door.running.http.post(
        f"{door.running.url}/sessions", json={"tenant": RED_TENANT}, headers=headers
    ) as response:
        session = (await response.json())["data"]
    refused = await door.call(session["session_token"], "get_item", {"item_id": "7"}, **bearer(session))
    assert refused.get("isError", True)
    without = await door.key("GET /items", scopes=["environment:agent_sessions:write"])
    headers = {"Authorization": f"Bearer {without}"}
    async with door.running.http.post(
        f"{door.running.url}/sessions", json={"tenant": RED_TENANT}, headers=headers
    ) as response:
        assert response.status == 403
    assert door.provider.calls == []


async def test_a_session_expires(door: Agents) -> None:
    session = await create_session(door, expires_in="2s")
    path = f"/sessions/{session['session_id']}"
    now = clock.now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + timedelta(seconds=5))
        ended = await door.running.json("DELETE", path, expect=200)
        assert (ended["data"]["reason"], ended["data"]["ended_at"]) == ("expired", session["expires_at"])


async def test_tools_that_would_mix_at_one_host_are_refused_and_long_lists_are_split(door: Agents) -> None:
    body = {"provider": "lane", "unique_key": "other"}
    await door.running.json("POST", "/integrations", json=body, expect=200)
    credentials = {"type": "API_KEY", "apiKey": "k"}
    there = {"provider_config_key": "other", "connection_id": "o1", "credentials": credentials, "tags": {"team": "red"}}
    await door.running.json("POST", "/connections", json=there, expect=201)
    few = {"allow": {"tools": ["get_item"]}}
    assert (await create_session(door, 501, toolset={"lane": few, "other": "*"}))["code"] == "not_offered"
    session = await create_session(door, toolset={"lane": few, "other": few})
    assert session["toolset"]["other"]["connected"]
    tools = await door.tools(session["session_token"], **bearer(session))
    assert tools["get_item"]["inputSchema"]["properties"]["connection"]["enum"] == ["lane/c1", "other/o1"]


async def test_above_the_maximum_tools_are_searched_and_cannot_be_pinned(door: Agents, tmp_path: Path) -> None:
    names = [f"get_a_thing_with_a_rather_long_name_{n}" for n in range(40)]
    operations(tmp_path, *(f"{name}\tGET\t/things/{name}\tread" for name in names), "drop\tDELETE\t/things\tdelete")
    session = await create_session(door, toolset={"lane": {"deny": {"tools": ["drop"]}}})
    assert session["toolset"] == {"lane": {"connected": True, "tools_pinned": 0, "tools_searchable": 40}}
    item = {"name": names[-1], "arguments": {}}
    result = await door.call(session["session_token"], "call_tool", item, **bearer(session))
    assert result["isError"] is False
    assert door.provider.calls[-1][1] == f"{BASE}/things/{names[-1]}"
    fault = await create_session(door, 501, pinned_tools={"lane": names[:1]})
    assert fault["code"] == "not_offered"
