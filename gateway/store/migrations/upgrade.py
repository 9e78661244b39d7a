"""Upgrades the schema to the newest revision with Alembic, inside the caller's transaction."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def configuration(db: Connection | None = None) -> Config:
    """Return Alembic's configuration for this folder. No ini file is needed."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = db
    return config


def upgrade(db: Connection) -> None:
    """Run the revisions that the database does not have yet. The caller's transaction makes other processes wait."""
    command.upgrade(configuration(db), "head")
