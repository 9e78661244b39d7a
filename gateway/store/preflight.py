"""`store.url` looked at before a start, by whichever way its database needs; the other way is not even loaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gateway.vault import Keyring

if TYPE_CHECKING:
    from gateway.config import StoreConfig

POSTGRES: Final = "postgresql://"
# Those whose refresh token is missing are the ones that end when their access token does; few rows, by their index.
ENDING: Final = """
SELECT environment, integration_id, count(*), min(expires_at) FROM connections
WHERE end_settled IS NULL AND expires_at IS NOT NULL AND dies_at = expires_at AND keep_alive_at IS NULL
GROUP BY environment, integration_id ORDER BY environment, integration_id
"""


def look_at(store: "StoreConfig") -> str | None:
    """Refuse what cannot be opened before the seconds that loading the rest may take. Raises StoreRefused. Blocks.

    Returns the schema's revision; None where no gateway has made one yet.
    """
    keyring = Keyring(store.encryption_keys)
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres import server_preflight as postgres

        return postgres.look(store.url, keyring, connect_s=store.pool.connect_s)
    from gateway.store.sqlite.file_preflight import look, sqlite_path

    return look(sqlite_path(store.url), keyring)


def ending_with_token(store: "StoreConfig") -> Sequence[tuple[str, str, int, str]]:
    """Environment, integration, how many of its connections end with their access token, and when the first does (UTC).

    For a database that `look_at` has found to be of this version. Raises StoreRefused. Blocks.
    """
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres import server_preflight as postgres

        rows = postgres.ask(store.url, ENDING, connect_s=store.pool.connect_s)
    else:
        from gateway.store.sqlite.file_preflight import ask, sqlite_path

        rows = ask(sqlite_path(store.url), ENDING)
    return [(row[0], row[1], row[2], str(row[3])[:16]) for row in rows]


def place_of(store: "StoreConfig") -> str:
    """The database as an operator knows it, without a password. Raises StoreRefused."""
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres.postgres_connection import place_of as place_on_server

        return place_on_server(store.url)
    from gateway.store.sqlite.file_preflight import sqlite_path

    return str(sqlite_path(store.url))


def usable(url: str) -> None:
    """Check that the URL names a database at all, without looking there. Raises StoreRefused."""
    if not url.startswith(POSTGRES):
        from gateway.store.sqlite.file_preflight import sqlite_path

        sqlite_path(url)
