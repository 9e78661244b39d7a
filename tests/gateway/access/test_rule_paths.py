"""Paths of rules: each pattern means what the documentation says, and matching takes time in proportion to the path."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access.ambiguous_requests import MAX_PATH_LENGTH
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.access.key_rule import MAX_RULE_LENGTH, parse_rule
from gateway.access.rule_paths import MAX_LAZY_LENGTH, path_matcher
from gateway.records.access import KeyLimits
from tests.fakes.scaling import cpu_s, linear_fault, reference_s

LONG = "abaabaabaab"
TEXTS = st.sampled_from(["a", "b", "ab", "ba", "aa", ".", "%40", LONG])
RULES = st.lists(st.sampled_from(["a", "b", "ab", "ba", ".", "%40", "/", "/", "*", "*", "*", "**", LONG]), max_size=12)
FILLS = st.lists(st.lists(st.one_of(TEXTS, st.just("/")), max_size=3).map("".join), min_size=12, max_size=12)


def plain_regex(written: str) -> re.Pattern[str]:
    """Return the documented meaning of a pattern as a regular expression, which can be slow."""
    wild = {"*": "[^/]*", "**": ".*"}
    pieces = re.findall(r"\*\*|\*|[^*]+", written)
    return re.compile("".join(wild.get(piece) or re.escape(piece) for piece in pieces))


@settings(max_examples=1000, deadline=None)
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
            return lambda: rule.fits("GET", path)

        assert linear_fault(work, 8 * MAX_PATH_LENGTH) == ""
        assert cpu_s(work(MAX_PATH_LENGTH)) <= 4 * reference_s(MAX_PATH_LENGTH)


@pytest.mark.parametrize("shape", ["/**a*b*{}", "/**aaaabaaa*{}", "/*a*a**a*a*b{}"])
def test_two_hundred_rules_take_no_longer_than_two_hundred_plain_passes(shape: str) -> None:
    """Another key can mint a key with such rules. Without this limit, each request of that key blocked the gateway for
    seconds.
    """
    key = Policy(("environment:proxy",), [KeyLimits(rules=tuple(f"GET {shape.format(n)}" for n in range(200)))])
    sent = SentRequest("GET", "api.example.com", "/" + "a" * 2000, "", ())
    assert isinstance(key.decision(sent), Breach)
    assert cpu_s(lambda: key.decision(sent)) <= 200 * reference_s(MAX_PATH_LENGTH)


def test_a_rule_has_at_most_the_length_that_was_measured() -> None:
    assert max(map(len, SHAPES)) + len("GET ") <= MAX_RULE_LENGTH
