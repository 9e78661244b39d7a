"""The schema's revisions, run by Alembic when a store is opened.

    env.py      What Alembic runs around the revisions; it is handed the connection (see `upgrade`).
    upgrade.py  Alembic, brought to the newest revision inside the caller's transaction.

Always true: a revision is never changed once it was released.
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
