"""Options of a connect session: a single browser, a number of connections, a code challenge, a return URL."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Existing sessions have no limits.
    op.add_column("connect_sessions", sa.Column("single_use", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("connect_sessions", sa.Column("max_connections", sa.Integer))
    op.add_column("connect_sessions", sa.Column("connections_made", sa.Integer, nullable=False, server_default="0"))
    for name in ("browser_digest", "code_challenge", "return_url", "return_state"):
        op.add_column("connect_sessions", sa.Column(name, sa.Text))
