"""The scheme, host and port of a URL (RFC 3986 §3.2): how the gateway writes them, and the only parser.

Two parsers could disagree about the destination. So the gateway connects to the host and port that this parser returns,
and no other code parses the text of the URL. Also here: registered domains, and the addresses that listen on every
interface.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

# ── Hosts and ports as text.

DEFAULT_PORTS: Final = {"https": 443, "http": 80}
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
# Second-level domains under which anyone can register a domain: `.co.uk` has no single owner.
_SHARED_SECOND_LEVEL: Final = frozenset({"ac", "co", "com", "edu", "gob", "gov", "gv", "ne", "net", "or", "org"})


def is_registered(name: str) -> bool:
    """Return whether all hosts below `name` have one owner.

    True for ``example.com`` and ``example.co.uk``; false for ``com`` and ``co.uk``.
    """
    labels = name.split(".")
    return len(labels) > 2 or (len(labels) == 2 and not (labels[0] in _SHARED_SECOND_LEVEL and len(labels[1]) == 2))


def non_ascii_fault(text: str) -> str | None:
    """Return why a typed host is refused if it has a character outside ASCII, else None.

    The returned text is the rest of a sentence that begins with the host. Characters of other scripts are refused
    because they can look like an ASCII letter, dot or slash, so the URL would lead to another host.
    """
    if text.isascii():
        return None
    import unicodedata  # imported here: needed only for a fault

    first_non_ascii = next(char for char in text if not char.isascii())
    character = f"U+{ord(first_non_ascii):04X}, {unicodedata.name(first_non_ascii, 'a character without a name')}"
    return f"contains a character that host names do not have ({character}); type ASCII letters, other scripts as xn--…"


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


# ── Parses a URL, and compares origins.

ABSOLUTE: Final = re.compile(r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://(?P<authority>[^/?#]*)")
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"  # with `_`, which is common in names of containers
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}")
_NUMERIC_HOST: Final = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """A parsed http or https URL.

    `host`: in lower case; an IPv6 address has no brackets. `path`: without a trailing slash. `query`: empty, or with
    its ``?``.
    """

    scheme: str
    host: str
    port: int
    path: str = ""
    query: str = ""

    @property
    def origin(self) -> str:
        """The origin with its port, such as ``https://api.example.com:443``."""
        return origin_of(self.scheme, self.host, self.port)


def covers(origins: Collection[str], origin: str) -> bool:
    """Return whether `origins` contains `origin` or a wildcard that covers it.

    In ``https://*.example.com:443``, the ``*`` covers exactly one label.
    """
    if origin in origins:
        return True
    scheme, _, authority = origin.partition("://")
    label, _, parent = authority.partition(".")
    return bool(label) and f"{scheme}://*.{parent}" in origins


def parse_host(text: str) -> str | None:
    """Return the host in `text`; None if the host is invalid.

    A valid host is an ASCII name, an IPv4 address of four decimal numbers, or an IPv6 address in brackets. ``127.1``,
    ``0x7f.1`` and ``2130706433`` give None, although resolvers accept these texts as IPv4 addresses.
    """
    if text.startswith("["):
        if not text.endswith("]") or "%" in text:  # a zone has a meaning on only one machine (RFC 6874)
            return None
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            return None
    host = text.lower()
    if _NUMERIC_HOST.fullmatch(host):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host if _NAME.fullmatch(host) else None


def parse_authority(scheme: str, text: str) -> tuple[str, int] | None:
    """Return (host, port) of ``host[:port]``; None for any other text, for example with user information."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or (host := parse_host(match["host"])) is None:
        return None
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS[scheme]
    return (host, port) if 0 < port < 65536 else None


def parse_url(text: str) -> ParsedUrl:
    """Parse an absolute http or https URL. Raises ValueError with the reason."""
    match = ABSOLUTE.match(text)
    if match is None:
        raise ValueError("it must begin with https:// and a host")
    scheme = match["scheme"].lower()
    authority = parse_authority(scheme, match["authority"])
    if authority is None:
        raise ValueError("its host must be an ASCII name or an IP address, with an optional port and no user name")
    if re.search(r"[^!-~]|[\\#]", text):
        raise ValueError("it must not hold a fragment, a backslash, or a character that must be percent-encoded")
    path, separator, query = text[match.end() :].partition("?")
    return ParsedUrl(scheme, *authority, path.rstrip("/"), separator + query)
