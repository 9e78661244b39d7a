"""The schema's revisions, run by Alembic when a store of an earlier release is opened.

    upgrade    upgrades the schema to the newest revision, inside the caller's transaction
    env        the script that Alembic runs for the revisions
    versions   the revisions, one file each, in order

`tables.py` describes the present schema, from which a new database gets its tables (`create_tables`). A test compares
`tables.py` with the schema that all revisions build. To change the schema, change `tables.py` and add a revision.

Always true: a released revision is never changed. A gateway can open the store of any earlier release.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, column, inspect, select, table
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.store.preflight_checks import REVISIONS, VERSION_TABLE
from gateway.store.tables import metadata

__all__ = ["REVISIONS", "VERSION_TABLE", "create_tables", "schema_revision"]


def schema_revision(db: Connection) -> str | None:
    """Return the schema's revision; None if the database has never been migrated."""
    if not inspect(db).has_table(VERSION_TABLE):
        return None
    revision: str | None = db.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()
    return revision


def create_tables(db: Connection) -> None:
    """Create the tables of the newest revision in a database that has none of them.

    This function does not use Alembic, because Alembic would import 160 modules (13 MB) that the process never needs
    again. It also creates the version table that Alembic itself would create.
    """
    driver: Any = db.connection.driver_connection
    for statement in _definitions(db.dialect.name):
        text = str(statement.compile(dialect=db.dialect))
        if db.dialect.name == "sqlite":
            driver.run_with_next(text)  # a trip for each of 70 statements would take 15 ms
        else:
            db.exec_driver_sql(text)
    name = "version_num"
    key = PrimaryKeyConstraint(name, name=f"{VERSION_TABLE}_pkc")
    version = Table(VERSION_TABLE, MetaData(), Column(name, String(32), nullable=False), key)
    version.create(db)  # for SQLite, in one trip with the statements above
    db.execute(version.insert().values(version_num=REVISIONS[-1]))


def _definitions(dialect: str) -> Iterator[CreateTable | CreateIndex]:
    """Yield the statements that create all tables and their indexes."""
    for new_table in metadata.sorted_tables:
        yield CreateTable(new_table)
        for index in sorted(new_table.indexes, key=lambda index: index.info["order"]):
            if dialect == "postgresql":
                index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
            yield CreateIndex(index)
