"""The key that created each connect session, so that the open sessions of a key can be counted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("connect_sessions", sa.Column("key_id", sa.Text))
    op.create_index("connect_sessions_by_key", "connect_sessions", ["environment", "key_id", "expires_at"])
