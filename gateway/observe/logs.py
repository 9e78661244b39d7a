"""Logs to stderr: lines of JSON, or readable ones on a terminal. What is named like a secret is masked."""

import errno
import json
import logging
import os
import select
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO, cast

import structlog

from gateway.observe.masking import Event, mask, mask_text, tell_exception

# ── Lines that are written many at a time, and a stderr that may go away.

PIPE_BUF: Final = min(select.PIPE_BUF, 4096)
GONE: Final = frozenset({errno.EIO, errno.EPIPE})


class Lasting:
    """`out` for as long as it can be written to.

    Once it is gone (a closed terminal, a reader that has left), lines are dropped. An error here would fail the operation
    that is logged.
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
    """Return whether `write_many` writes JSON; then a caller that has the lines ready may give them to `write_lines`."""
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


trace_id_in_hand: Final[ContextVar[str | None]] = ContextVar("trace_id_in_hand", default=None)
"""The trace id of the request that what goes on was begun by: in every line that is logged meanwhile."""


def add_trace_id(_logger: Any, _method: str, event: Event) -> Event:
    trace_id = trace_id_in_hand.get()
    if trace_id is not None:
        event.setdefault("trace_id", trace_id)
    return event


LEVEL: Final = "GATEWAY_LOG_LEVEL"

# Below warning they log statements, rows and requests, which hold what must not be seen.
CHATTY: Final = (
    "aiohttp.access",
    "aiohttp.client",
    "aiosqlite",
    "alembic",
    "asyncio",
    "sqlalchemy",
    "urllib3",
    "watchfiles",
)


def setup(level: str | None = None, *, terminal: bool | None = None) -> None:
    """Write from `level` up (else GATEWAY_LOG_LEVEL, else info), as JSON unless stderr is a terminal."""
    out = Lasting(sys.stderr)
    number = threshold(level or os.environ.get(LEVEL) or "info")
    readable = sys.stderr.isatty() if terminal is None else terminal
    last: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback) if readable else as_json
    )
    steps: list[Any] = [structlog.processors.add_log_level, stamp, add_trace_id, mask, tell_exception]
    structlog.configure(
        processors=[*steps, last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", out)),
        cache_logger_on_first_use=True,
    )
    foreign: list[Any] = [structlog.stdlib.add_logger_name, *steps, mask_text]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
            foreign_pre_chain=foreign,
        )
    )
    logging.basicConfig(handlers=[handler], level=number, force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    Many.out, Many.readable = (out if number <= logging.INFO else None), readable


def for_host() -> None:
    """Set up logging in a host's process: our lines go to the standard library's loggers, unless the host has configured
    structlog.

    By itself structlog would print to stdout, and with every traceback the local variables of all its frames.
    """
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            add_trace_id,
            mask,
            tell_exception,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),  # the host's loggers know their levels
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def threshold(level: str) -> int:
    """The number of a level's name; that of info for a name there is not, since a log must not stop a start."""
    return logging.getLevelNamesMapping().get(level.strip().upper(), logging.INFO)


def stamp(_logger: Any, _method: str, event: Event) -> Event:
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return event
