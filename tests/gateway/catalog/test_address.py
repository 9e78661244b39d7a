"""Parsing of addresses with placeholders; an address that no value can make safe is refused."""

import pytest

from gateway.catalog.address import is_port, parse_address
from gateway.catalog.template import Name, TemplateError


def test_an_address_is_taken_apart_around_its_placeholders() -> None:
    found = parse_address("https://${connectionConfig.site}.example.com:8443/v1/${connectionConfig.team}?a=1")
    assert (found.scheme, found.whole, found.port) == ("https", None, "8443")
    assert [str(piece) if isinstance(piece, str) else "NAME" for piece in found.host] == ["NAME", ".example.com"]
    assert found.path[0] == "/v1/"
    assert isinstance(found.path[1], Name)
    assert found.query == ("?a=1",)


def test_a_placeholder_may_be_the_whole_base_address_or_the_port() -> None:
    whole = parse_address("${connectionConfig.base}/rest")
    assert isinstance(whole.whole, Name)
    assert (whole.host, whole.path) == ((), ("/rest",))
    port = parse_address("http://localhost:${connectionConfig.port}/")
    assert isinstance(port.port, Name)
    assert port.host == ("localhost",)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("example.com/a", "begins with https://"),
        ("ftp://example.com", "begins with https://"),
        ("https:///a", "has no host"),
        ("https://user@example.com/", "user information"),
        ("https://exa_mple!.com/", "is not a host name"),
        ("https://example.com:99999/", "is not a port"),
        ("https://example.com/#top", "'#' may not stand in an address"),
        ("https://example.com/\\x", "may not stand in an address"),
        ("https://example.com/${now}", "have no place in an address"),
        ("${connectionConfig.base}rest", "begins with '/'"),
    ],
)
def test_inherently_unsafe_address_is_refused(template: str, why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        parse_address(template)


def test_a_port_is_1_to_65535_in_digits() -> None:
    assert [text for text in ("1", "443", "65535", "0", "65536", "+1", "", "٤", "000001") if is_port(text)] == [
        "1",
        "443",
        "65535",
    ]
