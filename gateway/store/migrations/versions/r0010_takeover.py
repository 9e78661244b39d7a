"""Columns to decide who may finish a refresh after a crash or failover: do tokens rotate, and when was the failover."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("connections", sa.Column("rotates", sa.Boolean))  # null: not known
    op.create_table(
        "timelines",
        sa.Column("timeline", sa.Text, primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    )
