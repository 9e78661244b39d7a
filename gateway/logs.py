"""Logs to stderr: lines of JSON, or readable ones on a terminal. What is named like a secret is masked on the way."""

import logging
import os
import re
import sys
from typing import Any, Final

import structlog

from gateway.secret import MASK

SECRET_NAME: Final = re.compile(
    r"authorization|cookie|secret|password|passwd|(^|_)(token|code|state|verifier|credentials?|api_?key|key)$",
    re.IGNORECASE,
)


def setup(level: str | None = None, *, terminal: bool | None = None) -> None:
    """`level` (else GATEWAY_LOG_LEVEL, else info) and form; the standard library's loggers go the same way."""
    wanted = (level or os.environ.get("GATEWAY_LOG_LEVEL") or "info").upper()
    number = logging.getLevelNamesMapping().get(wanted, logging.INFO)
    readable = sys.stderr.isatty() if terminal is None else terminal
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask,
    ]
    last: Any = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(default=str)
    if not readable:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=last, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=max(number, logging.INFO), force=True)
    for chatty in ("aiohttp.access", "sqlalchemy", "aiosqlite", "alembic"):
        # Below warning they tell of statements and rows, which may hold what must not be seen.
        logging.getLogger(chatty).setLevel(logging.WARNING)


def mask(_logger: Any, _method: str, event: Any) -> Any:
    """A processor that hides values by their names; `Secret` hides itself."""
    for name in event:
        if SECRET_NAME.search(name) and event[name] is not None:
            event[name] = MASK
    return event
