"""Requests that two servers can read differently match no rule."""

import re
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.ambiguous_requests import path_ambiguity
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.key_rule import parse_rule
from gateway.records.access import KeyLimits

SEARCH = "GET /ex/*/rest/api/3/search*"


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


def test_refusal_of_an_ambiguous_path_shows_the_unambiguous_form() -> None:
    policy = Policy((), (KeyLimits(rules=("GET /v1/**",)),))
    breach = policy.decision(SentRequest("GET", "api.example.com", "/v1/%6b", "", frozenset()))
    assert isinstance(breach, Breach)
    assert breach.reason == "a path can be read in two ways if it contains '%6b', which must be written as 'k'"


@pytest.mark.parametrize(
    "path", ["/", "/a/b", "/a/", "/a.b/c", "/a%20b", "/caf%C3%A9", "/%40me", "/a,b:c@d", "/~a/(b)"]
)
def test_unambiguous_path_is_compared_with_rules(path: str) -> None:
    assert path_ambiguity(path) is None


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
    if path_ambiguity(path) is None and parse_rule(SEARCH).matches("GET", path):
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
def test_a_lenient_parser_does_not_change_an_unambiguous_path(path: str) -> None:
    assert "/rest/api/3/search" in leniently(path)


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
        assert breach.broken_limit == "ambiguous_query"
