"""Upgrades the schema to the newest revision with Alembic, inside the caller's transaction."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def configuration(db: Connection | None = None) -> Config:
    """Return Alembic's configuration for this folder. There is no ini file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = db
    return config


def upgrade(db: Connection) -> None:
    """Run the missing revisions. The caller's transaction on `db` holds a lock that makes other processes wait."""
    command.upgrade(configuration(db), "head")
