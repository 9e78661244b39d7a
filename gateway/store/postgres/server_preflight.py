"""Checks a PostgreSQL database before any engine uses it, without changing anything in it.

The check is one transaction. So the check sees the migration of another node either completely or not at all.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from gateway.store.postgres.postgres_connection import DatabaseUnreachable, cause_in_words, connect, database_name
from gateway.store.preflight_checks import (
    KEY_ID_BYTES,
    KEY_ID_FROM,
    REVISIONS,
    SEALED,
    STORED_KEYS,
    VERSION_TABLE,
    StoreRefused,
    check_keys,
    check_schema,
    keys_without_master,
)
from gateway.vault import Keyring, WrappedKey

OTHER_DATABASE_ADVICE: Final = "set store.url to another database, or add ?search_path=NAME for a schema of its own"
SERVER: Final = """
SELECT current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS standby, current_user AS "user",
       current_schema() AS "schema", current_database() AS "database",
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create
"""
TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
COUNT_S: Final = 0.5


def check_server(url: str, keyring: Keyring, *, connect_s: float) -> str | None:
    """Check the database like `examine`, for a caller without an event loop. Raises StoreRefused. Blocks."""
    return asyncio.run(examine(url, keyring, connect_s=connect_s))


def query_read_only(url: str, statement: str, *, connect_s: float) -> Sequence[Any]:
    """Return the rows of a read-only statement. Raises StoreRefused. Blocks."""

    async def query() -> Sequence[Any]:
        db = await connect(url, connect_s=connect_s, statement_s=connect_s, read_only=True)
        try:
            rows: Sequence[Any] = await db.fetch(statement)
            return rows
        finally:
            db.terminate()

    try:
        return asyncio.run(query())
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as fault:
        raise StoreRefused(f"{database_name(url)} cannot be read: {cause_in_words(fault, connect_s)}.") from fault


async def examine(url: str, keyring: Keyring, *, connect_s: float) -> str | None:
    """Check that the gateway may open the database.

    The database must be empty, or have a schema of a known version and data keys that `keyring` can unwrap. Waits at
    most `connect_s` seconds for a connection, and the same time for each response. Returns the schema's revision; None
    if the database is empty. Raises StoreRefused.
    """
    name = database_name(url)
    try:
        db = await connect(url, connect_s=connect_s, statement_s=connect_s, read_only=True)
        try:
            async with db.transaction(isolation="repeatable_read", readonly=True):
                return await _examine(db, name, keyring)
        finally:
            db.terminate()
    except DatabaseUnreachable as fault:
        message = f"{name} cannot be reached: {fault}. Start it, or correct store.url."
        raise StoreRefused(message, fix="start PostgreSQL, or correct store.url") from fault
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as fault:
        raise StoreRefused(f"{name} cannot be read: {cause_in_words(fault, connect_s)}.") from fault


async def _examine(db: "asyncpg.Connection[Any]", name: str, keyring: Keyring) -> str | None:
    server = await db.fetchrow(SERVER)
    if server["standby"]:
        raise StoreRefused(f"{name} is a standby and accepts no writes: set store.url to the primary.")
    if server["encoding"] != "UTF8":
        raise StoreRefused(f"{name} stores text as {server['encoding']}: create the database with ENCODING 'UTF8'.")
    if server["schema"] is None:
        raise StoreRefused(f"{name} has none of the schemas in its search_path: create one, such as public.")
    tables = {row["tablename"] for row in await db.fetch(TABLES)}
    revision: str | None = None
    if {VERSION_TABLE, "data_keys"} <= tables:
        revision = await db.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 (a constant)
    check_schema(name, revision=revision, tables=tables, advice=OTHER_DATABASE_ADVICE)
    if revision != REVISIONS[-1] and not server["may_create"]:
        raise StoreRefused(
            f"{name}: user {server['user']} may not create tables in schema {server['schema']}: run as the schema's owner "
            f'GRANT CREATE ON SCHEMA {server["schema"]} TO "{server["user"]}".'
        )
    if revision is None:
        check_keys(name, (), keyring)
    else:
        stored = [WrappedKey(*row) for row in await db.fetch(STORED_KEYS)]
        check_keys(name, stored, keyring, values=await _count_sealed_under(db, keys_without_master(stored, keyring)))
    return revision


async def _count_sealed_under(db: "asyncpg.Connection[Any]", keys: Sequence[WrappedKey]) -> int | None:
    """Return how many values `keys` seal; None if there are no keys, or if counting takes longer than `COUNT_S`."""
    if not keys:
        return None
    ids, total = [bytes.fromhex(key.id) for key in keys], 0
    try:
        async with asyncio.timeout(COUNT_S):
            for column in SEALED:
                key_id = f"substring({column.column} FROM {KEY_ID_FROM} FOR {KEY_ID_BYTES})"
                query = f"SELECT count(*) FROM {column.table} WHERE {key_id} = ANY($1::bytea[])"  # noqa: S608 (constant names)
                total += await db.fetchval(query, ids)
    except (asyncpg.PostgresError, TimeoutError):  # counting took too long, or an older schema lacks a table
        return None
    return total
