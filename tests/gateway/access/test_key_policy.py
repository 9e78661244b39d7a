"""Rules: what a pattern matches, and which ambiguous paths no rule matches."""

import re
import time
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.key_policy import Breach, Policy, SentRequest, parse_rule, path_ambiguity
from gateway.records.access import KeyLimits

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
def test_rule_matches_what_it_describes(rule: str, method: str, path: str) -> None:
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


@pytest.mark.parametrize(
    "path",
    [
        "/a//b",
        "/a/./b",
        "/a/../b",
        "/a/%2e%2e/b",
        "/a/.%2e/b",
        "/a%2fb",
        "/a%2Fb",
        "/a%5cb",
        "/a%252fb",
        "/a%3fb",
        "/a%23b",
        "/a;b",
        "/a%3bb",
        "/a%00",
        "/a%0a",
        "/a%7f",
        "/a%",
        "/a%2",
        "/a%zz",
        "/%61",
        "/a.",
        "/a./b",
        "/a%20/b",
        "/%20a",
        "/a%c0%afb",
        "/a%ef%bc%8fb",
        "/a%c2%a5b",
        "/a%e2%82%a9b",
        "/a%ef%bf%a5b",
        "/a%ef%bf%a6b",
        "/a%e2%88%96b",
        "/a%e2%a7%b8b",
        "/a%e2%88%95b",
        "/a%e2%81%84b",
        "/a%ff",
        "/" + "a" * 2048,
    ],
)
def test_ambiguous_path_matches_no_rule(path: str) -> None:
    assert path_ambiguity(path) is not None


def test_refusal_of_an_ambiguous_path_says_what_to_write() -> None:
    policy = Policy((), (KeyLimits(rules=("GET /v1/**",)),))
    breach = policy.decision(SentRequest("GET", "api.example.com", "/v1/%6b", "", frozenset()))
    assert isinstance(breach, Breach)
    assert breach.why == "a path can be read in two ways if it holds '%6b', which must be written as 'k'"


@pytest.mark.parametrize(
    "path", ["/", "/a/b", "/a/", "/a.b/c", "/a%20b", "/caf%C3%A9", "/%40me", "/a,b:c@d", "/~a/(b)"]
)
def test_plain_path_is_compared_with_rules(path: str) -> None:
    assert path_ambiguity(path) is None


def test_hostile_path_is_matched_in_linear_time() -> None:
    rule = parse_rule("GET /*a*a*a*a*a*a*a*a*a*a/**b")
    began = time.process_time()
    assert not rule.fits("GET", "/" + "a" * 2000)
    assert not rule.fits("GET", "/" + "a" * 1000 + "/" + "a" * 1000)
    assert time.process_time() - began < 1.0


PIECES = [
    "/",
    "//",
    ".",
    "..",
    "%2e",
    "%2F",
    "%5c",
    "%252f",
    ";",
    "%3b",
    "%00",
    "%20",
    "%c0%af",
    "%ef%bc%8f",
    "%EF%BC%8E",
]
PIECES += [
    "ex",
    "jira",
    "rest",
    "api",
    "3",
    "search",
    "issue",
    "/ex/a/rest/api/3/search",
    "%73",
    "%",
    "a",
    "~",
    "%e2%80%a4",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map(lambda pieces: "/" + "".join(pieces)))
def test_allowed_path_means_the_same_to_the_most_lenient_server(path: str) -> None:
    if path_ambiguity(path) is None and parse_rule(SEARCH).fits("GET", path):
        assert re.fullmatch(r"/ex/[^/]*/rest/api/3/search[^/]*", leniently(path))


def leniently(path: str) -> str:
    """Return the path as several lenient servers in a row might read it: decode twice, normalize characters, drop what
    is ignored.
    """
    text = unicodedata.normalize("NFKC", unquote(unquote(path))).replace("\\", "/").partition("?")[0].partition("#")[0]
    out: list[str] = []
    for segment in text.split("\0")[0].split("/"):
        bare = segment.partition(";")[0].strip()
        if bare == "..":
            out = out[:-1]
        elif bare.rstrip("."):
            out.append(bare.rstrip("."))
    return "/" + "/".join(out)


@pytest.mark.parametrize("path", ["/ex/a/rest/api/3/search", "/ex/%e2%80%a6x/rest/api/3/searchX"])
def test_lenient_reader_does_not_change_plain_paths(path: str) -> None:
    assert "/rest/api/3/search" in leniently(path)


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


@pytest.mark.parametrize(
    "name",
    [
        "_method",
        ".method",
        "_method[]",
        "_method%00x",
        "%20_method",
        "+_method",
        "_Method",
        "_method[a]",
        "x-http-method",
        "method",
    ],
)
def test_a_query_parameter_that_some_framework_takes_for_the_method_is_refused(name: str) -> None:
    policy = Policy(("environment:proxy",), [KeyLimits(rules=("POST /v1/**",))])
    for query in (f"?{name}=DELETE", f"?a=1&{name}=delete", f"?a=1;{name}=PUT"):
        breach = policy.decision(SentRequest("POST", "api.example.com", "/v1/x", query, frozenset()))
        assert isinstance(breach, Breach), query
        assert breach.broken == "ambiguous_query"
