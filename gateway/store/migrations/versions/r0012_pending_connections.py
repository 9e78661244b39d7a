"""Pending connections, which stay sealed until the application completes them (for sessions with a code challenge)."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "pending_connections",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("session_digest", sa.Text, nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sa.Column("code_challenge", sa.Text, nullable=False),
        sa.Column("wrong_verifiers", sa.Integer, nullable=False, server_default="0"),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sealed", sa.LargeBinary),
    )
    op.create_index("pending_connections_by_session", "pending_connections", ["session_digest"])
    op.create_index("pending_connections_by_expiry", "pending_connections", ["expires_at"])
