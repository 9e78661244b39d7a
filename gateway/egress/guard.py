"""Decides which IP addresses the gateway may connect to.

Requests with https may reach the public internet. Requests with http or https may reach the networks that the operator
allowed. A host name can resolve to any address, so the guard checks IP addresses: an address in the URL, and every
address that a name resolves to. The socket factory checks the address again immediately before it connects.
"""

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol

from gateway.egress.egress_errors import AddressRefused, EgressError
from gateway.origin import bracketed, parse_host

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Scheme = Literal["http", "https"]
SocketAddress = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]

_SPECIAL: Final[tuple[IPNetwork, ...]] = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of a cloud
        "168.63.129.16/32",  # the metadata service of another cloud, which has a public address
        "169.254.0.0/16",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/3",  # multicast and reserved
        "::/8",  # unspecified, loopback, IPv4 inside IPv6, NAT64 (64:ff9b::)
        "2001::/23",  # Teredo, ORCHID, benchmarking
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)


class AllowedRange(Protocol):
    """A network that the operator allowed. `port`: the allowed port; None allows all ports."""

    @property
    def network(self) -> IPNetwork: ...

    @property
    def port(self) -> int | None: ...


def ip_address_in(host: str) -> IPAddress | None:
    """Return `host` as an IP address; None if it is a name or an address with a zone index (``%eth0``)."""
    try:
        return None if "%" in host else ipaddress.ip_address(host)
    except ValueError:
        return None


def without_ipv6_prefix(address: IPAddress) -> IPAddress:
    """Return the IPv4 address inside a mapped or compatible IPv6 address (RFC 4291 §2.5.5).

    Return any other address unchanged.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if 1 < int(address) < 1 << 32:
            return ipaddress.IPv4Address(int(address))
    return address


def is_public(address: IPAddress) -> bool:
    """Return whether `address` is a public unicast address. `_SPECIAL` adds ranges that Python does not know."""
    return address.is_global and not address.is_multicast and not any(address in network for network in _SPECIAL)


def _not_public_message(host: str, port: int, resolved: str, address: IPAddress | None) -> str:
    """Return the message for `host`, which resolves to the forbidden address `resolved`."""
    resolution_text = "" if host == resolved else f" resolves to {resolved}, which"
    message = f"{host} port {port}{resolution_text} is not a public address."
    if address is None:
        return f"{message} An address with a zone cannot be allowed in egress.allow."
    plain_address = without_ipv6_prefix(address)
    entry = f"{plain_address}/32:{port}" if plain_address.version == 4 else f"[{plain_address}/128]:{port}"
    return f'{message} To allow it, add "{entry}" to egress.allow in gateway.yaml.'


class Guard:
    """Checks addresses. `allow`: the networks that the operator allowed (``egress.allow``)."""

    def __init__(self, allow: Iterable[AllowedRange] = ()) -> None:
        self._allow = tuple(allow)

    def permits(self, scheme: Scheme, address: IPAddress, port: int) -> bool:
        """Return whether the gateway may connect to this address and port."""
        address = without_ipv6_prefix(address)
        return self._is_allowed(address, port) or (scheme == "https" and is_public(address))

    def check(self, scheme: Scheme, host: str, port: int) -> None:
        """Raise EgressError ``refused`` if the host can be refused without a name look-up."""
        host_text = parse_host(bracketed(host))
        if host_text is None:
            raise EgressError("refused", f"{host!r} is not a valid host name or IP address.")
        if ip_address_in(host_text) is not None:
            self.admit(scheme, host_text, port, [host_text])
        elif scheme == "http" and not self._allow:
            raise EgressError("refused", f"http://{host} is refused: public hosts are reached by https only.")

    def admit(self, scheme: Scheme, host: str, port: int, addresses: Sequence[str]) -> None:
        """Check all `addresses` of `host`. Raises EgressError ``refused`` if one of them is forbidden."""
        for text in addresses:
            address = ip_address_in(text)
            if address is not None and self.permits(scheme, address, port):
                continue
            if scheme == "http" and address is not None and is_public(without_ipv6_prefix(address)):
                raise EgressError("refused", f"http://{host} is refused: public hosts are reached by https only.")
            raise EgressError("refused", _not_public_message(host, port, text, address))

    def socket(self, scheme: Scheme, address: SocketAddress) -> socket.socket:
        """Return a socket to connect to `address`. Raises AddressRefused if the address is forbidden."""
        family, kind, protocol, _, sockaddr = address
        if not self.permits(scheme, ipaddress.ip_address(sockaddr[0]), sockaddr[1]):
            raise AddressRefused(f"the gateway may not connect to {sockaddr[0]}, port {sockaddr[1]}")
        return socket.socket(family, kind, protocol)

    def _is_allowed(self, address: IPAddress, port: int) -> bool:
        return any(
            (allowed_range.port is None or allowed_range.port == port)
            and allowed_range.network.version == address.version
            and address in allowed_range.network
            for allowed_range in self._allow
        )
