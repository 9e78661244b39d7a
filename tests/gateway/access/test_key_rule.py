"""Rules of keys: what a rule matches, and which rules are refused."""

import time

import pytest

from gateway.access.key_rule import parse_rule

SEARCH = "GET /ex/*/rest/api/3/search*"


@pytest.mark.parametrize(
    ("rule", "method", "path"),
    [
        (SEARCH, "GET", "/ex/jira/rest/api/3/search"),
        (SEARCH, "GET", "/ex/a-b.c/rest/api/3/search-jql"),
        ("GET,POST /v1/items", "POST", "/v1/items"),
        ("* /v1/items/*", "PURGE", "/v1/items/7"),
        ("GET /a/**", "GET", "/a/b/c/d"),
        ("GET /a/**/z", "GET", "/a/b/c/z"),
        ("GET /a*b*c", "GET", "/axbxbxc"),
        ("GET /**.json", "GET", "/x/y.json"),
        ("GET /a*b**c/d", "GET", "/aXbY/Z/c/d"),
        ("GET /users/%40me", "GET", "/users/%40me"),
        ("GET /v1/*:cancel", "GET", "/v1/7:cancel"),
    ],
)
def test_rule_matches_the_described_requests(rule: str, method: str, path: str) -> None:
    assert parse_rule(rule).fits(method, path)


@pytest.mark.parametrize(
    ("rule", "method", "path"),
    [
        (SEARCH, "GET", "/ex/a/b/rest/api/3/search"),
        (SEARCH, "GET", "/ex/a/rest/api/3/search/x"),
        (SEARCH, "GET", "/ex/a/rest/api/3/issue"),
        (SEARCH, "GET", "/EX/a/rest/api/3/search"),
        (SEARCH, "GET", "/x/ex/a/rest/api/3/search"),
        (SEARCH, "get", "/ex/a/rest/api/3/search"),
        (SEARCH, "HEAD", "/ex/a/rest/api/3/search"),
        ("GET /v1.0/items", "GET", "/v1x0/items"),
        ("GET /a/**/z", "GET", "/a/z"),
        ("GET /a", "GET", "/a/"),
        ("GET /v1/(x|y)", "GET", "/v1/x"),
    ],
)
def test_rule_does_not_match_other_requests(rule: str, method: str, path: str) -> None:
    assert not parse_rule(rule).fits(method, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GET",
        "GET v1",
        "get /v1",
        "GET,, /v1",
        "GET /a b",
        "GET /a?b",
        "GET /a//b",
        "GET /a/../b",
        "GET /**/**",
        "GET /a;b",
    ],
)
def test_rule_that_can_never_match_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"has|must|holds|may|never"):
        parse_rule(text)


def test_hostile_path_is_matched_in_linear_time() -> None:
    rule = parse_rule("GET /*a*a*a*a*a*a*a*a*a*a/**b")
    began = time.process_time()
    assert not rule.fits("GET", "/" + "a" * 2000)
    assert not rule.fits("GET", "/" + "a" * 1000 + "/" + "a" * 1000)
    assert time.process_time() - began < 1.0


def test_rule_may_have_a_name_and_placeholders() -> None:
    rule = parse_rule("GET /issue/{issue}/comment/{comment} as get_comment")
    assert (rule.name, rule.path_pattern) == ("get_comment", "/issue/{issue}/comment/{comment}")
    assert rule.fits("GET", "/issue/A-1/comment/7")
    assert not rule.fits("GET", "/issue/A-1/x/comment/7")


def test_braces_are_literal_in_a_rule_without_a_name() -> None:
    rule = parse_rule("GET /issue/{issue}")
    assert rule.fits("GET", "/issue/{issue}")
    assert not rule.fits("GET", "/issue/7")


@pytest.mark.parametrize(
    "text",
    [
        "GET /x as ",
        "GET /x as Search",
        "GET /x as call_api",
        "GET /x as a b",
        "GET /x as " + "a" * 64,
        "GET /{a}/{a} as x",
        "GET /{body} as x",
        "GET /{a}{b} as x",
        "GET /{a}* as x",
        "GET /{A} as x",
        "GET /{a as x",
    ],
)
def test_rule_name_is_a_plain_word_and_placeholders_are_unique(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|placeholders|holds"):
        parse_rule(text)
