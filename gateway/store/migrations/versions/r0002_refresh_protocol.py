"""The refresh protocol: intents, the previous refresh token, states with their history, keep-alive, tasks of one node."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# The states and the history of connections that were created before this revision.
STATE = "CASE WHEN failure_final THEN 'needs_reauth' WHEN failure_code IS NOT NULL THEN 'degraded' ELSE 'active' END"
TELL = f"UPDATE connections SET state = {STATE}, state_reason = coalesce(failure_code, 'authorized'), "  # noqa: S608
TELL += "state_since = coalesce(failure_at, created_at), granted_at = created_at"
BEGIN = "INSERT INTO connection_history (connection, at, state, reason) "
BEGIN += "SELECT id, created_at, 'active', 'authorized' FROM connections"
GO_ON = "INSERT INTO connection_history (connection, at, state, state_before, reason, detail) "
GO_ON += (
    "SELECT id, failure_at, state, 'active', failure_code, failure_message FROM connections WHERE state <> 'active'"
)


def upgrade() -> None:
    _columns()
    op.create_index("connections_by_keep_alive", "connections", ["provider", "keep_alive_at", "id"])
    _index_where_set("connections_by_end", "dies_at", ["environment", "dies_at", "id"])
    _index_where_set("connections_by_lease", "lease_until", ["lease_until"])
    _index_where_set("connections_by_previous", "previous_refresh_until", ["previous_refresh_until"])
    _history()
    op.create_table(
        "task_leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("until", TIME, nullable=False),
    )
    for statement in (TELL, BEGIN, GO_ON):
        op.execute(statement)


def _index_where_set(name: str, column: str, columns: list[str]) -> None:
    condition = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, "connections", columns, sqlite_where=condition, postgresql_where=condition)


def _columns() -> None:
    for column in (
        sa.Column("state", sa.Text, nullable=False, server_default="active"),
        sa.Column("state_reason", sa.Text),
        sa.Column("state_since", TIME),
        sa.Column("granted_at", TIME),
        sa.Column("intent_digest", sa.Text),
        sa.Column("intent_at", TIME),
        sa.Column("previous_refresh", sa.LargeBinary),
        sa.Column("previous_refresh_version", sa.Integer),
        sa.Column("previous_refresh_until", TIME),
        sa.Column("dies_at", TIME),
        sa.Column("keep_alive_at", TIME),
    ):
        op.add_column("connections", column)


def _history() -> None:
    op.create_table(
        "connection_history",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("connection", ROW_ID, sa.ForeignKey("connections.id", ondelete="CASCADE"), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_before", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("connection_history_by_connection", "connection_history", ["connection", "id"])
