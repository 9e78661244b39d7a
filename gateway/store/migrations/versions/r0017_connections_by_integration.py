"""The connections of one integration, newest first, are listed by an index, however many others there are.

It begins with the integration, so that no list of a whole environment is tempted to use it and sort.
"""

from collections.abc import Sequence

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("connections_by_integration", "connections", ["integration_id", "environment", "created_at", "id"])
