"""Operations of the catalog as an agent's tools: their size in tokens, their descriptions, their requests."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from gateway.access.freeze_operations import operation_details, snapshot
from gateway.access.key_policy import Policy
from gateway.access.key_rule import KeyRule, parse_rule
from gateway.access.operation_rules import operation_set
from gateway.catalog.load_catalog import Catalog, load_catalog
from gateway.mcp.rule_tools import OperationBase, RuleTool, tools_of
from gateway.mcp.tool_list import matching_tools, tools_to_show
from gateway.records.access import KeyLimits
from gateway.records.proxied_call import ExchangeRecord
from tests.fakes.agent_gateway import BASE, AgentGateway, text_of
from tests.gateway.catalog.folders import SCRIPTS, SHIPPED
from tests.gateway.mcp.test_agreement import METHODS, VALUES, call_by_agent, call_by_proxy

PAIRS: Final = int(os.environ.get("DOOR_PAIRS", "2000")) // 4
KEYS: Final = 12
HEAD: Final = "# source: x\n# version: 1\n# date: 2026-01-02\n# licence: MIT\n"
COLUMNS: Final = "id\tmethod\tpath\trisk\tmarks\tscopes\tquery\tsummary\n"
ACME: Final = (
    "list_items\tGET\t/items\tread\tstarter\t\tstate limit\tList the items",
    "get_item\tGET\t/items/{itemId}\tread",
    "search_items\tPOST\t/items/search\tread\tstarter\t\t\tSearch items by a query",
    "create_item\tPOST\t/items\twrite\tstarter",
    "update_item\tPUT\t/items/{itemId}\twrite",
    "act_on_item\tPOST\t/items/{itemId}\twrite",
    "delete_item\tDELETE\t/items/{itemId}\tdelete",
    "get_page\tGET\t/a/{page}.json\tread",
    "set_owner\tPUT\t/items/owner\tadmin",
    "run_item\tPOST\t/items/{itemId}/a/b\twrite\tbodiless",
)


def operations(tmp_path: Path, *lines: str, head: str = HEAD) -> None:
    place = tmp_path / "catalog" / "operations"
    place.mkdir(exist_ok=True)
    (place / "acme.tsv").write_text(head + COLUMNS + "\n".join(lines or ACME) + "\n")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([SHIPPED], scripts=SCRIPTS)


def of_provider(name: str, what: str, catalog: Catalog, *extra: KeyRule) -> tuple[list[RuleTool], list[dict[str, Any]]]:
    rule = f"operations {name} {what}"
    text = snapshot(rule, catalog)
    frozen = operation_set(rule, text)
    known = catalog.operations(name)
    assert known is not None
    policy = Policy(("environment:proxy",), (KeyLimits(rules=(rule,), operations={rule: text}),))
    place = OperationBase((name,), frozen.base, operation_details(frozen.rules, known))
    rules = [[*extra, *policy.rules[-1]]]
    tools = tools_of(rules, {name: ""}, {rule: place})
    return tools, tools_to_show(tools, rules, [f"{name}/u"], must_name_connection=False)


def tokens(shown: Any) -> float:
    return len(json.dumps(shown)) / 4


def test_a_read_only_key_for_jira_costs_at_most_1000_tokens_and_one_operation_300(catalog: Catalog) -> None:
    tools, shown = of_provider("jira", "read", catalog)
    assert len(tools) > 150
    assert tokens(shown) <= 1000
    assert {"search_issues", "get_issue", "find_tools", "describe_tool", "call_tool"} <= {
        item["name"] for item in shown
    }
    for tool in tools:
        assert tokens(of_provider("jira", tool.name, catalog)[1]) <= 300


@pytest.mark.parametrize("name", ["github", "slack", "google-mail", "stripe", "hubspot", "microsoft", "notion"])
def test_tool_lists_of_other_large_providers_stay_below_1000_tokens(catalog: Catalog, name: str) -> None:
    for what in ("read", "read,write,delete,admin"):
        tools, shown = of_provider(name, what, catalog)
        assert len(shown) <= 12
        if len(tools) > 12:
            assert tokens(shown) <= 1000
        assert len({tool.name for tool in tools}) == len(tools)


def test_annotations_follow_method_and_risk(catalog: Catalog) -> None:
    """For every shipped operation, a tool is marked as read-only exactly if its risk is read."""
    seen = 0
    for name in ("jira", "github", "slack", "google-mail", "dropbox", "zoho-crm"):
        known = catalog.operations(name)
        assert known is not None
        risks = {item.id: item for item in known.operations}
        tools, _ = of_provider(name, "read,write,delete,admin", catalog)
        for tool in tools:
            operation = risks[tool.rule.name]
            hints = tools_to_show([tool], [[tool.rule]], [], must_name_connection=False)[0]["annotations"]
            assert hints["readOnlyHint"] is (operation.risk == "read")
            assert "destructiveHint" not in hints  # the default is true
            assert hints.get("idempotentHint", False) is (
                operation.risk != "read" and operation.method in ("PUT", "DELETE")
            )
            seen += 1
    assert seen > 1500
    every = of_provider("jira", "read,write", catalog)[1]
    assert {item["name"]: item for item in every}["call_tool"]["annotations"]["readOnlyHint"] is False
    reads = of_provider("slack", "read", catalog)[1]
    assert {read["name"]: read for read in reads}["call_tool"]["annotations"]["readOnlyHint"] is True


def test_rules_with_names_are_pinned_before_starters(catalog: Catalog) -> None:
    more = [parse_rule(f"GET /v1/x{n} as my_{n}") for n in range(3)]
    _, shown = of_provider("jira", "read", catalog, *more)
    assert [item["name"] for item in shown[:4]] == ["my_0", "my_1", "my_2", "get_issue"]


def test_a_tool_is_found_by_the_words_of_its_summary(catalog: Catalog) -> None:
    tools, _ = of_provider("jira", "read", catalog)
    assert matching_tools(tools, "edit metadata issue")[0].name.startswith("get_")
    assert "get_issue" in [tool.name for tool in matching_tools(tools, "get issue")]


async def test_operations_are_tools_with_typed_arguments(gateway: AgentGateway, tmp_path: Path) -> None:
    operations(tmp_path)
    tools = await gateway.tools(await gateway.key("operations acme read,create_item"))
    assert list(tools) == ["list_items", "search_items", "create_item", "get_item", "get_page"]
    assert tools["list_items"]["description"] == "List the items"
    assert tools["get_item"]["description"] == "GET /items/{item_id}"
    text = {"type": "string"}
    assert tools["list_items"]["inputSchema"]["properties"] == {
        "query": {"type": "object", "properties": {"state": text, "limit": text}},
        "select": text,
        "max_bytes": {"type": "integer"},
    }
    assert tools["get_item"]["inputSchema"]["required"] == ["item_id"]
    assert tools["search_items"]["inputSchema"]["properties"]["body"] == {"type": ["object", "array"]}
    assert tools["search_items"]["annotations"] == {"readOnlyHint": True}


async def test_operation_tool_sends_its_request_and_the_call_log_names_the_operation(
    gateway: AgentGateway, tmp_path: Path
) -> None:
    records: list[ExchangeRecord] = []
    gateway.running.runtime.call_queue.record = records.append  # type: ignore[method-assign]
    operations(tmp_path)
    key = await gateway.key("operations acme read")
    await gateway.call(key, "list_items", {"query": {"state": "open"}})
    await gateway.call(key, "get_item", {"item_id": "A-1"})
    await gateway.call(key, "search_items", {"body": {"q": 1}})
    refused = await gateway.call(key, "call_api", {"method": "PUT", "path": "/items/A-1"})
    assert [call[:2] for call in gateway.provider.calls] == [
        ("GET", f"{BASE}/items?state=open"),
        ("GET", f"{BASE}/items/A-1"),
        ("POST", f"{BASE}/items/search"),
    ]
    assert "operations acme read" in text_of(refused)
    assert "operations acme read: get_item" in [record.rule for record in records]


async def test_settings_of_the_connection_are_filled_into_the_prefix_of_operations(
    gateway: AgentGateway, tmp_path: Path
) -> None:
    operations(tmp_path, *ACME, head=f"{HEAD}# prefix: /ex/${{connectionConfig.site}}\n")
    await gateway.connect("c3", connection_config={"site": "s-1"})
    key = await gateway.key("operations acme read", limits={"connections": ["acme/c3"]})
    assert "site" not in json.dumps(await gateway.tools(key))
    await gateway.call(key, "get_item", {"item_id": "A-1"})
    assert gateway.provider.calls[-1][:2] == ("GET", f"{BASE}/ex/s-1/items/A-1")
    lacking = await gateway.call(await gateway.key("operations acme read"), "get_item", {"item_id": "A-1"})
    assert "lacks the setting" in text_of(lacking)
    assert len(gateway.provider.calls) == 1


@pytest.mark.parametrize("limits", [{"connections": ["acme/c3"]}, {"connections": None, "tags": {"team": "green"}}])
async def test_settings_of_a_connection_outside_the_key_are_not_read(
    gateway: AgentGateway, tmp_path: Path, limits: dict[str, Any]
) -> None:
    operations(tmp_path, *ACME, head=f"{HEAD}# prefix: /ex/${{connectionConfig.site}}\n")
    key = await gateway.key("operations acme read", limits=limits)
    other, none = [
        text_of(await gateway.call(key, "get_item", {"item_id": "A-1", "connection": f"acme/{name}"}))
        for name in ("c1", "nobody")
    ]
    assert other.replace("c1", "nobody") == none
    assert "lacks the setting" not in other


async def test_many_operations_are_searched_and_called_instead_of_listed(gateway: AgentGateway, tmp_path: Path) -> None:
    operations(tmp_path, *ACME, *(f"get_thing_{n}\tGET\t/things{n}\tread\t\t\t\tThing number {n}" for n in range(20)))
    key = await gateway.key("operations acme read")
    tools = await gateway.tools(key)
    assert list(tools) == ["list_items", "search_items", "find_tools", "describe_tool", "call_tool"]
    assert "get_thing_7: Thing number 7" in text_of(await gateway.call(key, "find_tools", {"query": "thing 7"}))
    await gateway.call(key, "call_tool", {"name": "get_thing_7", "arguments": {}})
    assert gateway.provider.calls[-1][:2] == ("GET", f"{BASE}/things7")


async def test_operation_that_the_catalog_dropped_stays_a_tool_without_a_summary(
    gateway: AgentGateway, tmp_path: Path
) -> None:
    operations(tmp_path)
    key = await gateway.key("operations acme list_items")
    operations(tmp_path, "get_else\tGET\t/else\tread")
    tools = await gateway.tools(key)
    assert tools["list_items"]["description"] == "GET /items"
    await gateway.call(key, "list_items", {})
    assert gateway.provider.calls[-1][:2] == ("GET", f"{BASE}/items")


async def test_a_rule_that_matches_no_operation_is_refused_when_the_key_is_created(
    gateway: AgentGateway, tmp_path: Path
) -> None:
    operations(tmp_path)
    body = {"display_name": "a", "limits": {"rules": ["operations acme get_itm"]}}
    refused = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=400)
    assert "did you mean 'get_item'" in refused["error"]["message"]
    body["limits"] = {"rules": ["operations acme read"] + ["GET /a"] * 200}
    await gateway.running.json("POST", "/environment/api-keys", json=body, expect=400)
    body["limits"] = {"rules": ["operations acme read"] + [f"GET /a{n}" for n in range(199)]}
    minted = await gateway.running.json("POST", "/environment/api-keys", json=body, expect=200)
    assert minted["data"]["limits"][0]["operations"] == {"operations acme read": 4}


async def test_list_calls_and_proxy_agree_on_operations_too(gateway: AgentGateway, tmp_path: Path) -> None:
    """Uses random keys and requests; `DOOR_PAIRS` is their number."""

    async def short(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    gateway.provider.responding = short
    operations(tmp_path)
    draw = random.Random(54)
    templates = [line.split("\t") for line in ACME]
    sent = refused = of_tools = 0
    for _ in range(KEYS):
        words = draw.sample(
            ["read", "write", "delete", "admin", "starter+read", *(template[0] for template in templates)], 2
        )
        rules = [f"operations acme {','.join(words)}"]
        if draw.random() < 0.3:
            rules.append(f"GET {BASE}/b/*")
        chosen = {
            template[0]
            for template in templates
            for word in words
            if word in (template[0], template[3])
            or (word == "starter+read" and template[3] == "read" and "starter" in template)
        }
        key = await gateway.key(*rules)
        tools = await gateway.tools(key)
        assert chosen == {name for name in tools if not name.startswith("get_base")} - {"get_b"}
        for _ in range(PAIRS // KEYS // 2):
            method, path = (
                draw.choice(METHODS),
                re.sub(r"\{\w+\}", lambda _: draw.choice(VALUES), draw.choice(templates)[2]),
            )
            if path.isascii() and not {" ", "#", "\\"} & set(path):
                direct = await call_by_proxy(gateway, key, method, path)
                assert await call_by_agent(gateway, key, "call_api", {"method": method, "path": path}) == direct, (
                    rules,
                    path,
                )
                if direct is not None and not direct[1].startswith(f"{BASE}/b/"):
                    of_key = [template for template in templates if template[0] in chosen]
                    assert any(item[1] == direct[0] and fits(item[2], direct[1]) for item in of_key), (rules, direct)
                    assert direct[:2] != ("PUT", f"{BASE}/items/owner") or "set_owner" in chosen
                sent, refused = sent + bool(direct), refused + (not direct)
            if tools:
                of_tools += await check_operation(gateway, key, tools[draw.choice(sorted(tools))], templates, draw)
    assert min(sent, refused, of_tools) > PAIRS // 40, (sent, refused, of_tools)


def fits(template: str, path: str) -> bool:
    parts = re.split(r"(\{\w+\})", template)
    pattern = "".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts)
    return re.fullmatch(re.escape(BASE) + pattern, path.partition("?")[0]) is not None


async def check_operation(
    gateway: AgentGateway, key: str, tool: dict[str, Any], templates: list[list[str]], draw: random.Random
) -> bool:
    """Check that a tool sends its operation, and that `/proxy` allows it too."""
    others = ("query", "body", "select", "max_bytes", "body_as")
    places = [name for name in tool["inputSchema"]["properties"] if name not in others]
    arguments = {name: draw.choice(VALUES) for name in places}
    got = await call_by_agent(gateway, key, tool["name"], arguments)
    if got is None:
        return False
    method, path, body = got
    assert await call_by_proxy(gateway, key, method, path.removeprefix(BASE), body) == got
    line = next((template for template in templates if template[0] == tool["name"]), None)
    if line is not None:
        assert method == line[1]
        assert fits(line[2], path)
        assert tool["annotations"]["readOnlyHint"] is (line[3] == "read")
    return True
