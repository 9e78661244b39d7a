"""Decodes content codings piece by piece (RFC 9110 §8.4). Limits prevent a small response from filling the memory.

Each decoded piece has a maximum size. The decoder counts input and output bytes. A body with a ratio above `MAX_RATIO`,
which ordinary text never reaches, is refused as a decompression bomb.

The number of members without content is limited, because such members cost time but add no output. The number of
members inside another coding is limited too, because a few bytes can contain very many members.

Input that ends before the coding's end is an error: a truncated response must not look complete.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

PIECE_BYTES: Final = 256 * 1024
MAX_RATIO: Final = 100
GRACE_BYTES: Final = 1024 * 1024  # in bytes; with less output, the ratio is not checked
MAX_CODINGS: Final = 2
MAX_EMPTY_MEMBERS: Final = 1000  # maximum in succession; enough for a heartbeat every 15 s for four hours
# Maximum number of members inside another coding, unless the input has at least `MEMBER_BYTES` bytes for each member.
MAX_INNER_MEMBERS: Final = 1000
MEMBER_BYTES: Final = 16  # the shortest gzip member has more bytes
_FIRST_SLICE_BYTES: Final = 1024
_PADDING: Final = re.compile(rb"\0*")
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024  # the largest window that HTTP allows (RFC 9659 §3)
_ZSTD_SLICE_BYTES: Final = 256  # four bytes can decode to 128 KiB, so one slice gives at most 8 MiB


class CodingError(Exception):
    """The body does not match its Content-Encoding, ends too early, or exceeds the allowed compression ratio."""


class CodingDecoder(Protocol):
    """A decoder for one coding.

    `feed` yields pieces of at most `PIECE_BYTES` (zstd: 8 MiB). `finish` raises CodingError if the coding has not
    ended. `members`: the number of gzip members or zstd frames so far, without the first.
    """

    members: int

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


class Gzip:
    """``gzip``: accepts several members in a row (RFC 1952 §2.2) and NUL padding after the last member."""

    wbits = 16 + zlib.MAX_WBITS

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(self.wbits)
        self._has_input = False
        self.members = 0
        self._empty_members = 0  # number of members after the last output

    def feed(self, data: bytes) -> Iterator[bytes]:
        position, size = 0, len(data)
        while position < len(data):
            if self._inflate.eof:
                position = self._next_member(data, position)
                if position == len(data):
                    return
                # zlib copies the input after each member. Small slices keep these copies short if there are many
                # members.
                size = _FIRST_SLICE_BYTES
            self._has_input = True
            part = data[position : position + size]
            try:
                piece = self._inflate.decompress(part, PIECE_BYTES)
            except zlib.error as fault:
                raise CodingError("the body is not compressed as its Content-Encoding says") from fault
            unread = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            position += len(part) - len(unread)
            size *= 2
            if piece:
                self._empty_members = 0
                yield piece
        while not self._inflate.eof and (piece := self._inflate.decompress(b"", PIECE_BYTES)):
            yield piece

    def _next_member(self, data: bytes, offset: int) -> int:
        """Begin the next member, after the padding at `offset`.

        Return the position of the member, or the end of `data` if there is no further member.
        """
        member_start = _end_of_padding(data, offset)
        if member_start < len(data):
            self._inflate = zlib.decompressobj(self.wbits)
            self.members += 1
            self._empty_members = _count_empty_member(self._empty_members)
        return member_start

    def finish(self) -> None:
        if self._has_input and not self._inflate.eof:
            raise CodingError("the compressed body ends too early")


def _end_of_padding(data: bytes, position: int) -> int:
    padding = _PADDING.match(data, position)
    assert padding is not None
    return padding.end()


def _count_empty_member(count: int) -> int:
    """Return `count` plus one. Raises CodingError above `MAX_EMPTY_MEMBERS`."""
    if count >= MAX_EMPTY_MEMBERS:
        raise CodingError("the compressed body has too many members without content")
    return count + 1


class Deflate(Gzip):
    """``deflate``: the zlib format (RFC 9110 §8.4.1.2), or raw deflate, which some servers send.

    The first two bytes show which of the two formats the body has.
    """

    def __init__(self) -> None:
        super().__init__()
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._head is not None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, None
            zlib_format = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if zlib_format else -zlib.MAX_WBITS)
        yield from super().feed(data)

    def _next_member(self, data: bytes, offset: int) -> int:
        if _end_of_padding(data, offset) < len(data):
            raise CodingError("bytes follow the compressed body")
        return len(data)

    def finish(self) -> None:
        if self._head:
            raise CodingError("the compressed body ends too early")
        super().finish()


class Brotli:
    """``br`` (RFC 7932)."""

    def __init__(self) -> None:
        import brotli  # imported here, because few requests need a decoded response

        self._inflate = brotli.Decompressor()
        self._error = brotli.error
        self.members = 0
        self._has_input = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._has_input = self._has_input or bool(data)
        while True:
            if data and self._inflate.is_finished():
                raise CodingError("bytes follow the compressed body")
            try:
                piece = self._inflate.process(data, output_buffer_limit=PIECE_BYTES)
            except self._error as fault:
                raise CodingError("the body is not compressed as its Content-Encoding says") from fault
            data = b""
            if piece:
                yield piece
            if self._inflate.is_finished() or self._inflate.can_accept_more_data():
                return

    def finish(self) -> None:
        if self._has_input and not self._inflate.is_finished():
            raise CodingError("the compressed body ends too early")


class Zstd:
    """``zstd``: accepts several frames in a row (RFC 8878 §3.1)."""

    def __init__(self) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._inflate = self._library.decompressobj()
        self._has_input = False
        self.members = 0
        self._empty_members = 0  # number of frames after the last output

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_SLICE_BYTES):
            part = data[start : start + _ZSTD_SLICE_BYTES]
            while part:
                if self._inflate.eof:
                    self._inflate = self._library.decompressobj()
                    self.members += 1
                    self._empty_members = _count_empty_member(self._empty_members)
                self._has_input = True
                try:
                    piece = self._inflate.decompress(part)
                except self._error as fault:
                    raise CodingError("the body is not compressed as its Content-Encoding says") from fault
                part = self._inflate.unused_data if self._inflate.eof else b""
                if piece:
                    self._empty_members = 0
                    yield piece

    def finish(self) -> None:
        if self._has_input and not self._inflate.eof:
            raise CodingError("the compressed body ends too early")


CODINGS: Final[dict[str, Callable[[], CodingDecoder]]] = {
    "gzip": Gzip,
    "x-gzip": Gzip,
    "deflate": Deflate,
    "br": Brotli,
    "zstd": Zstd,
}


def codings_of(content_encoding: str) -> tuple[str, ...] | None:
    """Return the codings in the order in which the sender applied them, without ``identity``.

    Return None if there are too many codings, or the gateway cannot decode a coding.
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    applied_names = tuple(name for name in names if name not in ("", "identity"))
    if len(applied_names) > MAX_CODINGS or any(name not in CODINGS for name in applied_names):
        return None
    return applied_names


class Decoder:
    """Decodes all codings of one response body. Call `start`, then `feed` for each piece, then `finish`."""

    def __init__(self) -> None:
        self._codings: list[CodingDecoder] = []
        self._in_bytes = 0
        self._out_bytes: list[int] = []  # output of each coding, because the first can give much and the last little

    def start(self, content_encoding: str) -> bool:
        """Set the codings, and return whether the body will be decoded.

        Return False if the body has no coding or an unsupported coding. `content_encoding`: the value of the response's
        Content-Encoding.
        """
        coding_names = codings_of(content_encoding)
        self._codings = [CODINGS[name]() for name in reversed(coding_names or ())]
        self._out_bytes = [0] * len(self._codings)
        return bool(self._codings)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces of limited size. Raises CodingError.

        Read all pieces before the next `feed`.
        """
        self._in_bytes += len(data)
        yield from self._decode_from(0, data)

    def _decode_from(self, stage: int, data: bytes) -> Iterator[bytes]:
        if stage == len(self._codings):
            yield data
            return
        coding = self._codings[stage]
        for piece in coding.feed(data):
            self._out_bytes[stage] += len(piece)
            if self._out_bytes[stage] > max(GRACE_BYTES, MAX_RATIO * self._in_bytes):
                raise CodingError(f"the body grows more than {MAX_RATIO} times")
            if stage and coding.members > max(MAX_INNER_MEMBERS, self._in_bytes // MEMBER_BYTES):
                raise CodingError("the compressed body has too many members inside another coding")
            yield from self._decode_from(stage + 1, piece)

    def finish(self) -> None:
        """Check, at the end of the body, that all codings have ended. Raises CodingError."""
        for coding in self._codings:
            coding.finish()
