"""An index to count the waiting deliveries of one integration without reading other integrations' deliveries."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    waiting = sa.text("due_at IS NOT NULL")
    op.create_index(
        "deliveries_by_integration",
        "deliveries",
        ["environment", "integration_id", "outbox"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
