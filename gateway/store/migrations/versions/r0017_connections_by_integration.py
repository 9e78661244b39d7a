"""An index to list one integration's connections, newest first, without reading those of others.

Its first column is the integration, so that the planner does not choose it, with a sort, to list a whole environment.
"""

from collections.abc import Sequence

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("connections_by_integration", "connections", ["integration_id", "environment", "created_at", "id"])
