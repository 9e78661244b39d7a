"""Who is counted as one client where no key says who it is: an IPv4 address, or an IPv6 network of 64 bits."""

from ipaddress import IPv4Address, IPv6Network, ip_address


def client_network(address: str | None) -> str:
    """``192.0.2.1``, ``2001:db8:1:2::/64``; empty for a client without an address, as on a Unix socket.

    Who has one IPv6 address has all of its /64, so these count together.
    """
    if not address:
        return ""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(ip, IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(IPv6Network((int(ip) >> 64 << 64, 64)))
