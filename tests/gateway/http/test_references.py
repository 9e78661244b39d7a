"""Links to the provider's API are rewritten to lead through the gateway; all others stay unchanged."""

from collections.abc import Callable

import pytest

from gateway.http.references import LinkRewriter, mask_secrets
from gateway.origin import ParsedUrl
from tests.fakes.scaling import linear_fault

REWRITER = LinkRewriter(ParsedUrl("https", "api.example.com", 443, "/v1"), "https://gw.example.com/proxy")


@pytest.mark.parametrize(
    ("reference", "rewritten"),
    [
        ("https://api.example.com/v1/x?y#z", "https://gw.example.com/proxy/x?y#z"),
        ("HTTPS://API.example.com:443/v1", "https://gw.example.com/proxy"),
        ("//api.example.com/v1/x", "https://gw.example.com/proxy/x"),
        ("/v1/x", "https://gw.example.com/proxy/x"),
        ("/v1?x", "https://gw.example.com/proxy?x"),
        ("/v10/x", "/v10/x"),
        ("https://api.example.com/v2/x", "https://api.example.com/v2/x"),
        ("http://api.example.com/v1/x", "http://api.example.com/v1/x"),
        ("https://api.example.com:444/v1/x", "https://api.example.com:444/v1/x"),
        ("https://api.example.com@evil.test/v1/x", "https://api.example.com@evil.test/v1/x"),
        ("https://api.example.com.evil.test/v1/x", "https://api.example.com.evil.test/v1/x"),
        ("?page=2", "?page=2"),
        ("next", "next"),
        ("", ""),
    ],
)
def test_references_below_the_base_url_are_rewritten(reference: str, rewritten: str) -> None:
    assert REWRITER("location", reference) == rewritten
    assert REWRITER("link", f'<{reference}>; rel="next"') == f'<{rewritten}>; rel="next"'


def test_a_quoted_parameter_is_not_a_target() -> None:
    value = '<https://else.example>; title="say \\"<https://api.example.com/v1/x>\\""'
    assert REWRITER("link", value) == value


REWRITER_WITH_CREDENTIAL = LinkRewriter(REWRITER.base, REWRITER.gateway_url, frozenset({"api_key", "sig[0]"}))


@pytest.mark.parametrize(
    ("reference", "rewritten"),
    [
        ("https://api.example.com/v1/x?page=2&api_key=k1", "https://gw.example.com/proxy/x?page=2"),
        ("https://api.example.com/v1/x?api_key=k1&page=%32&&#top", "https://gw.example.com/proxy/x?page=%32&&#top"),
        ("/v1/x?api%5Fkey=k1", "https://gw.example.com/proxy/x"),
        ("/v1/x?sig%5B0%5D=k1&sig=2", "https://gw.example.com/proxy/x?sig=2"),
        ("/v1/x?api_key#top", "https://gw.example.com/proxy/x#top"),
        ("/v1/x?", "https://gw.example.com/proxy/x?"),
        ("?api_key=k1&page=2", "?page=2"),
        ("next?page=2&api_key=k1", "next?page=2"),
        ("https://api.example.com/v2/x?api_key=k1&a=1", "https://api.example.com/v2/x?a=1"),
        ("https://files.example.com/x?api_key=theirs", "https://files.example.com/x?api_key=theirs"),
        ("https://api.example.com/v1/x#?api_key=k1", "https://gw.example.com/proxy/x#?api_key=k1"),
    ],
)
def test_credential_is_removed_from_the_query_of_a_link(reference: str, rewritten: str) -> None:
    assert REWRITER_WITH_CREDENTIAL("location", reference) == rewritten
    assert REWRITER_WITH_CREDENTIAL("link", f'<{reference}>; rel="next"') == f'<{rewritten}>; rel="next"'


@pytest.mark.parametrize("piece", ["<", '"\\', '"<', '<>"', "<a>,", '<a>;x="', '<a>; rel="\\""; '])
def test_a_link_field_costs_time_in_proportion_to_its_length(piece: str) -> None:
    def work(size: int) -> Callable[[], object]:
        value = (piece * (size // len(piece) + 1))[:size]
        return lambda: REWRITER.rewrite_links(value)

    assert linear_fault(work, 65_536) == ""


def test_targets_after_an_unclosed_quote_are_rewritten() -> None:
    shown = REWRITER.rewrite_links('<https://api.example.com/v1/a>; title="x <https://api.example.com/v1/b>; rel=next')
    assert shown == '<https://gw.example.com/proxy/a>; title="x <https://gw.example.com/proxy/b>; rel=next'


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("/bot42:a+b/x", "/bot***/x"),
        ("/bot42%3Aa%2Bb/x", "/bot***/x"),
        ("/bot42%3aa%2bb/x%2F", "/bot***/x%2F"),
        ("/l?n=%2Fbot42%253Aa%252Bb%2F", "/l?n=%2Fbot***%2F"),
        ("https://42:A+B.example.com/", "https://***.example.com/"),
        ("/bot42%3Aa+b42:a+b", "/bot******"),
        ("/bot42:a/x%", "/bot42:a/x%"),
        ("/\udce9/42:a+b/\udce9", "/\udce9/***/\udce9"),
        ("", ""),
    ],
)
def test_a_secret_is_masked_in_every_spelling(reference: str, expected: str) -> None:
    assert mask_secrets(reference, ["42:a+b"]) == expected


def test_secret_with_percent_signs_is_masked_raw_and_encoded() -> None:
    for spelt in ("50%25x", "50%2525x", "50%252525x"):
        assert mask_secrets(f"/{spelt}/y", ["50%25x"]) == "/***/y"


def test_secrets_that_overlap_are_masked_once() -> None:
    assert mask_secrets("/abcdef/", ["abcd", "cdef"]) == "/***/"


def test_masking_time_is_linear_in_the_length() -> None:
    def work(size: int) -> Callable[[], object]:
        reference = "%25" * (size // 8) + "%41a" * (size // 8)
        return lambda: mask_secrets(reference, ["a" * 40])

    assert linear_fault(work, 65_536) == ""
