"""Which revision a database is at, without loading Alembic: a start with nothing to migrate stays quick."""

from sqlalchemy import Connection, column, inspect, select, table

from gateway.store.revisions import REVISIONS, VERSION_TABLE

__all__ = ["REVISIONS", "VERSION_TABLE", "schema_revision"]


def schema_revision(db: Connection) -> str | None:
    """The revision that the database is at; None if it has never been migrated."""
    if not inspect(db).has_table(VERSION_TABLE):
        return None
    found: str | None = db.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return found
