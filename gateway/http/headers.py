"""Decides which header fields pass between the caller and the provider (RFC 9110 §7.6.1).

A request loses hop-by-hop fields, framing fields and fields for the gateway, in any spelling. A response loses
hop-by-hop fields, framing fields, fields that apply to a whole site and, by default, cookies. `response_fields` can
also rewrite links. All other fields pass unchanged.
"""

import re
from collections.abc import Callable
from itertools import chain
from typing import Final

from gateway.errors import InvalidRequest, Issue

# ── Sets of field names. The names are in lower case, with `-` in place of `_`.

Fields = list[tuple[str, str]]
"""Header fields in order, with duplicates, as pairs of name and value. Bytes that are not UTF-8 become lone surrogates
(``surrogateescape``)."""

BYTES_OF_FIELDS: Final = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
"""The bytes that are allowed in a header line (RFC 9110 §5.5). To find forbidden bytes, `bytes.translate` deletes the
allowed ones; line ends and forbidden bytes remain."""

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
"""Each sender writes these fields itself and never copies them: two different body lengths make request smuggling
possible."""

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
    "baggage",  # W3C: contains data about users that providers need not know
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
"""Fields in which a provider describes its own site. A browser would apply such a field to the gateway's site."""

FRONT_SERVER_PREFIXES: Final = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-", "x-reproxy-")
"""Commands to the web server in front of the gateway, such as nginx's ``X-Accel-Redirect``. The gateway always removes
these commands from a provider's response."""

RANGES: Final = ("Range", "If-Range")
"""Fields that request a part of the body. The gateway removes these fields if it must read the whole body, because a
part of a JSON text is not valid JSON."""

SNIFFING: Final = "x-content-type-options"
"""The gateway replaces this field in every response of a provider (`passed_head.NOT_RENDERED`)."""

REFERENCES: Final = frozenset({"link", "location", "content-location", "refresh"})


def normalized_name(name: str) -> str:
    """Return the name in lower case, with ``-`` in place of ``_``.

    The gateway treats ``X_Y`` as ``X-Y``, because CGI servers do not distinguish the two names.
    """
    return name.lower().replace("_", "-")


def is_for_gateway(name: str) -> bool:
    """Return whether a field is for the gateway, or describes the hops before the gateway.

    `name`: a result of `normalized_name`.
    """
    return name in FOR_GATEWAY or name.startswith(FOR_GATEWAY_PREFIXES)


def ascii_lower(value: str) -> str:
    """Return `value` in lower case if it is ASCII, otherwise unchanged.

    `str.lower` makes a ``k`` of the Kelvin sign (U+212A), so ``chunked`` could have a spelling that no other server
    reads as ``chunked``.
    """
    return value.lower() if value.isascii() else value


def names_in_connection(value: str) -> frozenset[str]:
    """Return the names of fields in the value of ``Connection``, as `normalized_name` returns them.

    These fields are hop-by-hop fields too (RFC 9110 §7.6.1). The result is empty for the usual values ``keep-alive`` and
    ``close``, which name no field.
    """
    if value.lower() in _COMMON_OPTIONS:
        return frozenset()
    return frozenset([normalized_name(token.strip()) for token in value.split(",")])


def from_wire(raw_fields: tuple[tuple[bytes, bytes], ...]) -> Fields:
    """Return header fields as text that can be encoded to the same bytes again."""
    return [
        (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
        for name, value in raw_fields
    ]


# ── Reads the media type of a Content-Type field (RFC 9110 §8.3), in linear time.


def media_type(field: str) -> str:
    """Return the media type in lower case, without its parameters; empty if `field` has no media type."""
    return field.partition(";")[0].strip().lower()


# ── Decides which fields pass.

CONTROL_CHAR: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""A control character, which ends or splits a field (RFC 9110 §5.5). Only a tab is harmless."""
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110 §5.6.2): the name of a field, for example."""


SERVICE_WORKER: Final = "service-worker"
_ONE_HOP_FIELDS: Final = HOP_BY_HOP | FRAMING
OWN_COOKIES: Final = ("gw-", "__host-gw-")  # cookies of the gateway's own pages; a provider must not set them
_MIN_KEY_CHARS: Final = 16  # minimum length of a secret key in gateway.yaml
_VALID_FOR_CODED_BYTES: Final = frozenset(
    {"content-encoding", "accept-ranges", "content-digest", "content-md5", "digest", "repr-digest"}
)
_PASSES, _DROPPED, _COOKIE, _REFERENCE, _CONNECTION, _PREFIXED, _SERVICE_WORKER = range(1, 8)
_COMMON_OPTIONS: Final = frozenset({"keep-alive", "close", ""})
_MAX_KINDS: Final = 1024
_MAX_CACHED_CHARS: Final = 64  # longer names are rare, and are not cached
_kind_by_name: Final[dict[str, int]] = {}
_request_kind_by_name: Final[dict[str, int]] = {}


class MalformedResponse(Exception):
    """A header field of the provider's response contains a forbidden character. The message names the field."""


def request_fields(received_fields: Fields, token: str = "") -> Fields:
    """Return the fields to send to the provider, in order.

    ``Nango-Proxy-X`` becomes ``X`` and replaces the caller's ``X``. A field of any name is removed if its value contains
    the caller's secret key. Otherwise the provider would learn the key from a client that also sends the key in another
    field. A field that contains `token`, the capability in the called URL, is removed too. An empty `token` means that
    the URL has no capability.

    Raises InvalidRequest ``invalid_headers``, with the names of all fields that cannot be forwarded.
    """
    key = _key_of_caller(received_fields)
    passing_fields: Fields = []
    hop_by_hop: frozenset[str] = frozenset()
    has_prefixed = False
    for field in received_fields:
        name, value = field
        kind = _request_kind_by_name.get(name) or _request_kind(name)
        if kind == _DROPPED:
            continue
        if kind == _CONNECTION:
            hop_by_hop |= names_in_connection(value)
        elif kind == _SERVICE_WORKER:
            raise _service_worker_error(name)
        elif not (key and key in value) and not (token and token in value):
            has_prefixed = has_prefixed or kind == _PREFIXED
            passing_fields.append(field)
    if hop_by_hop:
        passing_fields = [field for field in passing_fields if normalized_name(field[0]) not in hop_by_hop]
    if has_prefixed:
        passing_fields = _without_prefix(passing_fields, hop_by_hop)
    _refuse_unsendable(passing_fields)
    return passing_fields


def _request_kind(name: str) -> int:
    """Return how a request's field with this name is handled. Caches the results for at most `_MAX_KINDS` names."""
    lower_name = normalized_name(name)
    if lower_name == SERVICE_WORKER:
        kind = _SERVICE_WORKER
    elif lower_name == "connection":
        kind = _CONNECTION
    elif lower_name in _ONE_HOP_FIELDS or lower_name == "authorization":
        kind = _DROPPED
    elif name.lower().startswith(PROXY_PREFIX):
        kind = _PREFIXED
    else:
        kind = _DROPPED if is_for_gateway(lower_name) else _PASSES
    if len(_request_kind_by_name) < _MAX_KINDS and len(name) <= _MAX_CACHED_CHARS:
        _request_kind_by_name[name] = kind
    return kind


def _without_prefix(fields: Fields, hop_by_hop: frozenset[str]) -> Fields:
    """Return the fields with ``X`` in place of ``Nango-Proxy-X``, and without the other fields with such a name.

    `hop_by_hop`: the names in ``Connection``. A prefixed field is removed if ``X`` is not a field to pass on.
    """
    sent_names: dict[str, str] = {}
    for name, _ in fields:
        if name.lower().startswith(PROXY_PREFIX):
            sent_name = name[len(PROXY_PREFIX) :]
            normalized_sent_name = normalized_name(sent_name)
            if is_token(sent_name) and not (
                normalized_sent_name in _ONE_HOP_FIELDS
                or normalized_sent_name in hop_by_hop
                or is_for_gateway(normalized_sent_name)
            ):
                sent_names[name] = sent_name
    replaced_names = {normalized_name(sent_name) for sent_name in sent_names.values()}
    passing_fields: Fields = []
    for name, value in fields:
        if not name.lower().startswith(PROXY_PREFIX):
            if normalized_name(name) not in replaced_names:
                passing_fields.append((name, value))
        elif name in sent_names:
            passing_fields.append((sent_names[name], value))
    return passing_fields


def is_token(name: str) -> bool:
    """Return whether a header field can have this name (RFC 9110 §5.6.2)."""
    return TOKEN.fullmatch(name) is not None


def _service_worker_error(name: str) -> InvalidRequest:
    """Return the error for the header ``Service-Worker``.

    A browser sends this header to load a worker script, and the worker could then control the gateway's pages.
    """
    message = "A service worker cannot be loaded through the gateway. Load its script from your own site."
    return InvalidRequest("invalid_headers", message, errors=[Issue("custom", message, (name.lower(),))])


def _key_of_caller(received_fields: Fields) -> str:
    """Return the key in Authorization; empty if there is none, or if it is too short for a key.

    White space around the key is removed, because `who_calls.key_in` also accepts a key with white space around it.
    """
    for name, value in received_fields:
        if len(name) == 13 and name.lower() == "authorization":
            key = value.strip().rpartition(" ")[2].strip()
            return key if len(key) >= _MIN_KEY_CHARS else ""
    return ""


def _refuse_unsendable(fields: Fields) -> None:
    if "".join(chain.from_iterable(fields)).isprintable():  # true for nearly every request
        return
    issues = [
        Issue("invalid_format", f"{name!r} must not have control characters; percent-encode it.", (name.lower(),))
        for name, value in fields
        if CONTROL_CHAR.search(value) or CONTROL_CHAR.search(name)
    ]
    if issues:
        names = ", ".join(sorted({issue.path[0] for issue in issues}))
        raise InvalidRequest(
            "invalid_headers",
            f"These headers cannot be forwarded: {names}. They must not have control characters.",
            errors=issues,
        )


def response_fields(
    received_fields: Fields, *, set_cookie: bool = False, rewrite: Callable[[str, str], str] | None = None
) -> Fields:
    """Return the fields to send back to the caller, in order.

    `set_cookie`: whether the provider's cookies pass. `rewrite`: called with the lower-case name and the value of each
    field that contains a URL; returns the value to send. If `rewrite` is None, all values stay unchanged. Raises
    MalformedResponse.
    """
    values = " ".join([value for _, value in received_fields])
    if not values.isprintable() and CONTROL_CHAR.search(values):
        raise _malformed_error(next(name for name, value in received_fields if CONTROL_CHAR.search(value)))
    passing_fields: Fields = []
    hop_by_hop: frozenset[str] = frozenset()
    for field in received_fields:
        kind = _kind_by_name.get(field[0])
        if kind == _PASSES:
            passing_fields.append(field)
            continue
        if kind is None:
            kind = _kind(field[0])
        if kind == _PASSES:
            passing_fields.append(field)
        elif kind == _REFERENCE:
            name, value = field
            passing_fields.append((name, rewrite(normalized_name(name), value)) if rewrite else field)
        elif kind == _COOKIE:
            # Without the `lstrip`, a provider could set a cookie of the gateway: browsers return `=gw-x=y` as `gw-x=y`.
            if set_cookie and not field[1].lstrip("= \t").lower().startswith(OWN_COOKIES):
                passing_fields.append(field)
        elif kind == _CONNECTION:
            hop_by_hop |= names_in_connection(field[1])
    if hop_by_hop:
        return [field for field in passing_fields if normalized_name(field[0]) not in hop_by_hop]
    return passing_fields


def _kind(name: str) -> int:
    """Return how a response's field with this name is handled. Raises MalformedResponse.

    Caches the results for at most `_MAX_KINDS` names.
    """
    if not is_token(name):
        raise _malformed_error(name)
    lower_name = normalized_name(name)
    if lower_name == "connection":
        kind = _CONNECTION
    elif lower_name in _ONE_HOP_FIELDS or _must_not_reach_caller(lower_name):
        kind = _DROPPED
    elif lower_name in ("set-cookie", "set-cookie2"):
        kind = _COOKIE
    else:
        kind = _REFERENCE if lower_name in REFERENCES else _PASSES
    if len(_kind_by_name) < _MAX_KINDS and len(name) <= _MAX_CACHED_CHARS:
        _kind_by_name[name] = kind
    return kind


def depends_on_value(name: str) -> bool:
    """Return whether the handling of a response's field depends on its value too, not only on its name.

    Raises MalformedResponse.
    """
    return (_kind_by_name.get(name) or _kind(name)) in (_COOKIE, _REFERENCE, _CONNECTION)


def _malformed_error(name: str) -> MalformedResponse:
    return MalformedResponse(f"its header {name!r} contains control characters")


def decoded_fields(fields: Fields) -> Fields:
    """Return the fields of a response after its body was decoded.

    Removes the fields that describe the encoded bytes, makes an ETag weak, and adds ``Vary``.
    """
    passing_fields: Fields = []
    for name, value in fields:
        lower_name = name.lower()
        if lower_name in _VALID_FOR_CODED_BYTES:
            continue
        becomes_weak = lower_name == "etag" and not value.startswith("W/")
        passing_fields.append((name, f"W/{value}" if becomes_weak else value))
    passing_fields.append(("Vary", "Accept-Encoding"))
    return passing_fields


def _must_not_reach_caller(lower_name: str) -> bool:
    removed_prefixes = ("access-control-", "gateway-", *FRONT_SERVER_PREFIXES)
    return lower_name in SITE_WIDE or lower_name == SNIFFING or lower_name.startswith(removed_prefixes)
