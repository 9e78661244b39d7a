"""Rules as tools: names, methods, paths and arguments."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from gateway.access.key_rule import KeyRule, parse_rule
from gateway.mcp.rule_tools import path_below_base, tools_of
from tests.fakes.scaling import cpu_s, linear_fault

JIRA = "ex/jira/${connectionConfig.cloudId}"


def shown_path(rule: str, base: str | None = "") -> str | None:
    tools = tools_of([[parse_rule(rule)]], {"jira": base})
    return tools[0].shown_path if tools else None


@pytest.mark.parametrize(
    ("rule", "base", "path"),
    [
        ("GET /ex/jira/*/rest/api/3/search*", JIRA, "/rest/api/3/search{search_rest}"),
        ("GET /ex/jira/*/rest/api/3/issue/{issue} as x", JIRA, "/rest/api/3/issue/{issue}"),
        ("GET /ex/**", JIRA, "/{ex_rest}"),
        ("GET /repos/*/*/issues/*", "", "/repos/{repos}/{repos_2}/issues/{issues}"),
        ("GET /v1/*", "v1", "/{v1}"),
        ("GET /v1", "v1", "/"),
        ("GET /v2/*", "v1", None),
        ("GET /v1", "v1/x", None),
        ("GET /bot*/sendMessage", "bot${apiKey}", "/sendMessage"),
        ("GET /a/*/b", None, "/a/{a}/b"),
        ("GET /query/*", "", "/query/{query_}"),
        ("GET /3/*", "", "/3/{part_3}"),
    ],
)
def test_the_arguments_of_a_tool_are_the_placeholders_of_its_rule(
    rule: str, base: str | None, path: str | None
) -> None:
    assert shown_path(rule, base) == path


def test_a_name_is_that_of_the_rule_or_made_of_its_path() -> None:
    rules = [
        parse_rule(item) for item in ("GET /rest/api/3/issue/*", "GET /rest/api/3/issue*", "* /x", "GET /y as get_x")
    ]
    names = [tool.name for tool in tools_of([rules], {"a": ""})]
    assert names == ["get_rest_api_3_issue", "get_rest_api_3_issue_2", "call_x", "get_x"]
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,64}", name) for name in names)


def test_no_argument_can_have_a_value_that_its_rule_never_allows() -> None:
    literal, between, at_end = tools_of(
        [[parse_rule(text) for text in ("GET /issue/{issue}", "GET /a/**/z", "GET /b/**")]], {"a": ""}
    )
    assert (literal.fixed_path, literal.arguments) == ("/issue/{issue}", [])  # braces are text in a rule without a name
    assert [argument.optional for argument in (*between.arguments, *at_end.arguments)] == [False, True]


def test_a_rule_that_a_parent_key_excludes_is_not_a_tool() -> None:
    above = [parse_rule("GET /a/**"), parse_rule("POST /b/*/c")]
    own = [parse_rule("GET,POST /a/x"), parse_rule("GET /b/1/c"), parse_rule("POST /b/*/*"), parse_rule("GET /z")]
    tools = tools_of([above, own], {"a": ""})
    assert [(tool.rule.text, tool.methods) for tool in tools] == [
        ("GET,POST /a/x", ("GET",)),
        ("POST /b/*/*", ("POST",)),
    ]


def test_a_base_path_longer_than_the_rule_does_not_match() -> None:
    assert path_below_base(parse_rule("GET /a"), "a/b") is None


def test_listing_a_rule_takes_time_in_proportion_to_its_placeholders() -> None:
    """Each name is tried with the numbers that are free, and the last word before a place is not searched again."""
    numbers = count()

    def work(size: int) -> Callable[[], object]:
        written = "/" + "/".join(["*a*"] * (size // 4))
        return lambda: tools_of(
            [[replace(parse_rule("GET /x"), path_pattern=f"/{next(numbers)}{written}")]], {"jira": ""}
        )

    assert linear_fault(work, 8192) == ""


def test_the_rules_of_two_keys_are_compared_within_a_bound() -> None:
    """Two hundred such rules below as many of a parent key took minutes, and all other requests waited."""
    long = "ab" * 70

    def rules(size: int) -> list[list[KeyRule]]:
        return [[parse_rule(f"* /**{long}{end.format(n)}") for n in range(size)] for end in ("a*{}c", "*b{}")]

    def listed_s(size: int) -> float:
        keys = rules(size)
        return cpu_s(lambda: tools_of(keys, {"jira": ""}))

    assert tools_of(rules(30), {"jira": ""}) == []
    assert listed_s(200) <= 10 * listed_s(30)  # 44 times as many pairs
