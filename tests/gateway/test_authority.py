"""Host and port of a URL: brackets around IPv6, ports spelled out, and loopback for what listens everywhere."""

import pytest

from gateway.authority import bracketed, local_url, origin_of


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
