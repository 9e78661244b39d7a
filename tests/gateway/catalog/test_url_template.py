"""Parsing of URL templates; a template that no value can make a safe URL is refused."""

import pytest

from gateway.catalog.template import Name, TemplateError
from gateway.catalog.url_template import is_port, parse_url_template


def test_url_template_is_split_at_its_placeholders() -> None:
    found = parse_url_template("https://${connectionConfig.site}.example.com:8443/v1/${connectionConfig.team}?a=1")
    assert (found.scheme, found.whole_base_url, found.port) == ("https", None, "8443")
    assert [str(piece) if isinstance(piece, str) else "NAME" for piece in found.host] == ["NAME", ".example.com"]
    assert found.path[0] == "/v1/"
    assert isinstance(found.path[1], Name)
    assert found.query == ("?a=1",)


def test_a_placeholder_may_be_the_whole_base_url_or_the_port() -> None:
    whole = parse_url_template("${connectionConfig.base}/rest")
    assert isinstance(whole.whole_base_url, Name)
    assert (whole.host, whole.path) == ((), ("/rest",))
    port = parse_url_template("http://localhost:${connectionConfig.port}/")
    assert isinstance(port.port, Name)
    assert port.host == ("localhost",)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("example.com/a", "must begin with https://"),
        ("ftp://example.com", "must begin with https://"),
        ("https:///a", "has no host"),
        ("https://user@example.com/", "user information"),
        ("https://exa_mple!.com/", "is not a host name"),
        ("https://example.com:99999/", "is not a port"),
        ("https://example.com/#top", "'#' is not allowed in a URL"),
        ("https://example.com/\\x", "is not allowed in a URL"),
        ("https://example.com/${now}", "are not allowed in a URL"),
        ("${connectionConfig.base}rest", "must begin with '/'"),
    ],
)
def test_inherently_unsafe_url_template_is_refused(template: str, why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        parse_url_template(template)


def test_a_port_is_1_to_65535_in_digits() -> None:
    assert [text for text in ("1", "443", "65535", "0", "65536", "+1", "", "٤", "000001") if is_port(text)] == [
        "1",
        "443",
        "65535",
    ]
