"""`tools/list`, calls of its tools and `/proxy` agree, on random pairs of key and request.

`DOOR_PAIRS`: the number of pairs; 100,000 take some minutes.
"""

import json
import os
import random
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web
from yarl import URL

from gateway.access.key_rule import parse_rule
from tests.fakes.agent_gateway import BASE, AgentGateway

PAIRS: Final = int(os.environ.get("DOOR_PAIRS", "2000"))
KEYS: Final = 40
SEED: Final = 22
WORDS: Final = ("a", "b", "items", "issue", "v1", "x.json")
VALUES: Final = (
    *WORDS,
    "A-1",
    "ä",
    "a b",
    "..",
    ".",
    "%2e",
    "a%2Fb",
    "a;b",
    "a//b",
    "x?y",
    "a:b",
    "@me",
    "{a}",
    "#",
    "",
)
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD")
WITH: Final = ("tools a,it*", "tools *", "query a,items", "query *", "mutation v*")
BODIES: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": item}}
        for item in ("a", "items", "b", "A", "")
    ),
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"name": "a"}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "Name": "b"}},
    *(
        {"query": item}
        for item in ("{ a }", "{ items { b } }", "{ a b }", "mutation { v1 }", "mutation { b }", "{ a: b }", "{")
    ),
    {"query": "{ a }", "operationName": "B"},
    {"query": "{ a }", "variables": {"x": [1]}},
    {"a": 1},
)


def random_rule(draw: random.Random, number: int) -> str:
    methods = draw.choice(["GET", "GET", "POST", "GET,POST", "*", "PUT,DELETE", "GET,HEAD"])
    segments = [draw.choice([*WORDS, "*", "it*", "*.json"]) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.2:
        segments[-1] = "**"
    base = draw.choice([BASE, BASE, BASE, "/*/v1", "/base/*", "/other", ""])
    rule = f"{methods} {base}/{'/'.join(segments)}"
    if draw.random() < 0.4 and "*" not in segments[0]:
        rule = f"{methods} {base}/{segments[0]}/{{place}} as named_{number}"
    return rule


def random_body_rule(draw: random.Random) -> str:
    return f"POST {BASE}/{draw.choice(WORDS)} with {draw.choice(WITH)}"


def random_path(draw: random.Random, rules: list[str]) -> str:
    """Return a path below the base URL: similar to one of the rules, or any other."""
    if rules and draw.random() < 0.7:
        path = draw.choice(rules).split(" ")[1].replace("{place}", "*").replace("**", "*")
        path = path.removeprefix(BASE) if path.startswith(BASE) else path
        while "*" in path:
            path = path.replace("*", draw.choice(VALUES), 1)
        return path if path.startswith("/") else f"/{path}"
    return "/" + "/".join(draw.choice(VALUES) for _ in range(draw.randint(1, 3)))


Left = tuple[str, str, bytes]


async def call_by_proxy(
    gateway: AgentGateway, key: str, method: str, path: str, body: bytes | None = None
) -> Left | None:
    """Return method, path and body as the provider received them, or None if it received nothing."""
    before = len(gateway.provider.calls)
    headers = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "acme", "Connection-Id": "c1"}
    if body:
        headers["Content-Type"] = "application/json"
    url = URL(f"{gateway.running.url}/proxy{path}", encoded=True)
    async with gateway.running.http.request(method, url, data=body or None, headers=headers) as response:
        await response.read()
    return last_provider_call(gateway, before)


async def call_by_agent(gateway: AgentGateway, key: str, name: str, arguments: dict[str, Any]) -> Left | None:
    before = len(gateway.provider.calls)
    await gateway.call(key, name, arguments)
    return last_provider_call(gateway, before)


def last_provider_call(gateway: AgentGateway, before: int) -> Left | None:
    calls = gateway.provider.calls[before:]
    assert len(calls) <= 1
    return (*calls[0][:2], calls[0][3]) if calls else None


async def test_tool_list_tool_calls_and_proxy_agree_on_random_rules(gateway: AgentGateway) -> None:
    async def short_response(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    gateway.provider.responding = short_response
    draw = random.Random(SEED)
    sent = refused = of_tools = by_body = 0
    for _ in range(KEYS):
        rules = [random_rule(draw, n) for n in range(draw.randint(1, 5))]
        rules += [random_body_rule(draw) for _ in range(draw.randint(0, 2))]
        key = await gateway.key(*rules)
        tools = await gateway.tools(key)
        for _ in range(PAIRS // KEYS // 2):
            method, path = draw.choice(METHODS), random_path(draw, rules)
            if draw.random() < 0.3 and " with " in rules[-1]:
                method, path = "POST", rules[-1].split(" ")[1].removeprefix(BASE)
            wire = quote(path, safe="/?%;:@&=+$,{}") if draw.random() < 0.5 else path
            if wire.isascii() and wire.isprintable() and not {" ", "#", "\\"} & set(wire):
                body = draw.choice([None, *BODIES]) if method == "POST" else None
                raw = None if body is None else json.dumps(body, separators=(",", ":")).encode()
                direct = await call_by_proxy(gateway, key, method, wire, raw)
                arguments = {"method": method, "path": wire, **({} if body is None else {"body": body})}
                assert await call_by_agent(gateway, key, "call_api", arguments) == direct, (rules, wire, body)
                by_body += direct is not None and not any(fits_without_body(rule, direct) for rule in rules)
                sent, refused = sent + bool(direct), refused + (not direct)
            if tools:
                tool = tools[draw.choice(sorted(tools))]
                of_tools += await check_tool(gateway, key, rules, tool, draw)
    assert min(sent, refused, of_tools) > PAIRS // 20, (sent, refused, of_tools)
    assert by_body > PAIRS // 2000, by_body


def fits_without_body(rule: str, call: Left) -> bool:
    """Return whether a rule matches that does not check the body."""
    parsed = parse_rule(rule)
    return parsed.body is None and parsed.matches(*call[:2])


async def check_tool(
    gateway: AgentGateway, key: str, rules: list[str], tool: dict[str, Any], draw: random.Random
) -> bool:
    """Check that a listed tool sends a request that a rule of the key allows, and that `/proxy` allows it too."""
    properties = tool["inputSchema"]["properties"]
    arguments: dict[str, Any] = {
        name: draw.choice(VALUES) for name, schema in properties.items() if schema == {"type": "string"}
    }
    of_graphql = properties.get("body", {}).get("required") == ["query"]
    if of_graphql:
        arguments["body"] = draw.choice(BODIES)
    if "method" in properties:
        arguments["method"] = draw.choice(properties["method"]["enum"])
    got = await call_by_agent(gateway, key, tool["name"], arguments)
    plain = all(
        value in (*WORDS, "A-1", "ä", "a b", "a:b", "@me") for value in arguments.values() if isinstance(value, str)
    )
    if got is None:
        method = arguments.get("method", "GET")
        assert not plain or method not in METHODS or of_graphql, (rules, tool["name"], arguments)
        return False
    method, path, body = got
    assert any(parse_rule(rule).matches(method, path) for rule in rules), (rules, got)
    assert await call_by_proxy(gateway, key, method, path.removeprefix(BASE), body) == got
    if tool["annotations"]["readOnlyHint"]:
        assert method in ("GET", "HEAD", "OPTIONS")
    return True
