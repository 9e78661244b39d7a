"""Scheme, host and port of a URL: brackets around IPv6, explicit ports, loopback for wildcard addresses, registered
domains; what the parser accepts, and which origins match a list of origins."""

import pytest

from gateway.origin import (
    bracketed,
    covers,
    is_registered,
    local_url,
    non_ascii_fault,
    origin_of,
    parse_host,
    parse_url,
)

ORIGINS = frozenset({"https://api.example.com:443", "https://*.api.example.com:443", "http://*.example.org:8080"})


@pytest.mark.parametrize(
    ("host", "written"), [("::1", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("a.example", "a.example")]
)
def test_a_host_has_brackets_where_it_is_an_ipv6_address(host: str, written: str) -> None:
    assert bracketed(host) == written
    assert origin_of("https", host, 443) == f"https://{written}:443"


@pytest.mark.parametrize(
    ("listens_on", "url"),
    [("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("10.0.0.7", "http://10.0.0.7:80")],
)
def test_a_server_on_every_address_is_reached_on_loopback(listens_on: str, url: str) -> None:
    assert local_url(listens_on, 80) == url


@pytest.mark.parametrize(
    ("name", "one_owner"),
    [("com", False), ("co.uk", False), ("com.au", False), ("example.com", True), ("co.com", True), ("a.co.uk", True)],
)
def test_hosts_below_a_registered_domain_belong_to_one_owner(name: str, one_owner: bool) -> None:
    assert is_registered(name) is one_owner


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("git.example.com\u2044evil.test", "U+2044, FRACTION SLASH"),
        ("git.example.com\u2215evil.test", "U+2215, DIVISION SLASH"),
        ("git.example.com\uff0fevil.test", "U+FF0F, FULLWIDTH SOLIDUS"),
        ("git\u3002example.com", "U+3002, IDEOGRAPHIC FULL STOP"),
        ("\u212ait.example.com", "U+212A, KELVIN SIGN"),
        ("g\u0456t.example.com", "U+0456, CYRILLIC"),
        ("git.example.com\ue000", "U+E000, a character without a name"),
    ],
)
def test_host_with_other_characters_is_refused_with_their_name(typed: str, named: str) -> None:
    assert named in (non_ascii_fault(typed) or "")
    assert non_ascii_fault("git.example.com:8443") is None


@pytest.mark.parametrize(
    ("origin", "result"),
    [
        ("https://api.example.com:443", True),
        ("https://acme.api.example.com:443", True),
        ("http://a.example.org:8080", True),
        ("https://a.b.api.example.com:443", False),
        ("https://evil-api.example.com:443", False),
        ("https://api.example.com.evil.net:443", False),
        ("https://acme.api.example.com:8443", False),
        ("http://acme.api.example.com:443", False),
        ("https://.api.example.com:443", False),
        ("https://[::1]:443", False),
        ("", False),
    ],
)
def test_wildcard_covers_one_label_of_the_host(origin: str, result: bool) -> None:
    assert covers(ORIGINS, origin) is result


@pytest.mark.parametrize(
    ("host", "parsed"),
    [
        ("API.Example.com", "api.example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[2606:4700:0::1]", "2606:4700::1"),
        ("127.1", None),
        ("0x7f.0.0.1", None),
        ("0177.0.0.1", None),
        ("2130706433", None),
        ("1.2.3.4.", None),
        ("a..b", None),
        ("-a", None),
        ("My_App", "my_app"),
        ("_a.b_", "_a.b_"),
        ("a_b-", None),
        ("a_b.1", None),
        ("0x7f_1.0x1", None),
        ("a%5fb", None),
        ("x_" * 32, None),
        ("ex\u00e4mple", None),
        ("\uff41.com", None),
        ("[::1%25eth0]", None),
        ("", None),
        ("x" * 64, None),
    ],
)
def test_host_has_one_interpretation_or_is_refused(host: str, parsed: str | None) -> None:
    assert parse_host(host) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example.com",
        "//api.example.com",
        "ftp://a",
        "https://",
        "https://u@a",
        "https://a\\@b",
        "https://a#b",
        "https://a b",
        "https://a:99999",
        "https://a:0",
        "https://a:",
        "https://a%2eb",
        "https://a\t",
    ],
)
def test_invalid_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it must|its host"):
        parse_url(text)


def test_url_is_parsed() -> None:
    url = parse_url("HTTPS://Api.Example.com:8443/v1/?x=1")
    assert (url.origin, url.path, url.query) == ("https://api.example.com:8443", "/v1", "?x=1")
