"""The schema's revisions by name, for whoever asks without loading SQLAlchemy or Alembic."""

from typing import Final

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
)  # oldest first; the last is the one this version needs

VERSION_TABLE: Final = "alembic_version"
