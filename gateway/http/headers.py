"""Filters header fields in both directions (RFC 9110 §7.6.1): tables of names, and pure functions over them.

Removed from a request, in any spelling: hop-by-hop fields, framing, and fields that are for the gateway. Removed from a
response: hop-by-hop fields, framing, fields that apply to a whole site, and by default cookies. Links are rewritten if
the caller of `response_fields` asks for it. All other fields pass unchanged.
"""

import re
from collections.abc import Callable
from typing import Final

from gateway.errors import InvalidRequest, Issue

# ── Field names by kind: in lower case, with `-` where a sender wrote `_`.

Fields = list[tuple[str, str]]
"""Header lines in order, with duplicates. Bytes that are not UTF-8 become lone surrogates (``surrogateescape``)."""

FIELD_BYTES: Final = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
"""The bytes allowed in a header line (RFC 9110 §5.5).
`bytes.translate` deletes them; line ends and bad bytes remain."""

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",  # not standard, but sent by old clients (RFC 9110 §7.6.1)
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

FRAMING: Final = frozenset({"host", "content-length", "transfer-encoding", "expect"})
"""Written by the sender of each message, never copied: two different body lengths make request smuggling possible."""

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

FOR_GATEWAY: Final = OPTIONS | {
    "forwarded",
    "x-real-ip",
    "baggage",  # W3C: services pass data about their users in it, which providers need not know
}
FOR_GATEWAY_PREFIXES: Final = ("nango-", "gateway-", "x-forwarded-")

PROXY_PREFIX: Final = "nango-proxy-"
"""``Nango-Proxy-X: v`` is sent to the provider as ``X: v``."""

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
"""Fields in which a provider describes its own site; a browser would apply them to the gateway's site."""

FRONT_SERVER_PREFIXES: Final = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-", "x-reproxy-")
"""Commands to the web server in front of the gateway, such as nginx's ``X-Accel-Redirect``; always dropped from a
provider's response."""

RANGES: Final = ("Range", "If-Range")
"""Fields that request a part of the body. They are dropped if the gateway must read the whole body, since a part is no
valid JSON."""

SNIFFING: Final = "x-content-type-options"
"""Replaced by the gateway's own on every response of a provider (`passed_head.NOT_RENDERED`)."""

REFERENCES: Final = frozenset({"link", "location", "content-location", "refresh"})


def normalized_name(name: str) -> str:
    """Return the name as the tables spell it. CGI servers read ``X_Y`` as ``X-Y``, so the gateway does too."""
    return name.lower().replace("_", "-")


def is_for_gateway(name: str) -> bool:
    """Return whether a field (spelled as by `normalized_name`) is for the gateway or describes hops before it."""
    return name in FOR_GATEWAY or name.startswith(FOR_GATEWAY_PREFIXES)


def names_in_connection(fields: Fields) -> frozenset[str]:
    """Return the names that ``Connection`` makes hop-by-hop (RFC 9110 §7.6.1), spelled as by `normalized_name`."""
    lists = [value for name, value in fields if normalized_name(name) == "connection"]
    if not lists:
        return frozenset()
    return frozenset(normalized_name(token.strip()) for value in lists for token in value.split(","))


def from_wire(raw: tuple[tuple[bytes, bytes], ...]) -> Fields:
    """Return header lines as text that encodes back to the same bytes."""
    return [(name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")) for name, value in raw]


# ── The media type of a Content-Type field (RFC 9110 §8.3), in linear time.


def media_type(field: str) -> str:
    """Return the media type in lower case, without its parameters; empty if there is none."""
    return field.partition(";")[0].strip().lower()


# ── Which fields pass.

_FORBIDDEN_IN_FIELD: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


SERVICE_WORKER: Final = "service-worker"
OWN_COOKIES: Final = ("gw-", "__host-gw-")  # cookies of the gateway's own pages; a provider must not set them
_MIN_KEY_CHARS: Final = 16  # minimum length of a secret key in gateway.yaml
_VALID_FOR_CODED_BYTES: Final = frozenset(
    {"content-encoding", "accept-ranges", "content-digest", "content-md5", "digest", "repr-digest"}
)
_PASSES, _DROPPED, _COOKIE, _REFERENCE, _CONNECTION = range(1, 6)
_COMMON_OPTIONS: Final = frozenset({"keep-alive", "close", ""})
_MAX_KINDS: Final = 1024
_kind_by_name: Final[dict[str, int]] = {}


class MalformedResponse(Exception):
    """A header field of the provider's response holds a forbidden character; the message names the field."""


def request_fields(received: Fields, token: str = "") -> Fields:
    """Return the fields to send to the provider, in order;
    ``Nango-Proxy-X`` becomes ``X`` and replaces the caller's ``X``.

    A field that holds the caller's secret key is dropped whatever its name: a client that also sends the key under
    another name would give it to the provider. A field that holds `token`, the capability in the called URL, is dropped
    too.

    Raises InvalidRequest ``invalid_headers`` naming every field whose value cannot be forwarded.
    """
    hop_by_hop = HOP_BY_HOP | names_in_connection(received)
    key = _key_of_caller(received)
    passing: Fields = []
    passed_through: set[str] = set()
    for name, value in received:
        normalized = normalized_name(name)
        if normalized == SERVICE_WORKER:
            raise _service_worker_error(name)
        if normalized in hop_by_hop or normalized in FRAMING or (key and key in value):
            continue
        if token and token in value:
            continue
        if name.lower().startswith(PROXY_PREFIX):
            sent_name = name[len(PROXY_PREFIX) :]
            normalized = normalized_name(sent_name)
            if (
                not is_token(sent_name)
                or normalized in hop_by_hop
                or normalized in FRAMING
                or is_for_gateway(normalized)
            ):
                continue
            if normalized not in passed_through:
                passed_through.add(normalized)
                passing = [field for field in passing if normalized_name(field[0]) != normalized]
            passing.append((sent_name, value))
        elif normalized != "authorization" and normalized not in passed_through and not is_for_gateway(normalized):
            passing.append((name, value))
    _refuse_unsendable(passing)
    return passing


def is_token(name: str) -> bool:
    """Return whether a header field can have this name (RFC 9110 §5.6.2)."""
    return _TOKEN.fullmatch(name) is not None


def _service_worker_error(name: str) -> InvalidRequest:
    """Return the error for ``Service-Worker``: a browser is loading a worker script,
    which could control the gateway's pages."""
    message = "A service worker cannot be loaded through the gateway. Load its script from your own site."
    return InvalidRequest("invalid_headers", message, errors=[Issue("custom", message, (name.lower(),))])


def _key_of_caller(received: Fields) -> str:
    """Return the key in Authorization; empty if it is too short to be a key."""
    for name, value in received:
        if len(name) == 13 and name.lower() == "authorization":
            key = value.rpartition(" ")[2]
            return key if len(key) >= _MIN_KEY_CHARS else ""
    return ""


def _refuse_unsendable(fields: Fields) -> None:
    issues = [
        Issue(
            "invalid_format", f"{name!r} must be UTF-8 without control characters; percent-encode it.", (name.lower(),)
        )
        for name, value in fields
        if _FORBIDDEN_IN_FIELD.search(value) or _FORBIDDEN_IN_FIELD.search(name)
    ]
    if issues:
        names = ", ".join(sorted({issue.path[0] for issue in issues}))
        raise InvalidRequest(
            "invalid_headers",
            f"These headers cannot be forwarded: {names}. They must be UTF-8 without control characters.",
            errors=issues,
        )


def response_fields(
    received: Fields, *, set_cookie: bool = False, rewrite: Callable[[str, str], str] | None = None
) -> Fields:
    """Return the fields to send back to the caller, in order.

    `set_cookie`: the integration passes the provider's cookies on. `rewrite` gets (lower-case name, value) of each
    field that holds a URL and returns the value to send. Raises MalformedResponse.
    """
    values = " ".join([value for _, value in received])
    if not values.isprintable() and _CONTROL.search(values):
        raise _malformed_error(next(name for name, value in received if _CONTROL.search(value)))
    passing: Fields = []
    hop_by_hop: frozenset[str] = frozenset()
    for field in received:
        kind = _kind_by_name.get(field[0])
        if kind == _PASSES:
            passing.append(field)
            continue
        if kind is None:
            kind = _kind(field[0])
        if kind == _PASSES:
            passing.append(field)
        elif kind == _REFERENCE:
            name, value = field
            passing.append((name, rewrite(normalized_name(name), value)) if rewrite else field)
        elif kind == _COOKIE:
            # Browsers send the cookie `=gw-x=y`, which has no name, back as `gw-x=y`.
            if set_cookie and not field[1].lstrip("= \t").lower().startswith(OWN_COOKIES):
                passing.append(field)
        elif kind == _CONNECTION and field[1].lower() not in _COMMON_OPTIONS:
            hop_by_hop |= {normalized_name(token.strip()) for token in field[1].split(",")}
    if hop_by_hop:
        return [field for field in passing if normalized_name(field[0]) not in hop_by_hop]
    return passing


def _kind(name: str) -> int:
    """Return the kind of a response's field, by its name; caches at most `_MAX_KINDS` names.
    Raises MalformedResponse."""
    if not is_token(name):
        raise _malformed_error(name)
    normalized = normalized_name(name)
    if normalized == "connection":
        kind = _CONNECTION
    elif normalized in HOP_BY_HOP or normalized in FRAMING or _is_site_wide(normalized):
        kind = _DROPPED
    elif normalized in ("set-cookie", "set-cookie2"):
        kind = _COOKIE
    else:
        kind = _REFERENCE if normalized in REFERENCES else _PASSES
    if len(_kind_by_name) < _MAX_KINDS and len(name) <= 64:
        _kind_by_name[name] = kind
    return kind


def depends_on_value(name: str) -> bool:
    """Return whether the handling of a response's field depends on its value, not on its name alone.
    Raises MalformedResponse."""
    return (_kind_by_name.get(name) or _kind(name)) in (_COOKIE, _REFERENCE, _CONNECTION)


def _malformed_error(name: str) -> MalformedResponse:
    return MalformedResponse(f"its header {name!r} holds control characters")


def decoded_fields(fields: Fields) -> Fields:
    """Return the fields of a response after decoding:
    without digests of the coded bytes, with a weak ETag and ``Vary``."""
    passing: Fields = []
    for name, value in fields:
        normalized = name.lower()
        if normalized in _VALID_FOR_CODED_BYTES:
            continue
        weak = normalized == "etag" and not value.startswith("W/")
        passing.append((name, f"W/{value}" if weak else value))
    passing.append(("Vary", "Accept-Encoding"))
    return passing


def _is_site_wide(normalized: str) -> bool:
    foreign_prefixes = ("access-control-", "gateway-", *FRONT_SERVER_PREFIXES)
    return normalized in SITE_WIDE or normalized == SNIFFING or normalized.startswith(foreign_prefixes)
