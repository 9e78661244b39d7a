"""The list of a key's tools: schemas, annotations, search."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.key_rule import parse_rule
from gateway.mcp.path_overlap import overlap
from gateway.mcp.rule_tools import SAFE_METHODS, tools_of
from gateway.mcp.tool_list import IDEMPOTENT, MAX_WORDS, annotations, matching_tools, tools_to_show

JIRA = "ex/jira/${connectionConfig.cloudId}"


_PATHS = st.lists(st.sampled_from(["a", "b", "/", "*", "**", "ab"]), min_size=1, max_size=6).map(
    lambda parts: re.sub(r"\*{3,}", "**", "/" + "".join(parts))
)


def fits(path: str, text: str) -> bool:
    pattern = re.escape(path).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(pattern, text) is not None


@given(_PATHS, _PATHS, st.text("ab/", max_size=6))
def test_two_paths_overlap_where_a_text_fits_both(first: str, second: str, rest: str) -> None:
    if fits(first, f"/{rest}") and fits(second, f"/{rest}"):
        assert overlap(first, second)


@pytest.mark.parametrize(("first", "second"), [("/a", "/b"), ("/a/*", "/a"), ("/*/x", "/a/*/x"), ("/a*b", "/ac")])
def test_two_paths_without_a_common_text_do_not(first: str, second: str) -> None:
    assert not overlap(first, second)


@given(
    st.sets(
        st.sampled_from(["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "PURGE"]), min_size=1
    )
)
def test_annotations_follow_the_method(methods: set[str]) -> None:
    hints = annotations(methods)
    assert hints["readOnlyHint"] is (methods <= SAFE_METHODS)
    assert hints["destructiveHint"] is not hints["readOnlyHint"]
    assert hints["idempotentHint"] is (methods <= IDEMPOTENT)
    assert hints["openWorldHint"] is True


def test_tool_list_of_a_key_for_reading_costs_few_tokens() -> None:
    """A token has about four characters."""
    item = [parse_rule("GET /ex/jira/*/rest/api/3/search/jql as search_issues")]
    many = [
        parse_rule(f"GET /ex/jira/*/rest/api/3/{name}/* as get_{name}")
        for name in ("issue", "project", "user", "board", "filter")
    ]
    for rules, most in ((item, 300), (many, 1000)):
        tools = tools_to_show(tools_of([rules], {"jira": JIRA}), [rules], ["jira/u"], must_name_connection=False)
        assert len(json.dumps(tools)) / 4 <= most


def test_a_search_returns_the_best_match_first() -> None:
    rules = [parse_rule(item) for item in ("GET /issue/*", "POST /issue/*/comment as add_comment", "GET /user")]
    tools = tools_of([rules], {"a": ""})
    assert [tool.name for tool in matching_tools(tools, "comment on issue")] == ["add_comment", "get_issue"]
    assert matching_tools(tools, "nothing") == []


def test_a_search_uses_only_its_first_words() -> None:
    tools = tools_of([[parse_rule("GET /issue/*"), parse_rule("GET /user")]], {"a": ""})
    others = " ".join(f"w{number}" for number in range(MAX_WORDS - 1))
    assert [tool.name for tool in matching_tools(tools, f"{others} issue user")] == ["get_issue"]
