"""Scopes that a provider's API demanded when it refused a call. Kept until the end user authorizes again."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("connections", sa.Column("refused_scopes", sa.JSON(none_as_null=True)))
