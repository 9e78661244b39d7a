"""Logs to stderr: lines of JSON, or readable ones on a terminal. What is named like a secret is masked on the way.

The standard library's loggers (aiohttp, asyncio, SQLAlchemy …) go the same way. A traceback shows places and types, never
local variables, and of an exception's own text what looks like a credential or a query is masked: much of that text
was written by whoever sent the bytes.
"""

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO, cast

import structlog

from gateway.logs.lines import Lasting, Many, as_json, wants_lines, write_lines, write_many
from gateway.logs.masking import Event, mask, mask_text, tell_exception

LEVEL: Final = "GATEWAY_LOG_LEVEL"

# Below warning they tell of statements, rows and requests, which hold what must not be seen.
CHATTY: Final = ("aiohttp.access", "aiohttp.client", "aiosqlite", "alembic", "asyncio", "sqlalchemy")

__all__ = ["LEVEL", "Many", "for_host", "setup", "wants_lines", "write_lines", "write_many"]


def setup(level: str | None = None, *, terminal: bool | None = None) -> None:
    """Write from `level` up (else GATEWAY_LOG_LEVEL, else info), as JSON unless stderr is a terminal."""
    out = Lasting(sys.stderr)
    number = threshold(level or os.environ.get(LEVEL) or "info")
    readable = sys.stderr.isatty() if terminal is None else terminal
    last: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback) if readable else as_json
    )
    steps: list[Any] = [structlog.processors.add_log_level, stamp, mask, tell_exception]
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
    """In a host's process: our lines go to the standard library's loggers, unless the host has set structlog up.

    By itself structlog would print to stdout, and with every traceback the local variables of all its frames.
    """
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
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
