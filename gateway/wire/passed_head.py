"""The head of an answer that is passed on to the caller: its framing, which is ours, and its bytes."""

import re
from typing import Final, NamedTuple

from gateway.wire.fields import TEXT, Fields

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CLOSE: Final = ("Connection", "close")
_CHUNKED: Final = ("Transfer-Encoding", "chunked")


class Framing(NamedTuple):
    """`fields` to be written, `chunked` coding of the body, whether there is a body at all, and another request after it."""

    fields: Fields
    chunked: bool
    bodiless: bool
    keep_alive: bool


def printable(reason: str) -> str:
    """A reason phrase with nothing in it that could end its line."""
    return _CONTROL.sub("", reason)


def framing(method: str, version: tuple[int, int], status: int, length: int | None, *, keep_alive: bool) -> Framing:
    """How the answer ends (RFC 9112 §6): no body, a length, chunks, or, for HTTP/1.0, the connection's end.

    `length` is the body's, None where it is not known.
    """
    fields: Fields = []
    chunked = False
    bodiless = method == "HEAD" or status in (204, 304)
    if bodiless:
        # A 204 has no length, while HEAD and 304 tell that of the answer they stand for (RFC 9110 §8.6).
        if length is not None and status != 204:
            fields.append(("Content-Length", str(length)))
    elif length is not None:
        fields.append(("Content-Length", str(length)))
    elif version >= (1, 1):
        chunked = True
        fields.append(_CHUNKED)
    else:
        keep_alive = False
    if not keep_alive:
        fields.append(_CLOSE)
    elif version < (1, 1):
        fields.append(("Connection", "keep-alive"))
    return Framing(fields, chunked, bodiless, keep_alive)


def head_bytes(version: tuple[int, int], status: int, reason: str, fields: Fields) -> bytes:
    """The head and the empty line after it; lone surrogates become the bytes they stand for.

    Raises ValueError if a control character would make another message of it.
    """
    lines = [f"HTTP/{version[0]}.{version[1]} {status} {reason}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}\r\n".encode("utf-8", "surrogateescape")
    if head.translate(None, TEXT) != b"\r\n" * (len(lines) + 1):
        raise ValueError("a control character in the head of an answer")
    return head
