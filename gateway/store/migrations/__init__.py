"""The schema's revisions, run by Alembic when a store is opened.

    upgrade    brings the schema to the newest revision, inside the caller's transaction
    env        what Alembic runs around the revisions
    versions   the revisions, one file each, in order

`tables.py` describes the schema as it is; a test compares it with what all revisions build. A change of the schema is a
change there and a new file here.

Always true: a released revision is never changed; a store of any earlier release opens.
"""

from sqlalchemy import Connection, column, inspect, select, table

from gateway.store.preflight_checks import REVISIONS, VERSION_TABLE

__all__ = ["REVISIONS", "VERSION_TABLE", "schema_revision"]


def schema_revision(db: Connection) -> str | None:
    """The revision that the database is at; None if it has never been migrated."""
    if not inspect(db).has_table(VERSION_TABLE):
        return None
    found: str | None = db.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return found
