"""Checks the database at `store.url` before a start. Imports only the driver of this database, SQLite or PostgreSQL."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.vault import Keyring

if TYPE_CHECKING:
    from gateway.config import StoreConfig

POSTGRES: Final = "postgresql://"
# A connection without a refresh token ends with its access token. Such connections are few, and an index finds them.
ENDING: Final = """
SELECT environment, integration_id, count(*), min(expires_at) FROM connections
WHERE end_settled IS NULL AND expires_at IS NOT NULL AND dies_at = expires_at AND keep_alive_at IS NULL
GROUP BY environment, integration_id ORDER BY environment, integration_id
"""
# API-managed integrations are in the database; their provider cannot change.
WITHOUT_STORED_INTEGRATION: Final = """
SELECT environment, integration_id, provider, count(*) FROM connections
WHERE NOT EXISTS (
  SELECT 1 FROM integrations AS made
  WHERE made.environment = connections.environment AND made.integration_id = connections.integration_id
)
GROUP BY environment, integration_id, provider ORDER BY environment, integration_id, provider
"""


def check_database(store: "StoreConfig") -> str | None:
    """Check that the database can be opened. Raises StoreRefused. Blocks.

    Runs before the rest of the gateway is loaded, because loading can take seconds. Returns the schema's revision; None
    if the database has no schema yet.
    """
    keyring = Keyring(store.encryption_keys)
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres import server_preflight as postgres

        return postgres.check_server(store.url, keyring, connect_s=store.pool.connect_s)
    from gateway.store.sqlite.file_preflight import check_file, sqlite_path

    return check_file(sqlite_path(store.url), keyring)


def connections_ending_with_token(store: "StoreConfig") -> Sequence[tuple[str, str, int, str]]:
    """Return how many connections end with their access token, for each environment and integration.

    Each tuple has the environment, the integration, the number of connections, and when the first of these connections
    ends (UTC). The database must have this version's schema (`check_database` returns the revision). Raises
    StoreRefused. Blocks.
    """
    return [(row[0], row[1], row[2], str(row[3])[:16]) for row in _query(store, ENDING)]


def connections_without_stored_integration(store: "StoreConfig") -> Sequence[tuple[str, str, str, int]]:
    """Return how many connections belong to integrations that only gateway.yaml can declare.

    Each tuple has the environment, the integration, the provider with which the connections were made, and their
    number. Requirements and errors as for `connections_ending_with_token`.
    """
    return [(row[0], row[1], row[2], row[3]) for row in _query(store, WITHOUT_STORED_INTEGRATION)]


def _query(store: "StoreConfig", statement: str) -> Sequence[Any]:
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres import server_preflight as postgres

        return postgres.query_read_only(store.url, statement, connect_s=store.pool.connect_s)
    from gateway.store.sqlite.file_preflight import query_read_only, sqlite_path

    return query_read_only(sqlite_path(store.url), statement)


def database_name(store: "StoreConfig") -> str:
    """Return the database's name for messages, without a password. Raises StoreRefused."""
    if store.url.startswith(POSTGRES):
        from gateway.store.postgres.postgres_connection import database_name as name_on_server

        return name_on_server(store.url)
    from gateway.store.sqlite.file_preflight import sqlite_path

    return str(sqlite_path(store.url))


def check_url(url: str) -> None:
    """Check that the URL names a database, without opening it. Raises StoreRefused."""
    if not url.startswith(POSTGRES):
        from gateway.store.sqlite.file_preflight import sqlite_path

        sqlite_path(url)


def check_folder_exists(store: "StoreConfig") -> None:
    """Check that the folder of a SQLite file exists, without opening the file. Raises StoreRefused."""
    if not store.url.startswith(POSTGRES):
        from gateway.store.sqlite.file_preflight import check_folder, sqlite_path

        check_folder(sqlite_path(store.url))
