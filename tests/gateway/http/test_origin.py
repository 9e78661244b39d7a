"""Which origins match a list of origins."""

import pytest

from gateway.http.origin import covers

ORIGINS = frozenset({"https://api.example.com:443", "https://*.api.example.com:443", "http://*.example.org:8080"})


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
