"""Links a result to its browser, so that no other browser can return to the application with it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("flow_results", sa.Column("browser_digest", sa.Text))
