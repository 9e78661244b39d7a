"""Rules of keys: what a rule matches, and which rules are refused. Matching takes time in proportion to the path."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access.ambiguous_requests import MAX_PATH_LENGTH
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.key_rule import MAX_LAZY_LENGTH, MAX_RULE_LENGTH, parse_rule, path_matcher
from gateway.records.access import KeyLimits
from tests.fakes.scaling import cpu_s, linear_fault, reference_s

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
    assert parse_rule(rule).matches(method, path)


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
    assert not parse_rule(rule).matches(method, path)


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
    with pytest.raises(ValueError, match=r"has|must|contains|may|never"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("GET, POST /x", "for example 'GET,POST /v1/items/*'"),
        ("GET  /x", "with one space"),
        ("GET https://api.example.com/v1", "without scheme and host"),
        ("operation jira read", "begins with 'operations '"),
        ("Operations jira read", "begins with 'operations '"),
        ("POST /graphql as ask with query issues", "'as' before 'with'"),
        ("POST /mcp WITH tools a", "in lower case"),
        ("GET /x AS y", "in lower case"),
        ("GET /a b", "has a space in its path"),
        ("POST /mcp with tools a, b", "without spaces"),
        ("GET /issue/{issueId} as get_issue", "such as {issue_id}"),
    ],
)
def test_a_mistyped_rule_is_refused_with_the_correct_form(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_rule(text)


def test_rule_may_have_a_name_and_placeholders() -> None:
    rule = parse_rule("GET /issue/{issue}/comment/{comment} as get_comment")
    assert (rule.name, rule.path_pattern) == ("get_comment", "/issue/{issue}/comment/{comment}")
    assert rule.matches("GET", "/issue/A-1/comment/7")
    assert not rule.matches("GET", "/issue/A-1/x/comment/7")


def test_braces_are_literal_in_a_rule_without_a_name() -> None:
    rule = parse_rule("GET /issue/{issue}")
    assert rule.matches("GET", "/issue/{issue}")
    assert not rule.matches("GET", "/issue/7")


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
    with pytest.raises(ValueError, match=r"name|placeholders|contains"):
        parse_rule(text)


# ── Paths: each pattern means what the documentation says, in linear time.

LONG = "abaabaabaab"
TEXTS = st.sampled_from(["a", "b", "ab", "ba", "aa", ".", "%40", LONG])
RULES = st.lists(st.sampled_from(["a", "b", "ab", "ba", ".", "%40", "/", "/", "*", "*", "*", "**", LONG]), max_size=12)
FILLS = st.lists(st.lists(st.one_of(TEXTS, st.just("/")), max_size=3).map("".join), min_size=12, max_size=12)


def plain_regex(written: str) -> re.Pattern[str]:
    """Return the documented meaning of a pattern as a regular expression, which can be slow."""
    wild = {"*": "[^/]*", "**": ".*"}
    pieces = re.findall(r"\*\*|\*|[^*]+", written)
    return re.compile("".join(wild.get(piece) or re.escape(piece) for piece in pieces))


@settings(max_examples=400)
@given(RULES.map(lambda pieces: "/" + "".join(pieces)), FILLS, st.integers(0, 40), st.one_of(st.just(""), TEXTS))
def test_path_matches_as_documented(written: str, fills: list[str], at: int, more: str) -> None:
    """The tested paths come from the rule: its wildcards are filled in, and in some of them a text is inserted."""
    if written.count("**") > 1 or "***" in written or "//" in written:
        return
    assert len(LONG) > MAX_LAZY_LENGTH
    wanted, matches, filled = plain_regex(written), path_matcher(written), iter(fills)
    path = re.sub(r"\*\*?", lambda found: next(filled) if found[0] == "**" else next(filled).replace("/", ""), written)
    for item in (path, path[:at] + more + path[at:], path[:at] + path[at + 1 :], path.replace("a", "b", 1), "/", ""):
        assert (matches(item) is not None) == (wanted.fullmatch(item) is not None), (written, item)


SHAPES = [
    "/**a*b*c",
    "/**a*a*a*a*b",
    "/**" + "aaaaaaa*" * 40 + "b",
    "/a*a*a**a*a*a*b",
    "/*a*a*a*a*a*a*a*a*a*a/**b",
    "/**/x*/a*/b",
    "/*aaaabaaa*",
    "/*a*a*a*b/**",
    f"/*{'a' * 240}b{'a' * 240}*",
    f"/*{'a' * 240}b{'a' * 240}",
    f"/**{'a' * 240}b{'a' * 240}",
    f"/**{'a' * 240}b{'a' * 240}*",
    "/*" + "aaaaaaaaa*" * 48 + "b",
    "/" + "*a*b/" * 100,
]
PATHS: list[Callable[[int], str]] = [
    lambda size: "/" + "a" * size,
    lambda size: "/" + "ab" * (size // 2),
    lambda size: "/" + "a/" * (size // 2),
    lambda size: "/x" * (size // 2) + "b",
    lambda size: "/" + f"{'a' * 240}b{'a' * 239}" * (size // 480),
]


@pytest.mark.parametrize("written", SHAPES)
def test_matching_a_path_takes_linear_time(written: str) -> None:
    rule = parse_rule(f"GET {written}")
    for path_of in PATHS:

        def work(size: int, path_of: Callable[[int], str] = path_of) -> Callable[[], object]:
            path = path_of(size)
            return lambda: rule.matches("GET", path)

        assert linear_fault(work, 8 * MAX_PATH_LENGTH) == ""
        assert cpu_s(work(MAX_PATH_LENGTH)) <= 4 * reference_s(MAX_PATH_LENGTH)


@pytest.mark.parametrize("shape", ["/**a*b*{}", "/**aaaabaaa*{}", "/*a*a**a*a*b{}"])
def test_two_hundred_rules_take_no_longer_than_reading_the_path_200_times(shape: str) -> None:
    """Another key can mint a key with such rules. Without this limit, each request of that key blocked the gateway for
    seconds.
    """
    key = Policy(("environment:proxy",), [KeyLimits(rules=tuple(f"GET {shape.format(n)}" for n in range(200)))])
    sent = SentRequest("GET", "api.example.com", "/" + "a" * 2000, "", ())
    assert isinstance(key.decision(sent), Breach)
    assert cpu_s(lambda: key.decision(sent)) <= 200 * reference_s(MAX_PATH_LENGTH)


def test_measured_rules_are_not_longer_than_a_rule_may_be() -> None:
    assert max(map(len, SHAPES)) + len("GET ") <= MAX_RULE_LENGTH
