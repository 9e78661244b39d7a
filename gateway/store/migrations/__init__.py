"""The schema's revisions, run by Alembic when a store is opened.

    upgrade    upgrades the schema to the newest revision, inside the caller's transaction
    env        the script that Alembic runs for the revisions
    versions   the revisions, one file each, in order

`tables.py` describes the present schema. A test compares `tables.py` with the schema that all revisions build. To
change the schema, change `tables.py` and add a revision.

Always true: a released revision is never changed. A gateway can open the store of any earlier release.
"""

from sqlalchemy import Connection, column, inspect, select, table

from gateway.store.preflight_checks import REVISIONS, VERSION_TABLE

__all__ = ["REVISIONS", "VERSION_TABLE", "schema_revision"]


def schema_revision(db: Connection) -> str | None:
    """Return the schema's revision; None if the database has never been migrated."""
    if not inspect(db).has_table(VERSION_TABLE):
        return None
    found: str | None = db.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return found
