"""Links back into the provider's API lead through us; all others stay."""

import pytest

from gateway.wire.origin import Address
from gateway.wire.references import Rewriter

INTO = Rewriter(Address("https", "api.example.com", 443, "/v1"), "https://gw.example.com/proxy")


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
def test_references(reference: str, rewritten: str) -> None:
    assert INTO("location", reference) == rewritten
    assert INTO("link", f'<{reference}>; rel="next"') == f'<{rewritten}>; rel="next"'


def test_a_quoted_parameter_is_not_a_target() -> None:
    value = '<https://else.example>; title="say \\"<https://api.example.com/v1/x>\\""'
    assert INTO("link", value) == value
