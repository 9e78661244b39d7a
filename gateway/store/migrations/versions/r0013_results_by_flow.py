"""Links a result to its authorization, so that a callback that is loaded again finds the result."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("flow_results", sa.Column("flow_digest", sa.Text))
    op.create_index("flow_results_by_flow", "flow_results", ["flow_digest"])
