"""Host and port as in a URL (RFC 3986 §3.2), registered domains, and the addresses that listen on every interface."""

from typing import Final

DEFAULT_PORTS: Final = {"https": 443, "http": 80}
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on


# Second-level domains under which anyone can register a domain: `.co.uk` has no single owner.
_SHARED: Final = frozenset({"ac", "co", "com", "edu", "gob", "gov", "gv", "ne", "net", "or", "org"})


def is_registered(name: str) -> bool:
    """Return whether all hosts below `name` have one owner.

    True for ``example.com`` and ``example.co.uk``; false for ``com`` and ``co.uk``.
    """
    labels = name.split(".")
    return len(labels) > 2 or (len(labels) == 2 and not (labels[0] in _SHARED and len(labels[1]) == 2))


def not_ascii(text: str) -> str | None:
    """Return why a typed host is refused if it has a character outside ASCII, else None.

    The returned text is the rest of a sentence that begins with the host. Characters of other scripts are refused
    because they can look like an ASCII letter, dot or slash, so the URL would lead to another host.
    """
    if text.isascii():
        return None
    import unicodedata  # imported here: needed only for a fault

    wrong = next(char for char in text if not char.isascii())
    named = f"U+{ord(wrong):04X}, {unicodedata.name(wrong, 'a character without a name')}"
    return f"holds a character that host names do not have ({named}); type ASCII letters, other scripts as xn--…"


def bracketed(host: str) -> str:
    """Return the host as it is written in a URL: an IPv6 address in brackets (RFC 3986 §3.2.2)."""
    return f"[{host}]" if ":" in host else host


def origin_of(scheme: str, host: str, port: int) -> str:
    """Return an origin such as ``https://api.example.com:443``, always with the port, so that origins can be compared.

    `host`: a host name or an IP address, without brackets.
    """
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def local_url(listens_on: str, port: int) -> str:
    """Return the URL at which this machine reaches its own server.

    `listens_on`: the server's IP address; 0.0.0.0 and :: become the loopback address.
    """
    return origin_of("http", ANY_ADDRESS.get(listens_on, listens_on), port)
