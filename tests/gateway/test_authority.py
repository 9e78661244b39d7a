"""Host and port of a URL: brackets around IPv6, explicit ports, loopback for wildcard addresses, and registered
domains."""

import pytest

from gateway.authority import bracketed, is_registered, local_url, not_ascii, origin_of


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
    assert named in (not_ascii(typed) or "")
    assert not_ascii("git.example.com:8443") is None
