"""Revisions and `tables` describe one schema, whichever of them creates a database; the list of revisions is complete."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.store import Store
from gateway.store.migrations import REVISIONS
from gateway.store.migrations.upgrade import configuration, upgrade
from gateway.store.postgres.postgres_backend import migrating_engine
from gateway.store.tables import metadata
from tests.gateway.store.conftest import PATIENT, StoreOpener


@pytest.fixture
def engine(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncEngine:
    """An engine for a database without tables."""
    if backend == "sqlite":
        return create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/migrated.db")
    return migrating_engine(request.getfixturevalue("empty_database"), PATIENT)


@pytest.fixture
async def migrated(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection to a database whose tables were created by all revisions, one after the other."""
    async with engine.begin() as db:
        await db.run_sync(upgrade)
        yield db
    await engine.dispose()


@pytest.fixture
async def created(open_test_store: StoreOpener) -> Store:
    """A store whose tables were created from `tables`."""
    return await open_test_store()


async def test_the_migrated_schema_is_the_one_in_tables(migrated: AsyncConnection) -> None:
    def differences(db: Connection) -> object:
        return compare_metadata(MigrationContext.configure(db), metadata)

    assert await migrated.run_sync(differences) == []


async def test_a_new_database_equals_a_migrated_one(migrated: AsyncConnection, created: Store) -> None:
    """Alembic's comparison ignores AUTOINCREMENT and ON DELETE on SQLite, names of constraints, and its own table."""
    async with created.transactions.read() as db:
        assert await db.run_sync(_described) == await migrated.run_sync(_described)


def _described(db: Connection) -> object:
    """Return the schema as the database describes it, without the order of columns and constraints.

    On SQLite with the order of a table's indexes, which decides between indexes that suit a query equally well.
    """
    if db.dialect.name == "postgresql":
        return {name: set(db.execute(text(query)).all()) for name, query in POSTGRES_SCHEMA.items()}
    rows = db.execute(text("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")).all()
    words = {name: set(sql.replace("(", " ( ").replace(")", " ) ").replace(",", " ").split()) for name, sql in rows}
    indexes = "SELECT tbl_name, name FROM sqlite_master WHERE type = 'index' ORDER BY tbl_name, rowid"
    return {name: found - {"CONSTRAINT"} for name, found in words.items()}, db.execute(text(indexes)).all()


POSTGRES_SCHEMA = {
    "revision": "SELECT version_num FROM alembic_version",
    "columns": "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default,"
    " is_identity FROM information_schema.columns WHERE table_schema = 'public'",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
    "sequences": "SELECT sequencename, data_type::text, start_value, increment_by, cycle FROM pg_sequences",
}


def test_every_revision_is_listed_in_order() -> None:
    scripts = ScriptDirectory.from_config(configuration())
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == REVISIONS


def test_the_migration_derives_the_state_from_the_last_failure() -> None:
    from alembic import command
    from sqlalchemy import create_engine, text

    when, rows = "2026-01-02 03:04:05.000000", {"well": (None, None), "weak": ("timeout", False), "gone": ("no", True)}
    engine = create_engine("sqlite://")
    with engine.begin() as db:
        command.upgrade(configuration(db), "0001")
        db.execute(text("INSERT INTO environments VALUES ('dev', :at)"), {"at": when})
        for name, (code, final) in rows.items():
            values = {"name": name, "at": when, "code": code, "final": final, "failed": when if code else None}
            db.execute(text(OLD_ROW), values)
        command.upgrade(configuration(db), "head")
        states = dict(db.execute(text("SELECT connection_id, state FROM connections")).all())  # type: ignore[arg-type]
        result = db.execute(text("SELECT count(*), min(state) FROM connection_history")).one()
    engine.dispose()
    assert states == {"well": "active", "weak": "degraded", "gone": "needs_reauth"}
    assert tuple(result) == (5, "active")


OLD_ROW = """
INSERT INTO connections (uid, environment, integration_id, connection_id, provider, version, credential, config, tags,
  search_text, failure_code, failure_final, failure_at, created_at, updated_at)
VALUES (:name, 'dev', 'tracker', :name, 'tracker', 1, x'00', '{}', '{}', :name, :code, :final, :failed, :at, :at)
"""
