"""Who counts as one client."""

import pytest

from gateway.access.client_window import client_network


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
        ("", ""),
        ("/run/gateway.sock", "/run/gateway.sock"),
    ],
)
def test_an_ipv6_client_is_its_network(address: str | None, client: str) -> None:
    assert client_network(address) == client
