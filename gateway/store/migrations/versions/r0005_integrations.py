"""Integrations created through the API."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "integrations",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("display_name", sa.Text),
        sa.Column("forward_webhooks", sa.Boolean, nullable=False),
        sa.Column("scopes", JSON),
        sa.Column("secrets", sa.LargeBinary, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("ending_at", TIME),
        sa.UniqueConstraint("environment", "integration_id", name="integrations_by_key"),
    )
