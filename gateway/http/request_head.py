"""The head of a request: what it must be before anybody acts on it, and as bytes.

The parser lets more pass than that. Our own server asks before it hands a request over, `gateway.middleware.strict` under a
foreign one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, hdrs
from multidict import CIMultiDictProxy, istr

from gateway.errors import ExpectationFailed, InvalidRequest, MethodNotAllowed, NotImplementedHere, VersionNotSupported
from gateway.http.fields import TEXT
from gateway.http.url import origin_form

# Two of these, and a reader may believe either.
ONCE: Final = (
    hdrs.HOST,
    hdrs.AUTHORIZATION,
    istr("Provider-Config-Key"),
    istr("Connection-Id"),
    hdrs.CONTENT_LENGTH,
)
# CONNECT asks for a tunnel; TRACE would show the caller the credential that we put in.
NEVER: Final = frozenset({hdrs.METH_CONNECT, hdrs.METH_TRACE})
ALLOW: Final[Mapping[str, str]] = {hdrs.ALLOW: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}

UNFIT: Final = re.compile(r"[^\x21-\x22\x24-\x5b\x5d-\x7e]")  # all but visible ASCII, and of that no `#` and no `\`
HOST: Final = re.compile(
    r"(?:[A-Za-z0-9._~%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
)  # RFC 3986 §3.2.2, less sub-delims


def check_head(method: str, target: str, version: HttpVersion, headers: "CIMultiDictProxy[str]") -> str:
    """The target in origin-form (or ``*``). Every refusal closes the connection.

    Raises InvalidRequest, MethodNotAllowed, ExpectationFailed, NotImplementedHere or VersionNotSupported.
    """
    if version not in (HttpVersion11, HttpVersion10):
        raise VersionNotSupported("bad_framing", "This gateway speaks HTTP/1.1 and HTTP/1.0.", close=True)
    for name in ONCE:
        if name in headers and len(headers.getall(name)) > 1:
            raise InvalidRequest("bad_framing", f"{name} was sent more than once. Send it once.", close=True)
    if method in NEVER:
        raise MethodNotAllowed("method_not_allowed", f"{method} is not possible here.", headers=ALLOW, close=True)
    if hdrs.TRANSFER_ENCODING in headers:
        _check_coding(version, headers)
    if hdrs.EXPECT in headers and any(value.strip().lower() != "100-continue" for value in headers.getall(hdrs.EXPECT)):
        raise ExpectationFailed("invalid_headers", "The only expectation here is '100-continue'.", close=True)
    if UNFIT.search(target):
        raise InvalidRequest(
            "bad_path", "The target holds a byte that must be percent-encoded, such as '\\' or '#'.", close=True
        )
    host = headers.get(hdrs.HOST, "")
    if not HOST.fullmatch(host):
        raise InvalidRequest("bad_framing", "Host is not a host name with an optional port.", close=True)
    return origin_form(target, host)


def _check_coding(version: HttpVersion, headers: "CIMultiDictProxy[str]") -> None:
    """Either ``Transfer-Encoding: chunked`` or Content-Length frames a body, never both, nothing else (RFC 9112 §6.1)."""
    if hdrs.CONTENT_LENGTH in headers:
        raise InvalidRequest("bad_framing", "Content-Length and Transfer-Encoding exclude each other.", close=True)
    if version == HttpVersion10:
        raise InvalidRequest("bad_framing", "HTTP/1.0 has no Transfer-Encoding. Send Content-Length.", close=True)
    codings = headers.getall(hdrs.TRANSFER_ENCODING)
    if len(codings) > 1 or codings[0].lower() != "chunked":
        raise NotImplementedHere("not_supported", "The only transfer coding here is 'chunked'.", close=True)


# ── The head of a request as bytes: what it is given, and a framing of ours.


def request_head(method: str, target: str, host: str, fields: Iterable[tuple[str, str]], framing: str = "") -> bytes:
    """`framing` holds whole lines. Lone surrogates become the bytes they stand for.

    Raises ValueError if a control character, or a space in the target, would make another message of it.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}{framing}\r\n".encode("utf-8", "surrogateescape")
    breaks = len(lines) + 2 + framing.count("\n")
    if head.translate(None, TEXT) != b"\r\n" * breaks or " " in target or " " in method:
        raise ValueError("a control character in the head of a request")
    return head
