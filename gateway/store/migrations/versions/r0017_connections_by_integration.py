"""An index to list one integration's connections, the newest first, without reading other connections.

The integration is its first column. With the environment first, the database would also choose this index to list a
whole environment, and would have to sort the rows.
"""

from collections.abc import Sequence

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("connections_by_integration", "connections", ["integration_id", "environment", "created_at", "id"])
