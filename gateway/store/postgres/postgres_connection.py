"""Opens a connection to PostgreSQL, or describes why it cannot be opened. Needs no SQLAlchemy."""

import socket
import ssl
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from gateway.store.postgres.sqlstates import postgres_cause
from gateway.text import connect_failure

# TCP options that detect a peer that no longer responds. The values are: seconds until the first probe, seconds between
# probes, number of probes, and milliseconds for which sent data can stay unacknowledged.
PROBES: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000))
# These settings override the server's defaults. Statements and idle transactions time out. A commit waits for the disk.
# A read-only connection does not wait for a standby. Otherwise each NOTIFY, which it also sends, would wait for a
# standby. A connection that writes keeps the server's `default_transaction_read_only`: an administrator sets it to stop
# writes, for example before the database moves to another server, and some hosting services do when the disk is full.
SETTINGS_OF: Final = """
SELECT set_config('statement_timeout', '{0}', false),
       set_config('idle_in_transaction_session_timeout', '{0}', false),
       CASE WHEN '{1}' = 'on' THEN set_config('default_transaction_read_only', 'on', false) END,
       CASE WHEN '{1}' = 'on' THEN set_config('synchronous_commit', 'local', false)
            WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
APPLICATION: Final = "integration-gateway"
GRACE_S: Final = 1.0  # the server ends slow statements; the client gives up only after this additional time


class DatabaseUnreachable(OSError):
    """No connection could be opened. The only argument is a text that describes the cause."""


def database_name(url: str) -> str:
    """Return the database's name and host for messages, without user, password and parameters."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", ["this machine"])[-1]
    return f"PostgreSQL database '{unquote(parts.path.lstrip('/'))}' at {hosts}"


async def connect(
    url: str, *, connect_s: float, statement_s: float | None, read_only: bool = False
) -> "asyncpg.Connection[Any]":
    """Open a connection whose statements time out after `statement_s` (None: never). Raises DatabaseUnreachable."""
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
    """Describe why the database cannot be used. The text omits the URL, which can contain a password."""
    if isinstance(fault, asyncpg.PostgresError):
        return postgres_cause(fault.sqlstate) or str(fault)
    if isinstance(fault, TimeoutError):
        return f"it does not respond within {connect_s:g} s"
    if isinstance(fault, ConnectionRefusedError):
        return "nothing listens at this address"
    if isinstance(fault, socket.gaierror):
        return "its host name is not known"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is invalid ({fault.verify_message.rstrip('.')}): check the host name and sslrootcert"
    if isinstance(fault, ssl.SSLError):
        return f"the TLS handshake failed ({(fault.reason or str(fault)).lower().replace('_', ' ')})"
    if isinstance(fault, OSError):
        return connect_failure(fault) if fault.errno else str(fault) or "the connection to it was lost"
    return str(fault)


def _probe(db: "asyncpg.Connection[Any]") -> None:
    """Set the keepalive options of the socket.

    asyncpg does not set these options and does not expose its socket. So this function uses asyncpg's private
    transport.
    """
    server_socket = db._transport.get_extra_info("socket")
    if server_socket is None or server_socket.family == socket.AF_UNIX:
        return
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES:
        if (option := getattr(socket, name, None)) is not None:
            server_socket.setsockopt(socket.IPPROTO_TCP, option, value)
