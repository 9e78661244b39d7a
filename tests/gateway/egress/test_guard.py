"""Which addresses may be connected to, in every notation."""

import ipaddress
import socket
from typing import NamedTuple

import pytest

from gateway.egress.egress_errors import AddressRefused, EgressError
from gateway.egress.guard import Guard


class OpenNetwork(NamedTuple):
    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    port: int | None = None


LAN = Guard([OpenNetwork(ipaddress.ip_network("10.0.0.0/8")), OpenNetwork(ipaddress.ip_network("127.0.0.1/32"), 9900)])
CLOSED = Guard()

PRIVATE = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:a00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "fe80::1%eth0",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_no_special_address_is_dialled_by_https(address: str) -> None:
    with pytest.raises(EgressError) as refusal:
        CLOSED.admit("https", "name.example", 443, [address])
    assert refusal.value.kind == "refused"
    assert "egress.allow" in refusal.value.message


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_the_public_internet_is_reached_by_https_only(address: str) -> None:
    CLOSED.admit("https", "name.example", 443, [address])
    with pytest.raises(EgressError, match="by https only"):
        CLOSED.admit("http", "name.example", 80, [address])


def test_name_with_one_forbidden_address_is_refused() -> None:
    with pytest.raises(EgressError, match=r"resolves to 127\.0\.0\.1"):
        CLOSED.admit("https", "rebind.example", 443, ["8.8.8.8", "127.0.0.1"])


@pytest.mark.parametrize(
    ("host", "address", "message"),
    [
        ("wiki.lan", "10.1.2.3", 'To allow it, add "10.1.2.3/32:8000" to egress.allow in gateway.yaml.'),
        ("::1", "::1", '::1 port 8000 is not a public address. To allow it, add "[::1/128]:8000" to egress.allow'),
        ("x.lan", "fe80::1%eth0", "An address with a zone cannot be allowed in egress.allow."),
    ],
)
def test_a_refusal_shows_the_entry_that_would_allow_the_address(host: str, address: str, message: str) -> None:
    with pytest.raises(EgressError) as refusal:
        CLOSED.admit("https", host, 8000, [address])
    assert message in refusal.value.message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_operator_allows_networks_and_single_ports(scheme: str) -> None:
    LAN.admit(scheme, "wiki.lan", 80, ["10.1.2.3", "::ffff:10.0.0.1"])  # type: ignore[arg-type]
    LAN.check(scheme, "127.0.0.1", 9900)  # type: ignore[arg-type]
    with pytest.raises(EgressError):
        LAN.check(scheme, "127.0.0.1", 9901)  # type: ignore[arg-type]
    with pytest.raises(EgressError):
        LAN.check(scheme, "::1", 9900)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "a\\b", "u@h", "", "a b", "[::1]"])
def test_host_that_is_neither_a_name_nor_a_canonical_address_is_refused(host: str) -> None:
    with pytest.raises(EgressError):
        LAN.check("https", host, 443)


def test_a_name_may_end_in_a_digit() -> None:
    CLOSED.check("https", "tracker2", 443)
    CLOSED.check("https", "api.host1", 443)
    with pytest.raises(EgressError):  # unlike the last label of an address
        CLOSED.check("https", "api.1", 443)


def test_with_an_allowed_network_plain_http_to_a_name_depends_on_its_addresses() -> None:
    LAN.check("http", "wiki.lan", 80)
    with pytest.raises(EgressError, match="by https only"):
        CLOSED.check("http", "api.example.com", 80)


def test_the_socket_for_a_refused_address_is_never_made() -> None:
    with pytest.raises(AddressRefused):
        CLOSED.socket("https", (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 443)))
    with pytest.raises(AddressRefused):
        CLOSED.socket("http", (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 80)))
    LAN.socket("http", (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.1", 80))).close()
