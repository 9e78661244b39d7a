"""The running processes, each with the timeline of the database for which it has written back its tokens."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "processes",
        sa.Column("process", sa.Text, primary_key=True),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("timeline", sa.Text),
    )
