"""Each kind of input at its size limit, sent to a running gateway, hardly delays other callers."""

import asyncio
import hmac
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from tests.fakes.gateways import SECRET_KEY, write_entry
from tests.fakes.probe import probing, queued_s
from tests.fakes.processes import CONNECTION, Files, serving
from tests.fakes.scaling import reference_s

MIB = 1 << 20
ROUNDS = 6  # the first request of a kind imports modules
WIDE = b"{" + b'"a":{},' * (2 * MIB - 9) + b'"b":1}'
MISSPELT = "all" + "".join(f"; cursr_{number}=1" for number in range(1000))
WEBHOOK_SECRET = "c" * 32
PROBE_LIMITS: Any = {"max_line_size": MIB, "max_field_size": MIB, "auto_decompress": False}
KEY = {"Authorization": f"Bearer {SECRET_KEY}"}
PAGED = "all; type=link; link_rel_in_response_header=next"
TOKENS = '"access_token":"a","refresh_token":"r"'

LINKS = {
    "open": "<" * 60_000,
    "quotes": '"\\' * 30_000,
    "targets": "<a>," * 15_000,
    "empty": "<>" * 30_000,
    "queries": "</v1?a&b>," * 6_000,
    "parameters": '<a>; rel="next' + '\\"' * 29_000,
}
TOKEN_RESPONSES = {
    "arrays": f'{{{TOKENS},"x":[{"[]," * 40_000}1]}}',
    "deep": f'{{{TOKENS},"x":{"[" * 60_000}{"]" * 60_000}}}',
    "members": f"{{{TOKENS}{''.join(f',{json.dumps(str(n))}:1' for n in range(10_000))}}}",
}
LISTING = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
LISTS = {  # tool lists of an MCP server: kind of response, and its body
    "arrays": ("application/json", b'{"result":{"tools":[' + b"[]," * (8 * MIB // 3 - 99) + b"1]}}"),
    "tools": ("application/json", b'{"result":{"tools":[' + b'{"name":"a"},' * 60_000 + b"{}]}}"),
    "long texts": ("application/json", b'{"result":{"tools":["' + b"x" * (8 * MIB - 99) + b'"]}}'),
    "an event": ("text/event-stream", b"data: [" + b"{}," * (4 * MIB // 3 - 99) + b"1]\n\n"),
    "event lines": ("text/event-stream", b"a\n" * (2 * MIB - 99) + b"\n"),
    "events": ("text/event-stream", b"data:1\n\n" * (4 * MIB // 8)),
    "empty events": ("text/event-stream", b":\n\n" * (4 * MIB // 3)),
}
AGENT_RULES = ["POST /mcp with tools a", "POST /graphql with query a", "* /x"]
SETTINGS = {f"setting_{number}": "x" for number in range(40_000)}


class Provider:
    """A provider that responds as `link`, `kind`, `page` and `tokens` say."""

    link = ""
    kind = "application/json"
    page = b"[]"
    tokens = ""

    async def response(self, request: web.BaseRequest) -> web.StreamResponse:
        while await request.content.readany():
            pass
        if request.path.endswith("/token"):
            return web.Response(text=self.tokens, content_type="application/json")
        headers = {"Link": self.link} if self.link else {}
        return web.Response(body=self.page, headers=headers, content_type=self.kind)


def shapes(agent: str) -> dict[str, Any]:
    """Return name ▸ method, path, and arguments of `request`, or attributes to set at the provider first.

    `agent`: a key with rules.
    """
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    as_json = {"Content-Type": "application/json"}
    proxied = {**CONNECTION}
    with_body = {**CONNECTION, "Provider-Config-Key": "body"}

    def import_request(**extra: Any) -> Any:
        body = {"provider_config_key": "up", "credentials": {"type": "API_KEY", "apiKey": "k" * 20}, **extra}
        return ("POST", "/connections", {"json": body})

    def session(**extra: Any) -> Any:
        return ("POST", "/connect/sessions", {"json": {"end_user": {"id": "u1"}, **extra}})

    def bare_body(piece: str, size: int = MIB - 100) -> Any:
        return ("POST", "/connect/sessions", {"data": f"[{piece * (size // len(piece))}1]", "headers": as_json})

    def webhook(content: bytes) -> Any:
        signature = hmac.new(WEBHOOK_SECRET.encode(), content, "sha256").hexdigest()
        return ("POST", "/webhook/dev/jira", {"data": content, "headers": {"X-Hub-Signature": f"sha256={signature}"}})

    by_agent = {**as_json, "Authorization": f"Bearer {agent}"}

    def tool_call(name: str, arguments: bytes) -> Any:
        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b}}'
        return ("POST", "/mcp", {"data": call % (name.encode(), arguments), "headers": by_agent})

    found: dict[str, Any] = {
        "agent's arrays": tool_call("call_api", b'{"a":[' + b"[]," * (MIB // 3 - 99) + b"1]}"),
        "agent's objects": tool_call("call_api", b'{"a":[' + b"{}," * (MIB // 3 - 99) + b"1]}"),
        "agent's message that ends early": tool_call("call_api", b"[" + b"{}," * (MIB // 3 - 99)),
        "agent's query": tool_call("call_api", b'{"method":"GET","path":"/x","query":{"a":[' + b"1," * (MIB // 2 - 99) + b"1]}}"),
        "agent's form": tool_call(
            "call_api", b'{"method":"POST","path":"/x","body_as":"form","body":{"a":[' + b"1," * (MIB // 2 - 99) + b"1]}}"
        ),
        "agent's search": tool_call("find_tools", json.dumps({"query": " ".join(map(str, range(9_000)))}).encode()),
        "agent's GraphQL": (
            "POST", "/proxy/graphql",
            {"data": json.dumps({"query": "{" + "a " * 9_990 + "}"}), "headers": {**proxied, **by_agent}},
        ),
        "agent's body": (
            "POST", "/proxy/graphql",
            {"data": b'{"query":[' + b"{}," * (MIB // 3 - 99) + b"1]}", "headers": {**proxied, **by_agent}},
        ),
        "e-mail": session(end_user={"id": "u1", "email": "a@" + "." * (MIB - 200) + " "}),
        "e-mail short": session(end_user={"id": "u1", "email": "a@" + "." * 16_000 + " "}),
        "settings": import_request(connection_config=SETTINGS),
        "credentials": import_request(credentials={"type": "API_KEY", **SETTINGS}),
        "unknown members": import_request(**SETTINGS),
        "tags": import_request(tags=SETTINGS),
        "metadata": import_request(metadata=SETTINGS),
        "json arrays": bare_body("[],"),
        "json objects": bare_body("{},"),
        "json deep": bare_body("["),
        "json numbers": bare_body("1,"),
        "query": ("GET", "/connections?" + "a&" * 7_000, {}),
        "proxied query": ("GET", "/proxy/x?" + "a&" * 7_000, {"headers": proxied}),
        "paginate header": ("GET", "/proxy/x", {"headers": {**proxied, "Gateway-Paginate": MISSPELT}}),
        "cookies": ("GET", "/oauth/callback?state=x", {"headers": {"Cookie": "a=b; " * 3_000}}),
        "headers": ("GET", "/proxy/x", {"headers": {**proxied, **{f"X-{number}": "y" for number in range(900)}}}),
        "form": ("POST", "/oauth/site", {"data": b"a&" * 30_000, "headers": form}),
        "embedded form": ("POST", "/connect/s/embedded/i/jira", {"data": b"a&" * 131_000, "headers": form}),
        "webhook arrays": ("POST", "/webhook/dev/jira", {"data": b"[" + b"[]," * (5 * MIB // 3 - 9) + b"1]"}),
        "webhook members": ("POST", "/webhook/dev/jira", {"data": b'{"a":1' + b',"b":{}' * (5 * MIB // 7 - 9) + b"}"}),
        "signed webhook arrays": webhook(b"[" + b"[]," * (5 * MIB // 3 - 9) + b"1]"),
        "signed webhook members": webhook(b'{"a":1' + b',"b":{}' * (5 * MIB // 7 - 9) + b"}"),
        "webhook signatures": (
            "POST", "/webhook/dev/jira",
            {"data": b"x" * (5 * MIB - 9), "headers": {"X-Hub-Signature": "sha256=aa," * 700}},
        ),
        "body of json": ("POST", "/proxy/x", {"data": WIDE, "headers": {**with_body, **as_json}}),
        "body of a form": ("POST", "/proxy/x", {"data": b"a&" * (2 * MIB), "headers": {**with_body, **form}}),
    }  # fmt: skip
    for name, (kind, page) in LISTS.items():
        listing = {"data": LISTING, "headers": {**proxied, **by_agent}}
        found[f"list of {name}"] = ("POST", "/proxy/mcp", listing, {"kind": kind, "page": page})
    for name, link in LINKS.items():
        found[f"link {name}"] = ("GET", "/proxy/x", {"headers": proxied}, {"link": link})
        found[f"paged link {name}"] = (
            "GET",
            "/proxy/x",
            {"headers": {**proxied, "Gateway-Paginate": PAGED}},
            {"link": link},
        )
    for name, piece in {"arrays": b"[],", "objects": b'{"a":{}},', "texts": b'"",'}.items():
        page = b"[" + piece * (90_000 if name != "texts" else 99_000) + b"1]"
        found[f"page of {name}"] = (
            "GET",
            "/proxy/x",
            {"headers": {**proxied, "Gateway-Paginate": PAGED}},
            {"page": page},
        )
    for name, text in TOKEN_RESPONSES.items():
        cc = {"provider_config_key": "cc", "credentials": {"type": "OAUTH2_CC", "client_id": "a", "client_secret": "b"}}
        found[f"token response of {name}"] = ("POST", "/connections", {"json": cc}, {"tokens": text})
    return found


@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_other_callers_hardly_wait_during_inputs_of_maximum_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # coverage makes a line ten times as slow
    provider = Provider()
    server = RawTestServer(provider.response)
    await server.start_server(max_field_size=MIB, max_line_size=MIB)
    assert server.port is not None
    files = Files(tmp_path, server.port)
    base = {"display_name": "X", "categories": ["other"], "docs": "https://docs.example.com"}
    up = f"http://127.0.0.1:{server.port}"
    body = {"auth_mode": "API_KEY", "proxy": {"base_url": up, "body": {"auth": {"key": "${apiKey}"}}}}
    cc = {"auth_mode": "OAUTH2_CC", "token_url": f"{up}/token", "proxy": {"base_url": up}}
    write_entry(tmp_path, "body", {**base, **body})
    write_entry(tmp_path, "cc", {**base, **cc})
    integrations = files.document["environments"]["dev"]["integrations"]
    integrations |= {
        "body": {"provider": "body"}, "cc": {"provider": "cc"},
        "jira": {"provider": "jira", "client_id": "a", "client_secret": "b", "webhook_secret": WEBHOOK_SECRET},
    }  # fmt: skip
    files.write()
    waits: dict[str, tuple[float, float, int]] = {}
    unit_s = reference_s(MIB)
    async with serving(files) as gateway, aiohttp.ClientSession(headers=KEY, **PROBE_LIMITS) as http:
        await gateway.connect()
        url = f"http://127.0.0.1:{gateway.port}"
        made = {
            "provider_config_key": "body",
            "connection_id": "c1",
            "credentials": {"type": "API_KEY", "apiKey": "k" * 20},
        }
        async with http.post(f"{url}/connections", json=made) as response:
            assert response.status == 201, await response.text()
        request_body = {"display_name": "agent", "limits": {"connections": ["up/c1"], "rules": AGENT_RULES}}
        async with http.post(f"{url}/environment/api-keys", json=request_body) as response:
            assert response.status == 200, await response.text()
            agent = (await response.json())["data"]["secret"]
        async with probing(gateway.port) as probe:
            processes = (*gateway.workers(), probe.pid)
            for name, (method, path, options, *first) in shapes(agent).items():
                provider.link, provider.kind, provider.page, provider.tokens = "", "application/json", b"[]", ""
                for attribute, value in (first[0] if first else {}).items():
                    setattr(provider, attribute, value)
                # The client builds its data before the measurement; a first request of its kind imports modules.
                content, headers = options.get("data"), options.get("headers")
                if "json" in options:
                    content, headers = json.dumps(options["json"]), {"Content-Type": "application/json"}
                content = content.encode() if isinstance(content, str) else content
                for _ in range(ROUNDS):
                    await probe.longest_s()
                    await asyncio.sleep(0.2)
                    idle_s = await probe.longest_s()
                    data = None if content is None else io.BytesIO(content)
                    queued_before_s = sum(map(queued_s, processes))
                    async with http.request(method, url + path, data=data, headers=headers) as response:
                        # the gateway closes the connection if it cannot read the request
                        with suppress(aiohttp.ClientPayloadError):
                            await response.read()
                    longest_s = await probe.longest_s()
                    # Time in which other processes use all CPUs does not count.
                    longest_s -= max(0.0, sum(map(queued_s, processes)) - queued_before_s)
                    if longest_s <= 3 * idle_s + 1.5 * unit_s:
                        break  # a slow gateway is slow in each round; load of the machine is not
                waits[name] = (longest_s, idle_s, response.status)
    await server.close()
    result = [
        f"{name}: {longest * 1000:.0f} ms, idle {idle * 1000:.0f} ms, status {status}"
        for name, (longest, idle, status) in waits.items()
    ]
    print("\n".join([f"unit {unit_s * 1000:.1f} ms", *result]))
    statuses = {name: status for name, (_, _, status) in waits.items()}
    assert 500 not in statuses.values()
    assert [statuses[f"token response of {name}"] for name in TOKEN_RESPONSES] == [201] * len(TOKEN_RESPONSES)
    assert statuses["agent's query"] == statuses["agent's form"] == statuses["agent's GraphQL"] == 200
    assert statuses["list of tools"] == statuses["list of events"] == 200
    assert statuses["signed webhook arrays"] == statuses["signed webhook members"] == 200
    assert statuses["body of json"] == statuses["body of a form"] == statuses["link open"] == 200
    late = [
        line
        for line, (longest, idle, _) in zip(result, waits.values(), strict=True)
        if longest > 3 * idle + 1.5 * unit_s
    ]
    assert not late, "\n".join(late)
