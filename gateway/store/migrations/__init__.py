"""Which revision a database is at, without loading Alembic: a start with nothing to migrate stays quick."""

from typing import Final

from sqlalchemy import Connection, column, inspect, select, table

REVISIONS: Final = ("0001",)  # oldest first; the last is the one this version needs

VERSION_TABLE: Final = "alembic_version"


def schema_revision(db: Connection) -> str | None:
    """The revision that the database is at; None if it has never been migrated."""
    if not inspect(db).has_table(VERSION_TABLE):
        return None
    found: str | None = db.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return found
