"""One answer after another out of a connection's bytes: interim ones swallowed, heads parsed, bodies unframed."""

from typing import Final, Protocol

from gateway.http.answer_head import HEAD_BYTES, AnswerHead, Malformed, parse_head
from gateway.http.chunks import Chunks
from gateway.http.passed_head import plain_head

INTERIM_ANSWERS: Final = 32
_BODILESS: Final = frozenset({204, 304})
_HEAD, _COUNTED, _CHUNKED, _UNTIL_CLOSE, _OVER = range(5)


class Listener(Protocol):
    """Gets an answer as it comes: `begun` once, `came` for each piece of its body, and `ended`, once."""

    def begun(self, head: AnswerHead) -> None: ...

    def came(self, piece: bytes) -> None: ...

    def ended(self, extra: bytes) -> None:
        """`extra` came behind the answer's end; after status 101 it belongs to the new protocol."""


class AnswerReader:
    """`has_begun`: at least one byte has come since `expect`. `until_close`: only the connection's end ends the body."""

    __slots__ = (
        *("_chunks", "_held", "_interim", "_left", "_may_switch", "_plain", "_stage", "_to", "_without_body"),
        "has_begun",
    )

    def __init__(self, to: Listener) -> None:
        self._to = to
        self._stage = _OVER
        self._held = b""
        self._left = self._interim = 0
        self._chunks: Chunks | None = None
        self._without_body = self._may_switch = self._plain = self.has_begun = False

    @property
    def until_close(self) -> bool:
        return self._stage == _UNTIL_CLOSE

    def expect(self, *, without_body: bool, may_switch: bool, plain: bool = False) -> None:
        """A request goes out; `without_body`: its answer has none whatever the head says (RFC 9110 §9.3.2).

        `plain`: a head need not be taken apart where that can be put off.
        """
        self._stage = _HEAD
        self._interim = 0
        self._without_body = without_body
        self._may_switch = may_switch
        self._plain = plain
        self.has_begun = False

    def feed(self, data: bytes) -> None:
        """Take bytes of the expected answer. Raises Malformed, after which it must not be fed again."""
        stage = self._stage
        if stage == _COUNTED:
            self._counted(data)
        elif stage == _HEAD:
            self._heads(data)
        elif stage == _CHUNKED:
            self._unchunked(data)
        else:
            self._to.came(data)

    def _heads(self, data: bytes) -> None:
        """Interim answers are swallowed (RFC 9110 §15.2), the final one begins the body."""
        self.has_begun = True
        if self._held:
            data, self._held = self._held + data, b""
        while data:
            end = data.find(b"\r\n\r\n")
            if end > HEAD_BYTES or (end < 0 and len(data) > HEAD_BYTES):
                raise Malformed(f"its head is larger than {HEAD_BYTES} bytes")
            if end < 0:
                self._hold(data)
                return
            raw = data[:end]
            head = (plain_head(raw) if self._plain else None) or parse_head(raw)
            data = data[end + 4 :]
            if head.status >= 200 or head.status == 101:
                self._begin(head, data)
                return
            self._interim += 1
            if self._interim > INTERIM_ANSWERS:
                raise Malformed("it announces itself without end")

    def _hold(self, beginning: bytes) -> None:
        """Wait for the rest of a head, unless it cannot become one any more."""
        if beginning.count(b"\n") != beginning.count(b"\r\n"):
            raise Malformed("a line of its head does not end in CR LF")
        if not b"HTTP/1.".startswith(beginning[:7]):
            raise Malformed("its first line is no status line")
        self._held = beginning

    def _begin(self, head: AnswerHead, rest: bytes) -> None:
        if head.status == 101 and not self._may_switch:
            raise Malformed("it switches protocols without being asked to")
        self._to.begun(head)
        length = head.length
        if self._without_body or head.status in _BODILESS or head.status == 101 or length == 0:
            self._end(rest)
            return
        if length is not None:
            if length == len(rest):  # whole already, as small answers mostly are
                self._to.came(rest)
                self._end(b"")
                return
            self._stage, self._left = _COUNTED, length
        elif head.chunked:
            self._stage, self._chunks = _CHUNKED, Chunks()
        else:
            self._stage = _UNTIL_CLOSE
        if rest:
            self.feed(rest)

    def _counted(self, data: bytes) -> None:
        left = self._left = self._left - len(data)
        self._to.came(data if left >= 0 else data[:left])
        if left <= 0:
            self._end(data[left:] if left else b"")

    def _unchunked(self, data: bytes) -> None:
        chunks = self._chunks
        assert chunks is not None
        if body := chunks.feed(data):
            self._to.came(body)
        if chunks.rest is not None:
            self._chunks = None
            self._end(chunks.rest)

    def _end(self, extra: bytes) -> None:
        self._stage = _OVER
        self._to.ended(extra)
