"""A column and a small index for connections that end with their access token: checked when the token expires."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # The column is null for all existing connections, so each of them is checked when its access token expires.
    op.add_column("connections", sa.Column("end_settled", sa.Boolean))
    condition = sa.text("end_settled IS NULL AND expires_at IS NOT NULL")
    op.create_index(
        "connections_by_token_end",
        "connections",
        ["expires_at", "id"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
