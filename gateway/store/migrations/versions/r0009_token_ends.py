"""Which connections end with their access token: looked at when that comes, found by a small index."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Null for all that are there already: each is looked at once, when its access token ends.
    op.add_column("connections", sa.Column("end_settled", sa.Boolean))
    condition = sa.text("end_settled IS NULL AND expires_at IS NOT NULL")
    op.create_index(
        "connections_by_token_end",
        "connections",
        ["expires_at", "id"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
