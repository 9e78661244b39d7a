"""Writes logs to stderr: lines of JSON, or readable text on a terminal. Values with a secret's name are masked."""

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

from gateway.observe.masking import Event, exception_as_text, mask, mask_text

# ── Writes many lines together, and raises no error if stderr is closed.

PIPE_BUF: Final = min(select.PIPE_BUF, 4096)
CLOSED_ERRORS: Final = frozenset({errno.EIO, errno.EPIPE})


class SurvivingStream:
    """Writes to `out`, and drops the text if `out` is closed.

    `out` is closed, for example, when the terminal closes or the reading process ends. An error here would fail the
    operation that writes the log. A full disk can cut a line. The next text then begins on a new line, so the cut line
    does not spoil it.
    """

    def __init__(self, out: TextIO) -> None:
        self._stream = out
        self._line_is_cut = False

    def write(self, text: str) -> None:
        try:
            descriptor = self._stream.fileno()
        except (AttributeError, OSError, ValueError):  # for example, a stream in memory
            descriptor = None
        try:
            if descriptor is None:
                self._stream.write(text)
            else:
                self._write_bytes(descriptor, text.encode("utf-8", "backslashreplace"))
        except OSError as fault:
            self._handle_lost_output(fault)

    def _write_bytes(self, descriptor: int, data: bytes) -> None:
        """Write directly to the descriptor, because Python's streams hide how much was written. Raises OSError."""
        if self._line_is_cut:
            data = b"\n" + data
        written_bytes = 0
        try:
            while written_bytes < len(data):
                written_bytes += os.write(descriptor, data[written_bytes:])
        finally:
            self._line_is_cut = written_bytes < len(data) and (self._line_is_cut or written_bytes > 0)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as fault:
            self._handle_lost_output(fault)

    def _handle_lost_output(self, fault: OSError) -> None:
        if fault.errno in CLOSED_ERRORS:
            # Python flushes the buffer again when the process exits; with /dev/null, that raises no second error.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


class BatchOutput:
    """The output of `write_events`.

    `out`: where lines are written; None: nothing is written. `out` is None before `setup`, and if the log level is
    above info.
    `readable`: whether to write readable text instead of JSON.
    """

    out: SurvivingStream | None = None
    readable = True


def write_events(events: Sequence[Event]) -> None:
    """Write many complete events in one write, at level info. The events must not contain secrets.

    Each event costs a tenth of the CPU time of a logger call. Nothing is written without `setup`, for example in a
    host's process.
    """
    if BatchOutput.out is None or not events:
        return
    if BatchOutput.readable:
        log = structlog.get_logger("access")
        for event in events:
            log.info(**{name: value for name, value in event.items() if name not in {"level", "timestamp"}})
        return
    write_lines([_encode(event) for event in events])


def writes_json() -> bool:
    """Return whether `write_events` writes JSON. If it does, a caller may pass finished lines to `write_lines`."""
    return BatchOutput.out is not None and not BatchOutput.readable


def write_lines(lines: Sequence[str]) -> None:
    """Write lines of JSON. Nothing is written if the log level is above info, or without `setup`.

    Each write has whole lines of at most `PIPE_BUF` bytes in total, because a pipe can mix longer writes with the
    writes of another worker. A single longer line is written alone.
    """
    if BatchOutput.out is None:
        return
    pending_lines, size = list[str](), 0
    for line in lines:
        length = 1 + (len(line) if line.isascii() else len(line.encode("utf-8", "backslashreplace")))
        if size + length > PIPE_BUF and pending_lines:
            _write(BatchOutput.out, pending_lines)
            pending_lines, size = [], 0
        pending_lines.append(line)
        size += length
    if pending_lines:
        _write(BatchOutput.out, pending_lines)


def _write(stream: SurvivingStream, lines: Sequence[str]) -> None:
    stream.write("\n".join(lines) + "\n")
    stream.flush()


_encode: Final = json.JSONEncoder(default=str, ensure_ascii=False, check_circular=False).encode


def as_json(_logger: Any, _method: str, event: Event) -> str:
    return _encode(event)


current_trace_id: Final[ContextVar[str | None]] = ContextVar("current_trace_id", default=None)
"""The trace id of the current request; `add_trace_id` adds it to every line that the request logs."""


def add_trace_id(_logger: Any, _method: str, event: Event) -> Event:
    trace_id = current_trace_id.get()
    if trace_id is not None:
        event.setdefault("trace_id", trace_id)
    return event


LEVEL_VARIABLE: Final = "GATEWAY_LOG_LEVEL"

# At the levels info and debug, these loggers write SQL statements, rows and requests, which contain secrets.
VERBOSE_LOGGERS: Final = (
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
    """Configure logging to stderr, from `level` up.

    `level`: the lowest level that is logged; None: the level in GATEWAY_LOG_LEVEL, or info without this variable.
    `terminal`: whether to write readable text instead of JSON; None: readable text if stderr is a terminal.
    """
    stream = SurvivingStream(sys.stderr)
    level_number = threshold(level or os.environ.get(LEVEL_VARIABLE) or "info")
    readable = sys.stderr.isatty() if terminal is None else terminal
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback) if readable else as_json
    )
    steps: list[Any] = [structlog.processors.add_log_level, add_timestamp, add_trace_id, mask, exception_as_text]
    structlog.configure(
        processors=[*steps, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level_number),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", stream)),
        cache_logger_on_first_use=True,
    )
    foreign_steps: list[Any] = [structlog.stdlib.add_logger_name, *steps, mask_text]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=foreign_steps,
        )
    )
    logging.basicConfig(handlers=[handler], level=level_number, force=True)
    for name in VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(max(level_number, logging.WARNING))
    BatchOutput.out, BatchOutput.readable = (stream if level_number <= logging.INFO else None), readable


def setup_in_host() -> None:
    """Configure logging in a host's process, unless the host has configured structlog.

    The gateway's lines go to the standard library's loggers. Without any configuration, structlog would print to stdout
    and add the local variables of all frames to every traceback.
    """
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            add_trace_id,
            mask,
            exception_as_text,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        # This limit drops no lines, because the host's loggers have their own levels.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def threshold(level: str) -> int:
    """Return the number of a level's name, or the number of info if the name is unknown.

    An unknown name raises no error, because a wrong log level must not prevent a start.
    """
    return logging.getLevelNamesMapping().get(level.strip().upper(), logging.INFO)


def add_timestamp(_logger: Any, _method: str, event: Event) -> Event:
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return event
