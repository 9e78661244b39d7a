"""Field names by kind, in lower case: the tables that decide what passes; the media type of a Content-Type."""

from typing import Final

# ── Field names by kind: the tables that `headers` decides with, in lower case, with `-` where a sender wrote `_`.

Fields = list[tuple[str, str]]
"""Header lines in order, duplicates kept. Bytes that are not UTF-8 stand as lone surrogates (``surrogateescape``)."""

TEXT: Final = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
"""The bytes that a line of a head may hold (RFC 9110 §5.5), for `bytes.translate`: what is left are line ends and faults."""

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",  # no standard, but sent by old clients (RFC 9110 §7.6.1)
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

FRAMING: Final = frozenset({"host", "content-length", "transfer-encoding", "expect"})
"""Written by the sender of the message, never copied: two opinions on a body's end are how requests are smuggled."""

OPTIONS: Final = frozenset(
    {
        "provider-config-key",
        "connection-id",
        "base-url-override",
        "retries",
        "retry-on",
        "decompress",
        "forward-headers-on-redirect",
        "gateway-timeout",
        "gateway-dry-run",
    }
)
"""The fields that `proxy_options` reads."""

TO_US: Final = OPTIONS | {
    "forwarded",
    "x-real-ip",
    "baggage",  # W3C: what callers send each other about their users, which is no provider's business
}
TO_US_PREFIXES: Final = ("nango-", "gateway-", "x-forwarded-")

MINTING_PREFIX: Final = "nango-proxy-"
"""``Nango-Proxy-X: v`` asks for ``X: v`` towards the provider."""

SITE_WIDE: Final = frozenset(
    {
        "accept-ch",
        "activate-storage-access",
        "alt-svc",
        "attribution-reporting-register-source",
        "attribution-reporting-register-trigger",
        "clear-site-data",
        "critical-ch",
        "expect-ct",
        "nel",
        "origin-agent-cluster",
        "public-key-pins",
        "public-key-pins-report-only",
        "report-to",
        "reporting-endpoints",
        "sec-session-registration",
        "secure-session-registration",
        "service-worker-allowed",
        "set-login",
        "strict-transport-security",
        "use-as-dictionary",
    }
)
"""What a provider says about its own site, and a browser would believe about ours."""

FRONT_SERVER_PREFIXES: Final = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-", "x-reproxy-")
"""Orders to the web server in front of us, such as nginx's ``X-Accel-Redirect``; a provider must not give them."""

RANGES: Final = ("Range", "If-Range")
"""Ask for a part of a body, which is no JSON; dropped where the gateway has to read the whole."""

SNIFFING: Final = "x-content-type-options"
"""Replaced by ours on every answer of a provider: `browser`."""

REFERENCES: Final = frozenset({"link", "location", "content-location", "refresh"})


def plain(name: str) -> str:
    """The name as the tables spell it. Back ends that follow CGI read ``X_Y`` as ``X-Y``, so we do too."""
    return name.lower().replace("_", "-")


def for_us(name: str) -> bool:
    """Whether a field (spelled plainly) is addressed to the gateway or describes hops before it."""
    return name in TO_US or name.startswith(TO_US_PREFIXES)


def named_by_connection(fields: Fields) -> frozenset[str]:
    """The names that ``Connection`` makes hop-by-hop (RFC 9110 §7.6.1), spelled plainly."""
    lists = [value for name, value in fields if plain(name) == "connection"]
    if not lists:
        return frozenset()
    return frozenset(plain(token.strip()) for value in lists for token in value.split(","))


def from_wire(raw: tuple[tuple[bytes, bytes], ...]) -> Fields:
    """Header lines as text that can be turned back into the very same bytes."""
    return [(name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")) for name, value in raw]


# ── The media type of a Content-Type field (RFC 9110 §8.3), in time that grows with its length.


def media_type(field: str) -> str:
    """In lower case, without its parameters; empty where there is none."""
    return field.partition(";")[0].strip().lower()
