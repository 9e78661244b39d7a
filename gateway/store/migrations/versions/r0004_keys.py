"""Minted keys: their digests, scopes and limits, and the key that created each of them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "keys",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("last_four", sa.Text, nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("limits", JSON, nullable=False),
        sa.Column("rate", sa.Integer),
        sa.Column("budget", sa.BigInteger),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("parent_id", ROW_ID),
        sa.Column("expires_at", TIME),
        sa.Column("revoked_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.UniqueConstraint("digest", name="keys_by_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("keys_by_environment", "keys", ["environment", "id"])
    op.create_index("keys_by_parent", "keys", ["parent_id"])
