"""The arguments of a tool become one request, or an error message that names the wrong argument."""

import json
from typing import Any

import pytest

from gateway.access.key_rule import parse_rule
from gateway.mcp.rule_tools import PathArgument, RuleTool
from gateway.mcp.tool_calls import MAX_BYTES, InvalidArguments, call_of_api, call_of_rule, chosen_connection


def tool(*methods: str, may_have_slash: bool = False, optional: bool = False) -> RuleTool:
    argument = PathArgument("key", may_have_slash, optional)
    rule = parse_rule("GET /rest/*")
    return RuleTool("get_issue", rule, methods or ("GET",), ("/issue/", argument), ("jira",))


def refusal_of(arguments: dict[str, Any], of: RuleTool | None = None) -> str:
    with pytest.raises(InvalidArguments) as refused:
        call_of_rule(of, arguments) if of is not None else call_of_api(arguments)
    return str(refused.value)


def test_path_and_query_are_filled_in_and_encoded() -> None:
    query = {"a b": ["x", 1, True, None, "ü&"], "expand[]": "names"}
    call = call_of_rule(tool(), {"key": "A B;1", "query": query})
    assert call.target == "/issue/A%20B%3B1?a%20b=x&a%20b=1&a%20b=true&a%20b=%C3%BC%26&expand[]=names"
    assert (call.method, call.body, call.content_type, call.integrations) == ("GET", None, None, ("jira",))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "Argument 'key' is missing."),
        ({"key": ""}, "'key' must not be empty."),
        ({"key": "a/b"}, "'key' is one segment of the path, so it cannot hold '/'."),
        ({"key": True}, "'key' must be text or a whole number."),
        ({"key": "a", "other": 1}, "Unknown argument 'other'."),
        ({"key": "a", "body": {}}, "Unknown argument 'body'."),  # a GET has no body
        ({"key": "a", "query": []}, "'query' must be an object"),
        ({"key": "a", "query": {"q": {"x": 1}}}, "or a list of these. Send a nested member as 'q[x]'."),
        ({"key": "a", "query": {"q": [{}]}}, "'q' must be text, a number, true or false, or a list of these."),
        ({"key": "a", "max_bytes": MAX_BYTES + 1}, "'max_bytes' must be a whole number"),
        ({"key": "a", "max_bytes": True}, "'max_bytes' must be a whole number"),
        ({"key": "a", "select": 1}, "'select' must be a JMESPath expression"),
        ({"key": "a" * 9000}, "The path must have at most"),
        ({"key": "a", "query": {"q": "x" * 9000}}, "'query' has more than"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal_of(arguments, tool())


def test_a_graphql_tool_takes_its_document_in_the_body_only() -> None:
    ask = RuleTool("ask", parse_rule("POST /graphql with query issues as ask"), ("POST",), ("/graphql",), ("linear",))
    assert call_of_rule(ask, {"body": {"query": "{issues}"}}).body == b'{"query":"{issues}"}'
    for arguments in ({"query": "{issues}"}, {"query": {"query": "{issues}"}}, {"body": {}, "body_as": "form"}):
        assert refusal_of(arguments, ask) == f"Unknown argument '{max(arguments)}'."


def test_an_argument_may_be_nested_or_optional() -> None:
    assert call_of_rule(tool(may_have_slash=True), {"key": "a/b"}).target == "/issue/a/b"
    assert call_of_rule(tool(optional=True), {}).target == "/issue/"


def test_tool_with_several_methods_requires_the_method() -> None:
    both = tool("GET", "POST")
    assert refusal_of({"key": "a"}, both) == "'method' must be one of GET, POST."
    assert call_of_rule(both, {"key": "a", "method": "POST"}).method == "POST"


def test_a_body_is_json_or_a_form() -> None:
    post = tool("POST")
    call = call_of_rule(post, {"key": "a", "body": {"name": "ü", "n": [1]}})
    assert (call.body, call.content_type) == ('{"name":"ü","n":[1]}'.encode(), "application/json")
    form = call_of_rule(post, {"key": "a", "body": {"n": [1, 2]}, "body_as": "form"})
    assert (form.body, form.content_type) == (b"n=1&n=2", "application/x-www-form-urlencoded")
    assert "A form's 'body'" in refusal_of({"key": "a", "body": "x", "body_as": "form"}, post)
    assert "json or form" in refusal_of({"key": "a", "body": {}, "body_as": "xml"}, post)


@pytest.mark.parametrize("body", ['{"name":"x"}', ' [1, {"a": 2}]\n'])
def test_a_body_that_was_encoded_as_text_is_not_encoded_again(body: str) -> None:
    assert refusal_of({"key": "a", "body": body}, tool("POST")) == "'body' must be JSON, not JSON encoded as text."


@pytest.mark.parametrize("body", ["5b10a2844c20165700ede21g", "[draft] title", "", "12", 7, True])
def test_a_body_may_be_one_text_or_number(body: Any) -> None:
    assert call_of_rule(tool("POST"), {"key": "a", "body": body}).body == json.dumps(body).encode()


def test_call_api_takes_a_method_and_a_path() -> None:
    call = call_of_api({"method": "GET", "path": "/a?b=1", "query": {"c": 2}, "connection": "jira/c1"})
    assert (call.target, call.connection, call.integrations) == ("/a?b=1&c=2", "jira/c1", None)
    assert "'method' must be a method in capitals" in refusal_of({"method": "get", "path": "/"})
    assert "'path' must begin with '/'" in refusal_of({"method": "GET", "path": "a"})
    assert "visible ASCII" in refusal_of({"method": "GET", "path": "/ü"})
    assert "visible ASCII" in refusal_of({"method": "GET", "path": "/a#b"})


def test_call_api_sends_no_request_whose_method_is_the_word_websocket() -> None:
    """A rule with WEBSOCKET allows only an upgrade, and some servers respond to any method."""
    assert refusal_of({"method": "WEBSOCKET", "path": "/socket"}) == "A tool cannot open a WebSocket."


def test_connection_of_a_tool_call_is_chosen_only_if_there_is_exactly_one() -> None:
    call = call_of_rule(tool(), {"key": "a"})
    # the only connection of the tool's integration
    assert chosen_connection(call, {"jira/c1": "Ada", "slack/c1": ""}) == "jira/c1"
    with pytest.raises(InvalidArguments, match=r"Set 'connection' to one of jira/c1 \(Ada\), jira/c2\."):
        chosen_connection(call, {"jira/c1": "Ada", "jira/c2": ""})
    with pytest.raises(InvalidArguments, match="may not list them"):
        chosen_connection(call, None)
    with pytest.raises(InvalidArguments, match=r"no connection for this call\. Ask the user to connect"):
        chosen_connection(call, {"slack/c1": ""})
    named = call_of_rule(tool(), {"key": "a", "connection": "jira/c9"})
    assert chosen_connection(named, None) == "jira/c9"
    for text in ("jira", "jira/", "/c1", " jira/c1"):
        with pytest.raises(InvalidArguments, match="must be INTEGRATION/CONNECTION"):
            chosen_connection(call_of_rule(tool(), {"key": "a", "connection": text}), None)


def test_error_for_a_malformed_connection_lists_those_of_the_key() -> None:
    call = call_of_rule(tool(), {"key": "a", "connection": "c1"})
    with pytest.raises(InvalidArguments) as refused:
        chosen_connection(call, {"jira/c1": "Ada", "jira/c2": "", "slack/c1": ""})
    assert str(refused.value) == (
        "'connection' must be INTEGRATION/CONNECTION. Set 'connection' to one of jira/c1 (Ada), jira/c2."
    )
