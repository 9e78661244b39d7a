"""Logs to stderr: lines of JSON, or readable ones on a terminal. What is named like a secret is masked on the way.

The standard library's loggers (aiohttp, asyncio, SQLAlchemy …) go the same way. A traceback shows places and types, never
local variables, and of an exception's own text what looks like a credential or a query is masked: much of that text
was written by whoever sent the bytes.
"""

import errno
import json
import logging
import os
import re
import select
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from types import TracebackType
from typing import Any, Final, TextIO, cast

import structlog

from gateway.secret import MASK

PIPE_BUF: Final = min(select.PIPE_BUF, 4096)
GONE: Final = frozenset({errno.EIO, errno.EPIPE})
LEVEL: Final = "GATEWAY_LOG_LEVEL"

SECRET_NAME: Final = re.compile(
    r"authorization|cookie|secret|passw(or)?d|bearer|token$|verifier$|credentials?$|capability$|assertion$"
    r"|(api|signing|private|encryption|master|data)[_-]?keys?$|auth\w*_code$|^(code|state|key)$",
    re.IGNORECASE,
)
SECRET_TEXT: Final = re.compile(
    r"(?i)((?:bearer|basic|token)\s+)[^\s'\",;]+"
    r"|([\w-]*(?:secret|token|password|passwd|api_?key|authorization|code|state|verifier)['\"]?\s*[=:]\s*['\"]?)[^\s&'\",;}]+"
    r"|(https?://[^\s?'\"]*\?)[^\s'\"]+"
    r"|(://)[^/\s@'\"]+(?=@)"
)

# Below warning they tell of statements, rows and requests, which hold what must not be seen.
CHATTY: Final = ("aiohttp.access", "aiohttp.client", "aiosqlite", "alembic", "asyncio", "sqlalchemy")

Event = structlog.typing.EventDict
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


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


def threshold(level: str) -> int:
    """The number of a level's name; that of info for a name there is not, since a log must not stop a start."""
    return logging.getLevelNamesMapping().get(level.strip().upper(), logging.INFO)


def stamp(_logger: Any, _method: str, event: Event) -> Event:
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return event


@cache
def is_secret(name: str) -> bool:
    """Whether what goes by `name` must not be seen. Names are few: they stand in our own calls."""
    return bool(SECRET_NAME.search(name))


def mask(_logger: Any, _method: str, event: Event) -> Event:
    """Hides values by their names, those inside values too; `Secret` hides itself."""
    for name, value in event.items():
        if is_secret(name):
            if value is not None:
                event[name] = MASK
        elif type(value) in (dict, list, tuple):
            event[name] = masked(value)
    return event


def masked(value: Any) -> Any:
    """The same, with what goes by a secret's name hidden at any depth."""
    if isinstance(value, dict):
        return {
            key: MASK if is_secret(str(key)) and inner is not None else masked(inner) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return value


def mask_text(_logger: Any, _method: str, event: Event) -> Event:
    """For the words of other libraries, which know nothing of names."""
    event["event"] = masked_text(str(event.get("event", "")))
    return event


def masked_text(text: str) -> str:
    """`text` without what looks like a credential, a query or the user part of a URL."""
    return SECRET_TEXT.sub(lambda found: "".join(part for part in found.groups() if part) + MASK, text)


def tell_exception(_logger: Any, _method: str, event: Event) -> Event:
    """``exc_info`` becomes text under ``exception``."""
    given = event.pop("exc_info", None)
    if given:
        known = _exc_info(given)
        if known is not None:
            event["exception"] = told(known)
    return event


def told(known: ExcInfo) -> str:
    """A traceback of places and types, with the exceptions' own words masked. No local variables."""
    return masked_text("".join(traceback.format_exception(*known)).rstrip())


def _exc_info(given: Any) -> ExcInfo | None:
    if isinstance(given, BaseException):
        return type(given), given, given.__traceback__
    kind, fault, trace = given if isinstance(given, tuple) else sys.exc_info()
    return None if kind is None or fault is None else (kind, fault, trace)


_encode: Final = json.JSONEncoder(default=str, ensure_ascii=False, check_circular=False).encode


def as_json(_logger: Any, _method: str, event: Event) -> str:
    return _encode(event)
