"""Sign-ins to the console, and an index of the few connections that are not active."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "console_sessions",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    few = sa.text("state <> 'active'")
    op.create_index(
        "connections_by_trouble",
        "connections",
        ["environment", "created_at", "id"],
        sqlite_where=few,
        postgresql_where=few,
    )
