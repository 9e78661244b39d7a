"""Alembic, brought to the newest revision inside the caller's transaction."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def configuration(db: Connection | None = None) -> Config:
    """Alembic's configuration for this folder, without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = db
    return config


def upgrade(db: Connection) -> None:
    """Run the revisions that are missing. `db` is in a transaction, whose lock keeps other processes waiting."""
    command.upgrade(configuration(db), "head")
