"""Access rules that check the body: their syntax, and which bodies each rule allows."""

import json
from fnmatch import fnmatchcase
from itertools import product
from time import process_time
from typing import Any

import pytest

from gateway.access.body_rules import MAX_COMPARISON_COST, SentBody, comparison_cost, parse_body_rule, read_body
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.key_rule import parse_rule
from gateway.access.tool_filter import ToolFilter
from gateway.http.graphql_document import GraphqlOperation
from gateway.records.access import KeyLimits
from tests.fakes.scaling import cpu_s, reference_s

JSON = [("Content-Type", "application/json")]
TOOLS = "POST /mcp with tools search_*,get_issue"
QUERY = "POST /graphql with query issues,viewer"
MUTATION = "POST /graphql with mutation comment*"


def policy(*rules: str, above: tuple[str, ...] = ()) -> Policy:
    limits = [KeyLimits(rules=rules), *([KeyLimits(rules=above)] if above else [])]
    return Policy(("environment:proxy",), limits)


def decision(key: Policy, path: str, body: Any, method: str = "POST", query: str = "") -> Breach | str:
    read = read_body(JSON, query, body if isinstance(body, bytes) else json.dumps(body).encode())
    return key.decision(SentRequest(method, "api.example.com", path, query, ("content-type",), read))


def tool_call(tool: Any, **extra: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}, **extra}}


@pytest.mark.parametrize(
    "text",
    [
        "GET /mcp with tools x",
        "POST,GET /mcp with tools x",
        "* /mcp with tools x",
        "POST /mcp with tools",
        "POST /mcp with tools ",
        "POST /mcp with tools a,,b",
        "POST /mcp with tools a b",
        "POST /mcp with tools a**",
        "POST /mcp with tools *a*b*",
        "POST /mcp with tools ä",
        "POST /mcp with tools a as b",
        "POST /mcp with resources x",
        "POST /mcp with",
        "POST /mcp with tools x with tools y",
        "POST /graphql with query a-b",
        "POST /graphql with query a as call_api",
        "POST /graphql with subscription a",
    ],
)
def test_rule_that_cannot_be_enforced_is_refused_at_creation(text: str) -> None:
    with pytest.raises(ValueError, match=" "):
        parse_rule(text)


def test_tool_rule_allows_only_calls_of_its_tools() -> None:
    key = policy(TOOLS)
    assert decision(key, "/mcp", tool_call("search_issues")) == TOOLS
    assert decision(key, "/mcp", tool_call("get_issue")) == TOOLS
    for tool in ("get_issues", "Search_issues", "delete_issue", "xsearch_"):
        refused = decision(key, "/mcp", tool_call(tool))
        assert isinstance(refused, Breach)
        assert (refused.broken_limit, refused.reason) == ("body", f"it calls the tool '{tool}'")


def test_besides_named_tools_only_mcp_setup_and_list_messages_are_allowed() -> None:
    key = policy(TOOLS)
    for method in ("initialize", "notifications/initialized", "tools/list", "ping", "server/discover"):
        assert decision(key, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method}) == TOOLS
    for method in ("resources/read", "prompts/get", "completion/complete", "tasks/result", "Tools/call", "tools/call "):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "search_issues"}}
        assert isinstance(decision(key, "/mcp", body), Breach)


def test_responses_to_the_servers_own_requests_are_allowed() -> None:
    """In MCP's Streamable HTTP transport, clients send their responses by POST, for example the response to ``ping``."""
    for content in ({"result": {}}, {"result": {"action": "decline"}}, {"error": {"code": -1, "message": "x"}}):
        assert decision(policy(TOOLS), "/mcp", {"jsonrpc": "2.0", "id": 1, **content}) == TOOLS
    named_empty = decision(policy(TOOLS), "/mcp", {"jsonrpc": "2.0", "id": 1, "method": ""})
    assert isinstance(named_empty, Breach)


def test_graphql_request_is_checked_by_all_its_root_fields() -> None:
    key = policy(QUERY, MUTATION)
    assert decision(key, "/graphql", {"query": "{ viewer { id } issues { id } __typename }"}) == QUERY
    assert decision(key, "/graphql", {"query": 'mutation { commentCreate(body: "x") { id } }'}) == MUTATION
    for document in (
        "{ issues { id } users { id } }",
        "mutation { issues }",
        "mutation { commentCreate { id } issueDelete { id } }",
        "{ issues: users { id } }",
        "{ __schema { types { name } } }",
        "query commentCreate { users { id } }",
        "subscription { issues { id } }",
    ):
        refused = decision(key, "/graphql", {"query": document})
        assert isinstance(refused, Breach), document
        assert refused.broken_limit == "body"


@pytest.mark.parametrize("pattern", ["a*b*c", "*b*", "*b", "a*", "a*b", "*", "abc", "*bc*b", "*b*c", "a*a*a"])
def test_star_matches_any_characters(pattern: str) -> None:
    """A name pattern matches as a shell pattern does. The test tries every name of up to six letters."""
    names = ["".join(letters) for length in range(1, 7) for letters in product("abc", repeat=length)]
    rule = parse_body_rule(f"query {pattern}")
    assert [name for name in names if rule.includes(name)] == [name for name in names if fnmatchcase(name, pattern)]


def test_matching_a_name_takes_linear_time() -> None:
    """A long name that almost matches a pattern with two stars must not block the gateway. A quadratic matcher took
    seconds.
    """
    rule = parse_body_rule("query issue*By*Id")

    def time_of(repeats: int) -> float:
        name, begins = "issue" + "By" * repeats, process_time()
        for _ in range(20):
            assert not rule.includes(name)
        return process_time() - begins

    short, long = (min(time_of(repeats) for _ in range(3)) for repeats in (1000, 16_000))
    assert long < 100 * short, (short, long)  # linear: 16 times as long; quadratic: 256 times as long


def test_body_must_be_allowed_by_the_key_and_all_its_ancestors() -> None:
    key = policy("POST /mcp with tools *", above=("POST /mcp with tools search_*", "GET /x"))
    assert isinstance(decision(key, "/mcp", tool_call("get_issue")), Breach)
    assert decision(key, "/mcp", tool_call("search_issues")) == "POST /mcp with tools search_*"
    wide = policy("POST /mcp", above=("POST /mcp with tools search_*",))
    assert isinstance(decision(wide, "/mcp", tool_call("get_issue")), Breach)


def test_body_that_was_not_read_is_not_allowed() -> None:
    for key in (policy(TOOLS), policy("POST /mcp", above=(TOOLS,))):
        refused = key.decision(SentRequest("POST", "api.example.com", "/mcp", "", ()))
        assert isinstance(refused, Breach)
        assert refused.broken_limit == "unread_body"


def test_rule_without_body_part_allows_any_body() -> None:
    key = policy(TOOLS, "POST /mcp")
    assert key.decision(SentRequest("POST", "api.example.com", "/mcp", "", ())) == "POST /mcp"


def test_body_rule_allows_only_its_path_and_post() -> None:
    for method, path in (("POST", "/mcp/x"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/"), ("POST", "/MCP")):
        refused = decision(policy(TOOLS), path, tool_call("search_issues"), method)
        assert isinstance(refused, Breach)
        assert refused.broken_limit == "rules"


def test_tool_filter_shows_only_tools_that_can_be_called() -> None:
    key = policy("POST /mcp with tools *", above=("POST /mcp with tools get_*",))
    read = read_body(JSON, "", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    shows = ToolFilter(key, SentRequest("POST", "h", "/mcp", "", (), read)).shows
    assert [name for name in ("get_issue", "delete_issue", "get issue") if shows(name)] == ["get_issue"]


NAMES = ["".join(letters) for letters in product("abcdefghijklmnopqrstuvw", repeat=3)][:12_000]


@pytest.mark.parametrize("fields", [["a" * 60_000], NAMES], ids=["one long name", "many names"])
def test_comparison_of_many_rules_with_thousands_of_names_is_refused(fields: list[str]) -> None:
    """Without this limit, two hundred rules of one key took seconds for a document of 64 KiB, and all other requests
    waited.
    """
    body = {"query": f"{{ {' '.join(fields)} zzz }}"}
    patterns = ",".join(f"*a*z{item}" for item in "0123456789abcdefghijklmnopqrstuvwxyz" * 2)
    rules = tuple(f"POST /graphql with query {patterns},*a,*v,z{n}" for n in range(200))
    refused = decision(policy(*rules), "/graphql", body)
    assert isinstance(refused, Breach)
    assert refused.reason == "it requests too many fields to compare with the key's rules"
    assert decision(policy("POST /graphql with query *"), "/graphql", body) == "POST /graphql with query *"
    alone = decision(policy(rules[0]), "/graphql", body)
    assert isinstance(alone, Breach)
    assert alone.reason.startswith("it requests ")
    assert "more fields" not in alone.reason


def test_names_are_compared_with_the_rules_of_the_whole_chain_of_keys_together() -> None:
    """Five keys in a chain took five times as long as one key, although each key was within the limit."""
    rules = tuple(f"POST /g with query {','.join(f'*0{n}*{item}' for item in range(50))},ok*" for n in range(10))
    body = {"query": f"{{ {' '.join(f'ok{number}' for number in range(100))} other }}"}
    allowing = ("POST /g with query *",)
    read = read_body(JSON, "", json.dumps(body).encode())

    def chain(keys: int) -> Breach | str:
        key = Policy(("environment:proxy",), [KeyLimits(rules=(*rules, *allowing))] * keys)
        return key.decision(SentRequest("POST", "api.example.com", "/g", "", (), read))

    body_rules = [parse_body_rule(text.partition(" with ")[2]) for text in rules]
    keys = MAX_COMPARISON_COST // comparison_cost(body_rules, read)
    assert keys > 1
    assert chain(keys - 1) == allowing[0]
    refused = chain(keys + 1)
    assert isinstance(refused, Breach)
    assert (refused.broken_limit, refused.reason) == (
        "body",
        "it requests too many fields to compare with the key's rules",
    )


@pytest.mark.parametrize("pattern", ["*0*", "*0*1", "*ab*", "*aab*b", "*a*b", "*z"])
@pytest.mark.parametrize("name", ["ok" + "a" * 28, "ok" + "a" * 398, "ok" + "aab0" * 99])
def test_allowed_comparisons_take_no_longer_than_reading_the_text_as_often(pattern: str, name: str) -> None:
    """Patterns with two stars took 0.4 s, although the number of comparisons was within the limit."""
    rule = parse_body_rule(f"query {','.join([pattern] * 60)}")
    body = SentBody("", GraphqlOperation("query", "", (name,)))
    number = MAX_COMPARISON_COST // comparison_cost([rule], body)
    assert cpu_s(lambda: [rule.includes(name) for _ in range(number)]) <= 3 * reference_s(1_000_000)
