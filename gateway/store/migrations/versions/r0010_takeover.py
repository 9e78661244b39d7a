"""Whether tokens rotate, and the times of failovers. Both decide which process may finish a refresh after a crash."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("connections", sa.Column("rotates", sa.Boolean))  # null: unknown
    op.create_table(
        "timelines",
        sa.Column("timeline", sa.Text, primary_key=True),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
    )
