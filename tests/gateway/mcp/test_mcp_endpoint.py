"""``POST /mcp`` end to end: the tools that a key's rules list, and the requests that reach the provider."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpClient

from gateway import create_app
from gateway.config import parse
from gateway.egress.page_memory import NoPageMemory, PageMemory
from gateway.mcp import key_tools
from gateway.mcp import mcp_messages as mcp
from gateway.mcp.tool_provider_call import MAX_RESPONSE_BYTES
from gateway.records.proxied_call import ExchangeRecord
from tests.fakes.agent_gateway import CONNECT, AgentGateway, agent_gateway, text_of

RULES = (
    "GET /base/v1/search as search_issues",
    "POST /base/v1/issue/{issue}/comment as comment",
    "GET /base/v1/issue/*",
)


async def test_the_rules_of_a_key_are_its_tools(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    tools = await gateway.tools(key)
    assert list(tools) == ["search_issues", "comment", "get_issue"]
    assert tools["comment"]["inputSchema"]["required"] == ["issue"]
    assert "connection" not in tools["comment"]["inputSchema"]["properties"]
    assert tools["search_issues"]["annotations"]["readOnlyHint"] is True
    assert "body" not in tools["search_issues"]["inputSchema"]["properties"]


async def test_a_tool_call_sends_the_request_of_its_rule(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    arguments = {"issue": "A-1", "query": {"notify": False, "tag": ["a", "b c"]}, "body": {"text": "hé"}}
    result = await gateway.call(key, "comment", arguments)
    assert result["isError"] is False
    assert result["structuredContent"]["method"] == "POST"
    expected = '{"text":"hé"}'.encode()
    path = "/base/v1/issue/A-1/comment?notify=false&tag=a&tag=b%20c"
    assert gateway.provider.calls == [("POST", path, "Bearer key-of-c1", expected)]
    assert json.loads(text_of(result)) == result["structuredContent"]


async def test_a_form_body_is_sent_form_encoded(gateway: AgentGateway) -> None:
    key = await gateway.key("POST /base/v1/charges")
    await gateway.call(key, "post_charges", {"body": {"amount": 5, "items[0]": "a&b"}, "body_as": "form"})
    assert gateway.provider.calls[0][3] == b"amount=5&items[0]=a%26b"


async def test_call_api_is_limited_by_the_same_rules(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    allowed = await gateway.call(key, "call_api", {"method": "GET", "path": "/search", "query": {"q": "x"}})
    assert allowed["structuredContent"]["path"] == "/base/v1/search?q=x"
    refused = await gateway.call(key, "call_api", {"method": "DELETE", "path": "/issue/1"})
    assert refused["isError"] is True
    error = refused["structuredContent"]["error"]
    assert (error["status"], error["payload"]["rule"]) == (403, "rules")
    assert "Changed by" in text_of(refused)
    assert len(gateway.provider.calls) == 1


async def test_a_key_without_rules_lists_only_call_api(gateway: AgentGateway) -> None:
    key = await gateway.key()
    assert list(await gateway.tools(key)) == ["call_api"]
    assert (await gateway.call(key, "call_api", {"method": "PUT", "path": "/x"}))["isError"] is False


async def test_the_mcp_endpoint_refuses_a_key_of_gateway_yaml(gateway: AgentGateway) -> None:
    key = gateway.running.headers["Authorization"].removeprefix("Bearer ")
    status, body = await gateway.send_message(key, "tools/list")
    assert (status, body["error"]["code"], body["error"]["payload"]["rule"]) == (403, "forbidden", "key")
    assert body["error"]["message"].endswith(
        "Create a key with rules: gateway keys create, or POST /environment/api-keys."
    )


async def test_many_tools_are_searched_instead_of_listed(gateway: AgentGateway) -> None:
    rules = [f"GET /base/v1/thing{n}/*" for n in range(20)]
    key = await gateway.key(*rules, "POST /base/v1/pinned as make_it")
    tools = await gateway.tools(key)
    assert list(tools) == ["make_it", "find_tools", "describe_tool", "call_tool"]
    assert tools["call_tool"]["annotations"]["readOnlyHint"] is False
    found = text_of(await gateway.call(key, "find_tools", {"query": "thing17"}))
    assert found.splitlines()[0] == "get_thing17: GET /thing17/{thing17}"
    about = await gateway.call(key, "describe_tool", {"name": "get_thing17"})
    assert about["structuredContent"]["inputSchema"]["required"] == ["thing17"]
    raw = await gateway.call(key, "describe_tool", {"name": "call_api"})
    assert raw["structuredContent"]["inputSchema"]["required"] == ["method", "path"]
    result = await gateway.call(key, "call_tool", {"name": "get_thing17", "arguments": {"thing17": "x"}})
    assert result["structuredContent"]["path"] == "/base/v1/thing17/x"
    assert (await gateway.call(key, "call_tool", {"name": "get_thing99", "arguments": {}}))["isError"] is True


async def test_the_time_to_retry_is_shown_to_the_agent(gateway: AgentGateway) -> None:
    async def respond_busy(_: web.Request) -> web.Response:
        return web.json_response({"message": "slow down"}, status=429, headers={"Retry-After": "30"})

    gateway.provider.responding = respond_busy
    result = await gateway.call(await gateway.key("GET /base/v1/me"), "get_me")
    assert text_of(result).splitlines()[0] == "The provider returned 429 Too Many Requests."
    assert text_of(result).splitlines()[-1] == "Retry-After: 30. Wait before you call again."


async def test_a_search_says_how_many_tools_match(gateway: AgentGateway) -> None:
    key = await gateway.key(*[f"GET /base/v1/thing{n}/*" for n in range(20)])
    found = text_of(await gateway.call(key, "find_tools", {"query": "thing"}))
    assert len(found.splitlines()) == 11
    assert found.endswith("\n10 of 20 tools are shown. Search with more specific words.")
    nothing = text_of(await gateway.call(key, "find_tools", {"query": "sprint board"}))
    assert nothing == "No tool matches. Use other English words, or an empty query to see the first tools."
    assert "tools are shown" not in text_of(await gateway.call(key, "find_tools", {"query": "thing17"}))


async def test_a_wrong_argument_of_the_search_is_named(gateway: AgentGateway) -> None:
    key = await gateway.key(*[f"GET /base/v1/thing{n}/*" for n in range(20)])
    for name, arguments, fix in (
        ("find_tools", {"q": "thing17"}, "Unknown argument 'q'. Valid arguments: query."),
        ("describe_tool", {"tool": "x"}, "Unknown argument 'tool'. Valid arguments: name."),
        (
            "call_tool",
            {"name": "get_thing1", "thing1": "x"},
            "Unknown argument 'thing1'. Valid arguments: arguments, name.",
        ),
        ("describe_tool", {"name": "get_thing99"}, "Unknown tool 'get_thing99'. Did you mean 'get_thing9'?"),
        (
            "call_tool",
            {"name": "get_thing99", "arguments": {}},
            "Unknown tool 'get_thing99'. Did you mean 'get_thing9'?",
        ),
        ("describe_tool", {"name": "zzz"}, "Unknown tool 'zzz'. Use find_tools to search this key's tools."),
    ):
        result = await gateway.call(key, name, arguments)
        assert (result["isError"], text_of(result)) == (True, fix)


async def test_the_mcp_endpoint_never_chooses_between_several_connections(gateway: AgentGateway) -> None:
    key = await gateway.key("GET /base/v1/me", limits={"connections": ["acme/c1", "acme/c2"]})
    tool = (await gateway.tools(key))["get_me"]["inputSchema"]
    assert tool["properties"]["connection"] == {"enum": ["acme/c1", "acme/c2"]}
    assert "connection" in tool["required"]
    result = await gateway.call(key, "get_me")
    assert result["isError"] is True
    assert "acme/c1, acme/c2" in text_of(result)
    assert gateway.provider.calls == []
    await gateway.call(key, "get_me", {"connection": "acme/c2"})
    assert gateway.provider.calls[0][2] == "Bearer key-of-c2"


async def test_connections_of_other_integrations_do_not_hide_a_second_account(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_tools, "MAX_CANDIDATES", 2)
    other = {"provider": "accredible", "unique_key": "other"}
    await gateway.running.json("POST", "/integrations", json=other, expect=200)
    await gateway.connect("o1", provider_config_key="other")
    await gateway.connect("newest")
    scopes = ["environment:proxy", "environment:connections:list"]
    key = await gateway.key("GET /base/v1/me", limits={"connections": None}, scopes=scopes)
    assert text_of(await gateway.call(key, "get_me")) == "Set 'connection' to one of acme/newest, acme/c2."
    assert gateway.provider.calls == []


@pytest.mark.parametrize("connections", [["acme/c1"], ["acme/c1", "acme/c2"]])
@pytest.mark.parametrize("rules", [(*RULES, "GET,POST /base/v1/both as both"), ()])
async def test_error_for_an_unknown_argument_lists_those_of_the_schema(
    gateway: AgentGateway, rules: tuple[str, ...], connections: list[str]
) -> None:
    key = await gateway.key(*rules, limits={"connections": connections})
    tools = await gateway.tools(key)
    for name, tool in tools.items():
        result = await gateway.call(key, name, {"wrong": 1})
        valid = ", ".join(sorted(tool["inputSchema"]["properties"]))
        assert text_of(result) == f"Unknown argument 'wrong'. Valid arguments: {valid}."
    assert ("both" in tools) == bool(rules)


async def test_only_keys_that_may_list_connections_see_their_names(gateway: AgentGateway) -> None:
    blind = await gateway.key("GET /base/v1/me", limits={"connections": None, "tags": {"team": "red"}})
    assert "environment:connections:list" in text_of(await gateway.call(blind, "get_me"))
    seeing = await gateway.key(
        "GET /base/v1/me",
        limits={"connections": None, "tags": {"team": "red"}},
        scopes=["environment:proxy", "environment:connections:list"],
    )
    assert (await gateway.call(seeing, "get_me"))["isError"] is False
    assert gateway.provider.calls[0][2] == "Bearer key-of-c1"


async def test_several_connections_are_named_with_their_accounts(gateway: AgentGateway) -> None:
    with closing(sqlite3.connect(gateway.running.folder / "gateway.db")) as db:
        db.execute("UPDATE connections SET account_label = 'ada@example.com' WHERE connection_id = 'c2'")
        db.commit()
    limits = {"connections": ["acme/c1", "acme/c2"]}
    scopes = ["environment:proxy", "environment:connections:list"]
    seeing = await gateway.key("GET /base/v1/me", limits=limits, scopes=scopes)
    assert "acme/c1, acme/c2 (ada@example.com)." in text_of(await gateway.call(seeing, "get_me"))
    blind = await gateway.key("GET /base/v1/me", limits=limits)
    assert "ada" not in text_of(await gateway.call(blind, "get_me"))
    assert gateway.provider.calls == []


async def test_a_missing_connection_gives_its_link_as_text(gateway: AgentGateway) -> None:
    limits = {"connections": ["acme/c9"]}
    key = await gateway.key("GET /base/v1/me", limits=limits, scopes=["environment:proxy", CONNECT])
    result = await gateway.call(key, "get_me")
    assert result["isError"] is True
    url = result["structuredContent"]["error"]["payload"]["connect_url"]
    assert f"open {url}" in text_of(result)
    assert "call again" in text_of(result)
    await gateway.connect("c9")
    assert (await gateway.call(key, "get_me"))["isError"] is False


async def test_error_of_a_call_that_lacks_scopes_has_the_link_that_grants_them(gateway: AgentGateway) -> None:
    async def refusing(_: web.Request) -> web.Response:
        challenge = 'Bearer error="insufficient_scope", scope="admin"'
        return web.json_response({"error": "no"}, status=403, headers={"WWW-Authenticate": challenge})

    gateway.provider.responding = refusing
    key = await gateway.key("GET /base/v1/me", scopes=["environment:proxy", CONNECT])
    result = await gateway.call(key, "get_me")
    assert (result["isError"], result["structuredContent"]["status"]) == (True, 403)
    assert "Ask the user to open this link, then call again: http" in text_of(result)
    narrow = await gateway.key("GET /base/v1/me")
    assert "Ask the user" not in text_of(await gateway.call(narrow, "get_me"))


async def test_a_client_that_opens_urls_is_asked_to_open_one_and_calls_again(gateway: AgentGateway) -> None:
    key = await gateway.key(
        "GET /base/v1/me", limits={"connections": ["acme/c9"]}, scopes=["environment:proxy", CONNECT]
    )
    able: dict[str, Any] = {"capabilities": {"elicitation": {"url": {}}}}
    result = await gateway.call(key, "get_me", **able)
    assert result["resultType"] == "input_required"
    (wanted,) = result["inputRequests"].values()
    assert (wanted["method"], wanted["params"]["mode"]) == ("elicitation/create", "url")
    assert "/connect" in wanted["params"]["url"]
    again = {**able, "requestState": result["requestState"]}
    declined = await gateway.call(key, "get_me", **again, inputResponses={"connect": {"action": "decline"}})
    assert "did not connect" in text_of(declined)
    missing = await gateway.call(key, "get_me", **again, inputResponses={"connect": {"action": "accept"}})
    assert missing["isError"] is True
    await gateway.connect("c9")
    done = await gateway.call(key, "get_me", **again, inputResponses={"connect": {"action": "accept"}})
    assert done["isError"] is False


async def test_the_state_of_a_retry_is_valid_only_for_its_key_and_call(gateway: AgentGateway) -> None:
    limits = {"connections": ["acme/c9"]}
    scopes = ["environment:proxy", CONNECT]
    key = await gateway.key("GET /base/v1/*", limits=limits, scopes=scopes)
    other = await gateway.key("GET /base/v1/*", limits=limits, scopes=scopes)
    able: dict[str, Any] = {"capabilities": {"elicitation": {"url": {}}}}
    state = (await gateway.call(key, "get", {"v1": "a"}, **able))["requestState"]
    for bearer, arguments, sent_state in (
        (other, {"v1": "a"}, state),
        (key, {"v1": "b"}, state),
        (key, {"v1": "a"}, state[:-2]),
    ):
        error = await gateway.call(bearer, "get", arguments, **able, requestState=sent_state)
        assert error["code"] == mcp.INVALID_PARAMS


async def test_error_response_of_the_provider_is_an_error_result(gateway: AgentGateway) -> None:
    async def respond_404(_request: web.Request) -> web.Response:
        return web.json_response({"why": "no such issue"}, status=404)

    gateway.provider.responding = respond_404
    key = await gateway.key(*RULES)
    result = await gateway.call(key, "get_issue", {"issue": "x"})
    assert result["isError"] is True
    assert result["structuredContent"] == {"status": 404, "body": {"why": "no such issue"}}
    assert "404 Not Found" in text_of(result)


async def test_a_large_response_is_cut_to_whole_items_with_a_link_to_the_rest(gateway: AgentGateway) -> None:
    issues = [{"id": n, "text": "x" * 1000} for n in range(1000)]

    async def large(_request: web.Request) -> web.Response:
        return web.json_response({"total": 1000, "issues": issues})

    gateway.provider.responding = large
    key = await gateway.key(*RULES)
    result = await gateway.call(key, "search_issues")
    shown = result["structuredContent"]["issues"]
    assert 0 < len(shown) < 25
    assert shown == issues[: len(shown)]
    assert len(result["content"][0]["text"].encode()) <= 20_000
    assert f"{len(shown)} of 1000 of 'issues'" in text_of(result)
    (link,) = [block for block in result["content"] if block["type"] == "resource_link"]
    read = await gateway.request_result(key, "resources/read", uri=link["uri"])
    assert json.loads(read["contents"][0]["text"])["issues"] == issues
    other = await gateway.key(*RULES)
    assert (await gateway.request_result(other, "resources/read", uri=link["uri"]))["code"] == mcp.INVALID_PARAMS
    few = await gateway.call(key, "search_issues", {"select": "issues[?id > `990`].id", "max_bytes": 500})
    assert json.loads(text_of(few)) == list(range(991, 1000))


async def test_a_worker_without_the_whole_response_fetches_it_again(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\xff" * 100, content_type="application/octet-stream")

    gateway.provider.responding = large
    key = await gateway.key(*RULES)
    (link,) = [b for b in (await gateway.call(key, "search_issues"))["content"] if b["type"] == "resource_link"]
    monkeypatch.setattr("gateway.mcp.kept_responses.KeptResponses.get", lambda *_: None)
    read = await gateway.request_result(key, "resources/read", uri=link["uri"])
    assert read["contents"][0]["mimeType"] == "application/octet-stream"
    assert len(gateway.provider.calls) == 2


async def test_a_whole_response_that_cannot_be_fetched_again_counts_once_against_the_rate(
    gateway: AgentGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once(_request: web.Request) -> web.Response:
        if len(gateway.provider.calls) > 1:
            return web.Response(status=500)
        return web.Response(body=b"\x00\xff" * 100, content_type="application/octet-stream")

    gateway.provider.responding = once
    key = await gateway.key(*RULES, limits={"rate": 3})
    (link,) = [b for b in (await gateway.call(key, "search_issues"))["content"] if b["type"] == "resource_link"]
    monkeypatch.setattr("gateway.mcp.kept_responses.KeptResponses.get", lambda *_: None)
    failed = await gateway.request_result(key, "resources/read", uri=link["uri"])
    assert failed["code"] == mcp.INTERNAL_ERROR
    assert (await gateway.send_message(key, "tools/list"))[0] == 200
    assert (await gateway.send_message(key, "tools/list"))[0] == 429


async def test_response_above_the_memory_limit_is_dropped(gateway: AgentGateway) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(MAX_RESPONSE_BYTES // 65536 + 1600):
            await response.write(b" " * 65536)
        return response

    gateway.provider.responding = endless
    key = await gateway.key(*RULES)
    result = await gateway.call(key, "search_issues")
    assert result["isError"] is True
    assert "more than 8 MiB" in text_of(result)
    assert gateway.running.runtime.page_memory.reserved == 0


async def test_a_response_that_breaks_off_is_not_shown(gateway: AgentGateway) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"half":')
        assert request.transport is not None
        request.transport.close()
        return response

    gateway.provider.responding = broken
    key = await gateway.key(*RULES)
    result = await gateway.call(key, "search_issues")
    assert result["isError"] is True
    assert "half" not in json.dumps(result)
    assert "may have taken effect" not in text_of(result)
    written = text_of(await gateway.call(key, "comment", {"issue": "A-1", "body": {}}))
    assert written.endswith("The request was sent and may have taken effect: find out before you call again.")


async def test_an_error_of_a_write_that_may_have_been_received_says_so(gateway: AgentGateway) -> None:
    async def close(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    gateway.provider.responding = close
    key = await gateway.key(*RULES)
    read = await gateway.call(key, "search_issues")
    written = await gateway.call(key, "comment", {"issue": "A-1", "body": {}})
    assert [result["structuredContent"]["error"]["code"] for result in (read, written)] == ["upstream_unreachable"] * 2
    assert "may have taken effect" not in text_of(read)
    assert text_of(written).endswith("it may have taken effect: find out before you call again.")


@pytest.mark.parametrize("fast_path", [True, False])
async def test_a_write_is_not_called_again_if_there_is_no_memory_for_its_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast_path: bool
) -> None:
    async def large(_: web.Request) -> web.Response:
        return web.json_response({"text": "x" * 200_000})

    async def refuse(*_: Any) -> None:
        raise NoPageMemory

    monkeypatch.setattr(PageMemory, "reserve", refuse)
    async with agent_gateway(tmp_path, fast_path=fast_path) as gateway:
        gateway.provider.responding = large
        key = await gateway.key(*RULES)
        assert text_of(await gateway.call(key, "search_issues")).endswith("Call again in a few seconds.")
        written = text_of(await gateway.call(key, "comment", {"issue": "A-1", "body": {}}))
        assert written.endswith("The request was sent and may have taken effect: find out before you call again.")


async def test_rate_and_budget_are_counted_as_for_a_proxied_call(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES, limits={"budget": 2, "rate": 5})
    for _ in range(2):
        assert (await gateway.call(key, "search_issues"))["isError"] is False
    spent = await gateway.call(key, "search_issues")
    assert spent["structuredContent"]["error"]["payload"]["rule"] == "budget"
    await gateway.tools(key)
    assert len(gateway.provider.calls) == 2
    assert (await gateway.call(key, "search_issues"))["structuredContent"]["error"]["payload"]["rule"] == "budget"
    status, body = await gateway.send_message(key, "tools/list")
    assert (status, body["error"]["payload"]["rule"]) == (429, "rate")


async def test_a_refused_request_counts_once_against_the_rate(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES, limits={"rate": 4})
    for method, params in (
        ("prompts/list", {}),
        ("tools/list", {"cursor": "x"}),
        ("resources/read", {"uri": "gateway://answers/x"}),
        ("ping", {}),
    ):
        status, body = await gateway.send_message(key, method, **params)
        assert (status, body["error"]["code"] < 0) in {(400, True), (404, True)}
    status, body = await gateway.send_message(key, "tools/list")
    assert (status, body["error"]["payload"]["rule"]) == (429, "rate")


async def test_a_call_is_recorded_with_key_connection_and_rule(gateway: AgentGateway) -> None:
    records: list[ExchangeRecord] = []
    gateway.running.runtime.call_queue.record = records.append  # type: ignore[method-assign]
    key = await gateway.key(*RULES)
    records.clear()
    await gateway.call(key, "search_issues", {"query": {"secret": "x"}})
    inner, outer = records
    assert (inner.path, inner.connection_id, inner.rule, inner.status) == ("/search", "c1", RULES[0], 200)
    assert (outer.path, outer.status) == ("/mcp", 200)
    assert inner.request_id == outer.request_id
    assert inner.key_id == outer.key_id is not None


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
async def test_every_refusal_for_an_mcp_client_is_a_json_rpc_error(tmp_path: Path, fast_path: bool) -> None:
    """An MCP client sends an Accept with ``text/event-stream``. A program without it gets the errors of the HTTP API."""
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    both, plain = {"Accept": "application/json, text/event-stream"}, {"Accept": "application/json"}
    async with agent_gateway(tmp_path, fast_path=fast_path) as gateway:
        spent, named = (
            await gateway.key(*RULES, limits={"rate": 1}),
            {"Authorization": f"Bearer {await gateway.key(*RULES)}"},
        )
        await gateway.tools(spent)
        for headers, status, code in (
            ({"Authorization": "Bearer gw_sk_replaced"}, 401, "unknown_account"),
            (dict(gateway.running.headers), 403, "forbidden"),
            ({**named, "Origin": "https://attacker.example"}, 403, "forbidden"),
            ({**named, "Content-Type": "text/plain"}, 415, "invalid_content_type"),
            ({"Authorization": f"Bearer {spent}"}, 429, "too_many_request"),
        ):
            got, ours = await gateway.post_message(message, {**headers, **plain})
            assert (got, ours["error"]["code"]) == (status, code)
            got, body = await gateway.post_message(message, {**headers, **both})
            assert (got, body["jsonrpc"], body["id"], body["error"]["code"]) == (status, "2.0", None, -32010), body
            assert body["error"]["message"].partition(" in ")[0] == ours["error"]["message"].partition(" in ")[0]
            assert body["error"]["data"].keys() | {"message"} == ours["error"].keys()
            assert body["error"]["data"]["code"] == code


async def test_capability_and_session_endpoints_also_refuse_in_json_rpc(gateway: AgentGateway) -> None:
    request_body = {
        "kind": "capability",
        "display_name": "cap",
        "limits": {"connections": ["acme/c1"], "rules": [RULES[0]]},
    }
    minted = await gateway.running.json("POST", "/environment/api-keys", json=request_body, expect=200)
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    mcp_client = {"Accept": "application/json, text/event-stream"}
    named = {**mcp_client, "Authorization": f"Bearer {await gateway.key(*RULES)}"}
    for path, headers, status, code in (
        (f"/c/{minted['data']['secret']}/mcp", {**mcp_client, "Origin": "https://attacker.example"}, 403, "forbidden"),
        (f"/c/gw_cap_{'A' * 49}/mcp", mcp_client, 401, "unknown_account"),
        ("/session/1/mcp", mcp_client, 401, "missing_auth_header"),
        ("/session/999999/mcp", named, 404, "session_not_found"),
    ):
        got, body = await gateway.post_message(message, headers, path)
        assert (got, body["jsonrpc"], body["id"], body["error"]["code"]) == (status, "2.0", None, -32010), body
        assert body["error"]["data"]["code"] == code


async def test_a_client_of_a_providers_own_mcp_server_also_gets_a_readable_refusal(gateway: AgentGateway) -> None:
    key = await gateway.key("POST /base/v1/mcp with tools search_*")
    params = {"name": "delete_issue", "arguments": {}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "Authorization": f"Bearer {key}",
        "Provider-Config-Key": "acme",
        "Connection-Id": "c1",
        "Accept": "application/json, text/event-stream",
    }
    status, body = await gateway.post_message(message, headers, "/proxy/mcp")
    assert (status, body["error"]["code"], body["error"]["data"]["payload"]["rule"]) == (403, -32010, "body")
    assert "delete_issue" in body["error"]["message"]
    assert gateway.provider.calls == []
    status, body = await gateway.post_message(message, headers, "/proxy/events")  # a path that names no MCP server
    assert (status, body["error"]["code"]) == (403, "forbidden")
    revision = {"MCP-Protocol-Version": "2025-06-18"}
    assert (await gateway.post_message(message, {**headers, **revision}, "/proxy/events"))[1]["error"]["code"] == -32010


async def test_a_page_of_another_origin_is_refused(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    bearer = {"Authorization": f"Bearer {key}"}
    assert (await gateway.post_message(message, {**bearer, "Origin": "https://attacker.example"}))[0] == 403
    assert (await gateway.post_message(message, {**bearer, "Origin": gateway.running.url}))[0] == 200


async def test_accept_can_be_sent_in_several_fields(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    accept = [("Accept", "text/event-stream"), ("Accept", "application/json")]
    head = [("Authorization", f"Bearer {key}"), ("Content-Type", "application/json"), *accept]
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for head_sent, status in ((head, 200), (head[1:], 401)):
        for _ in range(2):
            async with gateway.running.http.post(
                f"{gateway.running.url}/mcp", json=message, headers=head_sent
            ) as response:
                body = await response.json()
                assert (response.status, body["jsonrpc"]) == (status, "2.0")


async def test_other_methods_of_http_are_405_and_notifications_202(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    bearer = {"Authorization": f"Bearer {key}"}
    for method in ("GET", "DELETE"):
        async with gateway.running.http.request(method, f"{gateway.running.url}/mcp", headers=bearer) as response:
            assert response.status == 405
            assert "POST" in response.headers["Allow"]
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    assert await gateway.post_message(note, bearer) == (202, None)


async def test_a_client_of_2025_is_served_without_a_session(gateway: AgentGateway) -> None:
    key = await gateway.key(*RULES)
    initialized = await gateway.request_result(key, "initialize", revision="2025-11-25", protocolVersion="2025-06-18")
    assert initialized["protocolVersion"] == "2025-06-18"
    tools = await gateway.tools(key, revision="2025-06-18")
    assert "search_issues" in tools
    result = await gateway.call(key, "search_issues", revision="2025-06-18")
    assert "resultType" not in result
    assert result["structuredContent"]["path"] == "/base/v1/search"


async def test_a_capability_url_has_the_mcp_endpoint_below_it(gateway: AgentGateway) -> None:
    body = {"kind": "capability", "display_name": "cap", "limits": {"connections": ["acme/c1"], "rules": [RULES[0]]}}
    minted = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=200)
    path = f"/c/{minted['data']['secret']}"
    assert list(await gateway.tools("unused", path=f"{path}/mcp")) == ["search_issues"]
    result = await gateway.call("unused", "search_issues", {"query": {"a": 1}}, path=f"{path}/mcp")
    assert result["structuredContent"]["path"] == "/base/v1/search?a=1"
    async with gateway.running.http.get(f"{gateway.running.url}{path}/mcp") as response:
        assert response.status == 405
    async with gateway.running.http.get(f"{gateway.running.url}{path}/search") as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/a\r\nX-Evil: 1", "/a b", "/é", "//x", "/a/../b", "/%2e%2e/x", "search"])
async def test_a_path_that_no_request_line_could_have_is_refused(gateway: AgentGateway, path: str) -> None:
    key = await gateway.key("* /base/v1/**")
    result = await gateway.call(key, "call_api", {"method": "GET", "path": path})
    assert result["isError"] is True
    assert gateway.provider.calls == []


async def test_a_plugin_below_a_prefix_has_the_mcp_endpoint_too(
    gateway: AgentGateway, aiohttp_client: AiohttpClient
) -> None:
    key = await gateway.key(*RULES)
    host = web.Application()
    host.add_subapp("/gateway", create_app(parse(gateway.running.document, base=gateway.running.folder, environ={})))
    client = await aiohttp_client(host)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_issues", "arguments": {}}}
    async with client.post("/gateway/mcp", json=call, headers={"Authorization": f"Bearer {key}"}) as response:
        result = (await response.json())["result"]
    assert result["structuredContent"]["path"] == "/base/v1/search"


@pytest.mark.parametrize(
    ("members", "sent"), [({"tracestate": "b=2"}, "b=2"), ({}, None), ({"tracestate": "b=2\r\nX: 1"}, None)]
)
async def test_tracestate_of_the_header_is_not_sent_with_the_traceparent_of_the_message(
    gateway: AgentGateway, members: dict[str, str], sent: str | None
) -> None:
    heads = []

    async def responding(request: web.Request) -> web.Response:
        heads.append(request.headers)
        return web.json_response({})

    gateway.provider.responding = responding
    key = await gateway.key(*RULES)
    meta = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", **members}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search_issues", "arguments": {}, "_meta": meta},
    }
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}
    await gateway.post_message(json.dumps(message).encode(), {"Authorization": f"Bearer {key}", **headers})
    (head,) = heads
    assert head["traceparent"] == meta["traceparent"]
    assert head.get("tracestate") == sent


async def test_the_trace_of_a_message_continues_in_its_call(gateway: AgentGateway) -> None:
    records: list[ExchangeRecord] = []
    gateway.running.runtime.call_queue.record = records.append  # type: ignore[method-assign]
    key = await gateway.key(*RULES)
    records.clear()
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    params = {"name": "search_issues", "arguments": {}, "_meta": {"traceparent": trace}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    await gateway.post_message(json.dumps(message).encode(), {"Authorization": f"Bearer {key}"})
    assert records[0].traceparent == trace
