"""Describes PostgreSQL's errors, by SQLSTATE (PostgreSQL's manual, appendix A)."""

from typing import Final

# An entry for a whole code takes precedence over the entry for its class (the first two characters of the code).
CAUSES: Final = {
    "25006": (
        "it is read-only, because it is a standby or default_transaction_read_only is on; "
        "for a standby, set target_session_attrs=primary in store.url; use a connection pooler only in session mode"
    ),
    "28000": "it refuses this user",
    "28P01": "it refuses the password",
    "3D000": "there is no such database",
    "40001": "two transactions conflicted (serialization failure)",
    "40P01": "two transactions conflicted (deadlock)",
    "42501": "the database user lacks a privilege",
    "53100": "the disk is full",
    "53200": "it is out of memory",
    "53300": "its connection limit is reached; lower store.pool, or raise that limit (usually max_connections)",
    "55P03": "it is locked",
    "57014": "it took longer than store.pool.statement_s",
    "57P01": "it is shutting down",
    "57P02": "it has crashed and is restarting",
    "57P03": "it is starting up or shutting down",
    "57P05": "it ended a connection that was idle too long",
    "08": "the connection to it was lost",
    "53": "it is short of resources",
    "57": "an operator ended what it was doing",
    "58": "reading or writing its files failed",
    "XX": "it is damaged",
}
# After these errors the connection is replaced even if it is still open: a new connection can reach another server.
CONNECTION_USELESS: Final = frozenset({"25006", "57P01", "57P02", "57P03", "57P05"})
MISSING_PARTS: Final = {"42703": "a column", "42P01": "a table"}  # PostgreSQL's message names the part
UNREADABLE_TEXT: Final = frozenset({"22021", "22P05"})  # U+0000, which PostgreSQL cannot store in text


def postgres_cause(sqlstate: object) -> str | None:
    """Return why the database failed; None if the cause is the statement itself."""
    if not isinstance(sqlstate, str):
        return None
    return CAUSES.get(sqlstate) or CAUSES.get(sqlstate[:2])
