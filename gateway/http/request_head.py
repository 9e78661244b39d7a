"""Checks the head of a request before the gateway handles the request, and writes heads as bytes.

The checks are needed because aiohttp's parser accepts more than the gateway. The gateway's own server checks each
request before handling. If the gateway runs under another server, the middleware `strict` in
`gateway.middleware.request_message` checks each request. The fast path has its own reader (`server/request_lines.py`)
and calls only `check_fields`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, hdrs
from multidict import CIMultiDictProxy, istr

from gateway.errors import ExpectationFailed, InvalidRequest, MethodNotAllowed, NotImplementedHere, VersionNotSupported
from gateway.http.headers import BYTES_OF_FIELDS, ascii_lower
from gateway.http.url import origin_form

if TYPE_CHECKING:  # the parent process uses this module without the web framework
    from aiohttp import web

# If one of these fields is sent twice, two parsers can use different values.
SINGLE_FIELDS: Final = (
    hdrs.HOST,
    hdrs.AUTHORIZATION,
    istr("Provider-Config-Key"),
    istr("Connection-Id"),
    hdrs.CONTENT_LENGTH,
)
CHECKED: Final[Mapping[str, istr]] = {
    name.lower(): name for name in (*SINGLE_FIELDS, hdrs.TRANSFER_ENCODING, hdrs.EXPECT)
}
"""The fields that `check_fields` checks, by name in lower case."""

# CONNECT opens a tunnel. The response to TRACE would show the caller the credential that the gateway adds.
FORBIDDEN_METHODS: Final = frozenset({hdrs.METH_CONNECT, hdrs.METH_TRACE})
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ALLOW: Final[Mapping[str, str]] = {hdrs.ALLOW: ", ".join(METHODS)}
LENGTH_EXPECTED: Final = frozenset({"POST", "PUT", "PATCH"})
"""The methods with which a request declares even an empty body (RFC 9110 §8.6)."""

TARGET_CHARS: Final = r"!-\"$-\[\]-~"
"""The characters of a target, as a regular expression class: visible ASCII without `#` and `\\`."""
FORBIDDEN_TARGET_CHAR: Final = re.compile(f"[^{TARGET_CHARS}]")
HOST: Final = re.compile(
    r"(?:[A-Za-z0-9._~%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
)  # RFC 3986 §3.2.2, without sub-delims


def check_head(method: str, target: str, version: HttpVersion, headers: "CIMultiDictProxy[str]") -> str:
    """Check a request's head, and return its target in origin-form (or ``*``). Every error closes the connection.

    Raises InvalidRequest, MethodNotAllowed, ExpectationFailed, NotImplementedHere or VersionNotSupported.
    """
    if version not in (HttpVersion11, HttpVersion10):
        raise unknown_version_error()
    if method in FORBIDDEN_METHODS:
        raise MethodNotAllowed(
            "method_not_allowed", f"The gateway does not support {method}.", headers=ALLOW, close=True
        )
    values = {lower_name: headers.getall(name) for lower_name, name in CHECKED.items() if name in headers}
    check_fields(values, version)
    if FORBIDDEN_TARGET_CHAR.search(target):
        raise InvalidRequest(
            "bad_path", "The target contains a byte that must be percent-encoded, such as '\\' or '#'.", close=True
        )
    return origin_form(target, headers.get(hdrs.HOST, ""))


def check_fields(values: Mapping[str, Sequence[str]], version: HttpVersion = HttpVersion11) -> None:
    """Check the fields of `CHECKED` in a request. `values`: each sent field's values in order, by name in lower case.

    Raises InvalidRequest, ExpectationFailed or NotImplementedHere.
    """
    for name, field_values in values.items():
        if len(field_values) > 1 and CHECKED[name] in SINGLE_FIELDS:
            raise repeated_field_error(CHECKED[name])
    if "transfer-encoding" in values:
        _check_coding(values, version)
    if "expect" in values and any(value.strip().lower() != "100-continue" for value in values["expect"]):
        raise ExpectationFailed("invalid_headers", "The gateway supports only 'Expect: 100-continue'.", close=True)
    if "host" in values and not HOST.fullmatch(values["host"][0]):
        raise InvalidRequest("bad_framing", "Host is not a host name with an optional port.", close=True)


def _check_coding(values: Mapping[str, Sequence[str]], version: HttpVersion) -> None:
    """Raise an error for any Transfer-Encoding except ``chunked``.

    Also raise an error if the request has Content-Length too, or is HTTP/1.0 (RFC 9112 §6.1).
    """
    if "content-length" in values:
        raise two_framings_error()
    if version == HttpVersion10:
        raise InvalidRequest("bad_framing", "HTTP/1.0 has no Transfer-Encoding. Send Content-Length.", close=True)
    codings = values["transfer-encoding"]
    if len(codings) > 1 or ascii_lower(codings[0]) != "chunked":
        raise unknown_coding_error()


def unknown_version_error() -> VersionNotSupported:
    return VersionNotSupported("bad_framing", "This gateway supports HTTP/1.1 and HTTP/1.0.", close=True)


def repeated_field_error(name: str) -> InvalidRequest:
    return InvalidRequest("bad_framing", f"{name} was sent more than once. Send it once.", close=True)


def two_framings_error() -> InvalidRequest:
    message = "Content-Length and Transfer-Encoding exclude each other. Send one of them."
    return InvalidRequest("bad_framing", message, close=True)


def unknown_coding_error() -> NotImplementedHere:
    return NotImplementedHere("not_supported", "The gateway supports only the transfer coding 'chunked'.", close=True)


# ── Writes the head of a request to a provider as bytes.


def request_head(method: str, target: str, host: str, fields: Iterable[tuple[str, str]], framing: str = "") -> bytes:
    """Return the head as bytes.

    `framing`: the framing fields as complete lines. Each lone surrogate becomes the byte from which it was decoded.

    Raises ValueError if a control character, or a space in the target, would change the message.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}{framing}\r\n".encode("utf-8", "surrogateescape")
    line_count = len(lines) + 2 + framing.count("\n")
    if head.translate(None, BYTES_OF_FIELDS) != b"\r\n" * line_count or " " in target or " " in method:
        raise ValueError("a control character in the head of a request")
    return head


# ── Decides whether the caller requests an upgrade to WebSocket (RFC 9110 §7.8, RFC 6455 §4.1).

WEBSOCKET: Final = "websocket"


def requested_upgrade(request: "web.Request") -> str | None:
    """Return ``websocket`` if the caller requests an upgrade to WebSocket and to no other protocol; otherwise None.

    The gateway never accepts other protocols, such as h2c.
    """
    upgrade_lines = request.headers.getall(hdrs.UPGRADE, None)
    if upgrade_lines is None:
        return None
    tokens = {
        token.strip().lower() for line in request.headers.getall(hdrs.CONNECTION, ()) for token in line.split(",")
    }
    can_upgrade = request.method == hdrs.METH_GET and request.version >= HttpVersion11 and not request.body_exists
    return (
        WEBSOCKET
        if can_upgrade
        and "upgrade" in tokens
        and [ascii_lower(line.strip(" \t")) for line in upgrade_lines] == [WEBSOCKET]
        else None
    )
