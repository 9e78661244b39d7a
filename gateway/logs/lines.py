"""Lines that are written many at a time, and a stderr that may go away."""

import errno
import json
import os
import select
from collections.abc import Sequence
from typing import Any, Final, TextIO

import structlog

from gateway.logs.masking import Event

PIPE_BUF: Final = min(select.PIPE_BUF, 4096)
GONE: Final = frozenset({errno.EIO, errno.EPIPE})


class Lasting:
    """`out` for as long as it can be written to.

    Where it is gone, a terminal that was closed or a reader that has left, lines go nowhere instead of failing what they
    tell of.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
        except OSError as fault:
            self._lost(fault)

    def flush(self) -> None:
        try:
            self._out.flush()
        except OSError as fault:
            self._lost(fault)

    def _lost(self, fault: OSError) -> None:
        if fault.errno in GONE:  # what is still in its buffer would fail once more when the process ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)


class Many:
    """Where `write_many` writes: None is nowhere, because the level is above info."""

    out: Lasting | None = None
    readable = True


def write_many(events: Sequence[Event]) -> None:
    """Lines at level info whose members are whole and hold nothing secret, many in one write.

    That is a tenth of what as many calls of a logger cost. Without `setup`, in a host's process, nothing is written.
    """
    if Many.out is None or not events:
        return
    if Many.readable:
        log = structlog.get_logger("access")
        for event in events:
            log.info(**{name: value for name, value in event.items() if name not in {"level", "timestamp"}})
        return
    write_lines([_encode(event) for event in events])


def wants_lines() -> bool:
    """Whether `write_many` would write JSON: then whoever has the lines ready may give them to `write_lines`."""
    return Many.out is not None and not Many.readable


def write_lines(lines: Sequence[str]) -> None:
    """Lines of JSON, on the terms of `write_many`.

    A pipe takes no more than `PIPE_BUF` bytes without letting another worker's in between, so that is what a write has at
    most, in whole lines.
    """
    if Many.out is None:
        return
    piece, size = list[str](), 0
    for line in lines:
        length = 1 + (len(line) if line.isascii() else len(line.encode("utf-8", "backslashreplace")))
        if size + length > PIPE_BUF and piece:
            _write(Many.out, piece)
            piece, size = [], 0
        piece.append(line)
        size += length
    if piece:
        _write(Many.out, piece)


def _write(out: Lasting, lines: Sequence[str]) -> None:
    out.write("\n".join(lines) + "\n")
    out.flush()


_encode: Final = json.JSONEncoder(default=str, ensure_ascii=False, check_circular=False).encode


def as_json(_logger: Any, _method: str, event: Event) -> str:
    return _encode(event)
