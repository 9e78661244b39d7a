"""The results of authorizations, for browsers that wait on another node. The provider's account that has authorized."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("connections", sa.Column("account_id", sa.Text))
    op.add_column("connections", sa.Column("account_label", sa.Text))
    op.create_table(
        "flow_results",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("session_digest", sa.Text, nullable=False),
        sa.Column("client_digest", sa.Text),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text),
        sa.Column("is_pending", sa.Boolean, nullable=False),
        sa.Column("error_type", sa.Text),
        sa.Column("error_desc", sa.Text),
        sa.Column("code", sa.Text),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("flow_results_by_session", "flow_results", ["session_digest", "id"])
    op.create_index("flow_results_by_age", "flow_results", ["at"])
