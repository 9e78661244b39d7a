"""Which tools of a list a key can call, and how long this decision takes at most."""

import json

import pytest

from gateway.access.body_rules import INLINE_COMPARISON_COST, MAX_COMPARISON_COST, read_body
from gateway.access.key_policy import Policy, SentRequest
from gateway.access.tool_filter import ToolFilter
from gateway.http.headers import MalformedResponse
from gateway.http.tool_list_filter import StreamEventFilter, filtered_json
from gateway.records.access import KeyLimits
from tests.fakes.scaling import cpu_s, reference_s

JSON = [("Content-Type", "application/json")]
MANY = tuple(f"POST /m with tools {','.join([f'*ab*{n}'] * 55)}" for n in range(200))


def request(tool: str | None = None) -> SentRequest:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    if tool is not None:
        message |= {"method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return SentRequest("POST", "h", "/m", "", (), read_body(JSON, "", json.dumps(message).encode()))


def policy(*keys: tuple[str, ...]) -> Policy:
    return Policy(("environment:proxy",), [KeyLimits(rules=rules) for rules in keys])


def listing(number: int) -> bytes:
    return json.dumps({"result": {"tools": [{"name": f"aaaaa{n}"} for n in range(number)]}}).encode()


@pytest.mark.parametrize(
    "keys",
    [
        [("POST /m with tools get_*,x", "POST /m with tools *_a*", "POST /m with query *", "POST /n with tools *")],
        [("POST /m with tools get_*,x",), ("POST /m with tools *a*,x", "GET /m")],
        [("POST /m with tools get_*",), ("* /m",)],
        [("POST /m with tools *",), ("POST /m with tools get_a",)],
    ],
)
def test_a_tool_is_shown_if_the_key_may_call_it(keys: list[tuple[str, ...]]) -> None:
    key = policy(*keys)
    tools = ToolFilter(key, request())
    names = ("get_a", "get_b", "x", "y", "x_a", "get_", "Get_a", "get a", "", "gét_a", "x" * 129, "get_\n")
    for name in names:
        assert tools.shows(name) is isinstance(key.decision(request(name)), str), name


def test_many_tools_are_not_compared_with_many_patterns_without_limit() -> None:
    """Without a limit, a list of 300 tools blocked all other requests for 1.9 s."""
    body = listing(2000)
    with pytest.raises(MalformedResponse, match="too many tools to compare with the key's rules"):
        filtered_json(body, ToolFilter(policy(MANY), request()).shows)

    def assert_refused() -> None:
        with pytest.raises(MalformedResponse):
            filtered_json(body, ToolFilter(key, request()).shows)

    key = policy(MANY, MANY, MANY, MANY, MANY)
    assert cpu_s(assert_refused) <= 3 * reference_s(1_000_000)
    few = policy(("POST /m with tools aaaaa1,search_*,get_*,list_*",))
    parsed = json.loads(filtered_json(body, ToolFilter(few, request()).shows))
    assert parsed == {"result": {"tools": [{"name": "aaaaa1"}]}}


def test_long_comparisons_are_made_away_from_the_event_loop() -> None:
    tools = ToolFilter(policy(MANY[:10]), request())
    assert 0 < tools.inline_bytes < 1000
    assert StreamEventFilter(tools.shows, tools.inline_bytes).needs_thread(b"x" * (tools.inline_bytes + 1))
    assert not StreamEventFilter(tools.shows, tools.inline_bytes).needs_thread(b"x" * tools.inline_bytes)
    usual = ToolFilter(policy(("POST /m with tools search_*,get_issue",)), request())
    assert usual.inline_bytes > 64 * 1024
    assert StreamEventFilter(usual.shows, usual.inline_bytes).needs_thread(b"x" * 4097)
    assert INLINE_COMPARISON_COST < MAX_COMPARISON_COST
