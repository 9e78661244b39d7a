"""Opens a connection to PostgreSQL, ready for use, or says in words why not.

Needs neither SQLAlchemy nor a loop of its own.
"""

import socket
import ssl
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from gateway.store.postgres.sqlstates import postgres_cause
from gateway.text import unconnected

# A peer that vanishes is noticed by these, in seconds: the first probe, the next ones, and data unanswered.
PROBES: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000))
# Whatever the server's defaults are: no statement and no forgotten transaction lasts, and what was committed is on the disk.
# A connection that only reads waits for no standby, which it otherwise would where it notifies.
SETTINGS_OF: Final = """
SELECT set_config('statement_timeout', '{0}', false),
       set_config('idle_in_transaction_session_timeout', '{0}', false),
       set_config('default_transaction_read_only', '{1}', false),
       CASE WHEN '{1}' = 'on' THEN set_config('synchronous_commit', 'local', false)
            WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
APPLICATION: Final = "integration-gateway"
GRACE_S: Final = 1.0  # what the server is given to end a statement itself, before we give up on it


class DatabaseUnreachable(OSError):
    """No connection was to be had. Its one argument is the cause in words."""


def place_of(url: str) -> str:
    """The database by name and host, without user, password and parameters."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", ["this machine"])[-1]
    return f"PostgreSQL database '{unquote(parts.path.lstrip('/'))}' at {hosts}"


async def connect(
    url: str, *, connect_s: float, statement_s: float | None, read_only: bool = False
) -> "asyncpg.Connection[Any]":
    """A connection whose statements last at most `statement_s`; None: for as long as they need. Raises Unreachable."""
    try:
        db = await asyncpg.connect(
            url,
            timeout=connect_s,
            command_timeout=None if statement_s is None else statement_s + GRACE_S,
            server_settings=None if "application_name=" in url else {"application_name": APPLICATION},
        )
        try:
            _probe(db)
            limit_ms = 0 if statement_s is None else round(statement_s * 1000)
            await db.execute(SETTINGS_OF.format(limit_ms, "on" if read_only else "off"))
        except BaseException:
            db.terminate()
            raise
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as fault:
        raise DatabaseUnreachable(cause_in_words(fault, connect_s)) from fault
    return db


def cause_in_words(fault: BaseException, connect_s: float) -> str:
    """Why it cannot be used, without the address, which may hold a password."""
    if isinstance(fault, asyncpg.PostgresError):
        return postgres_cause(fault.sqlstate) or str(fault)
    if isinstance(fault, TimeoutError):
        return f"it does not answer within {connect_s:g} s"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(fault, socket.gaierror):
        return "its host name is not known"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate does not hold ({fault.verify_message.rstrip('.')}), by its host name or by sslrootcert"
    if isinstance(fault, ssl.SSLError):
        return f"no TLS comes about with it ({(fault.reason or str(fault)).lower().replace('_', ' ')})"
    if isinstance(fault, OSError):
        return unconnected(fault) if fault.errno else str(fault) or "the connection to it was lost"
    return str(fault)


def _probe(db: "asyncpg.Connection[Any]") -> None:
    """asyncpg leaves keepalive to its caller and hands out no socket, hence its transport."""
    end = db._transport.get_extra_info("socket")
    if end is None or end.family == socket.AF_UNIX:
        return
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES:
        if (option := getattr(socket, name, None)) is not None:
            end.setsockopt(socket.IPPROTO_TCP, option, value)
