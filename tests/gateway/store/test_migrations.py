"""The migrations create the schema of `tables`, and the list of migrations is complete."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from gateway.store import Store
from gateway.store.migrations import REVISIONS
from gateway.store.migrations.upgrade import configuration
from gateway.store.tables import metadata
from tests.gateway.store.conftest import sqlite_only


async def test_the_migrated_schema_is_the_one_in_tables(store: Store) -> None:
    def differences(db: Connection) -> object:
        return compare_metadata(MigrationContext.configure(db), metadata)

    async with store.transactions.read() as db:
        assert await db.run_sync(differences) == []


@sqlite_only
async def test_a_migrated_database_is_the_one_that_create_all_would_make(store: Store) -> None:
    """The test compares the text of the schema, because Alembic ignores AUTOINCREMENT and ON DELETE on SQLite."""
    from sqlalchemy import create_engine, text

    def schema(db: Connection) -> dict[str, set[str]]:
        rows = db.execute(text("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")).all()
        words = {name: set(sql.replace("(", " ( ").replace(")", " ) ").replace(",", " ").split()) for name, sql in rows}
        return {name: text - {"CONSTRAINT"} for name, text in words.items() if name != "alembic_version"}

    made = create_engine("sqlite://")
    with made.begin() as by_metadata:
        metadata.create_all(by_metadata)
        wanted = schema(by_metadata)
    made.dispose()
    async with store.transactions.read() as db:
        assert await db.run_sync(schema) == wanted


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
