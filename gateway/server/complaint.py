"""What the parser complains of, in our words. Its own text quotes the request, so it is never passed on."""

import re
from typing import Final

from aiohttp.http_exceptions import InvalidURLError, LineTooLong

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, NotImplementedHere, VersionNotSupported
from gateway.wire.head import UNFIT

TOO_MANY: Final = "Too many headers"  # the parser has no class of its own for this one
METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token (RFC 9110 §5.6.2)
VERSION: Final = re.compile(r"HTTP/[0-9]\.[0-9]")
SPOKEN: Final = frozenset({"HTTP/1.0", "HTTP/1.1"})


def complaint(fault: BaseException, piece: bytes) -> GatewayError:
    """The refusal that fits best. `piece`: the bytes the parser was given last, which often hold the request line."""
    if isinstance(fault, LineTooLong) or TOO_MANY in str(fault):
        return too_large()
    method, target, version = _request_line(piece)
    if isinstance(fault, InvalidURLError) or (VERSION.fullmatch(version) and UNFIT.search(target)):
        return InvalidRequest(
            "bad_path",
            "The target of a request begins with '/', and what is not visible ASCII in it is percent-encoded.",
            close=True,
        )
    if VERSION.fullmatch(version) and version not in SPOKEN:
        return VersionNotSupported("bad_framing", "This gateway speaks HTTP/1.1 and HTTP/1.0.", close=True)
    if "method" in str(fault).lower() and METHOD.fullmatch(method) and version in SPOKEN:
        return NotImplementedHere("not_supported", "This method is not known here.", close=True)
    return malformed()


def malformed() -> GatewayError:
    return InvalidRequest("bad_framing", "This is not a well-formed HTTP/1.1 request.", close=True)


def too_large() -> GatewayError:
    return HeadersTooLarge(
        "headers_too_large",
        "The request line and the headers are larger than this gateway takes: 32 KiB in all, 16 KiB each, 256 lines.",
        close=True,
    )


def _request_line(piece: bytes) -> tuple[str, str, str]:
    """Method, target and version; the target is whatever stands between the other two, spaces included."""
    line = piece.lstrip(b"\r\n").partition(b"\n")[0].removesuffix(b"\r").decode("latin-1")
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    return method, target, version
