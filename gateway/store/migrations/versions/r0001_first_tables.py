"""The first tables: environments and their keys, connections, connect sessions, flows, changes, the request log."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _environments()
    _data_keys()
    _connections()
    _connection_tags()
    _connect_sessions()
    _flows()
    _changes()
    _request_log()


def _environments() -> None:
    op.create_table(
        "environments",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("created_at", TIME, nullable=False),
    )


def _data_keys() -> None:
    op.create_table(
        "data_keys",
        sa.Column("number", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("master_key_id", sa.Text, nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("seals_reserved", sa.BigInteger, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.UniqueConstraint("id", name="data_keys_by_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("data_keys_by_environment", "data_keys", ["environment", "number"])


def _connections() -> None:
    op.create_table(
        "connections",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("credential", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("config", JSON, nullable=False),
        sa.Column("secret_config", sa.LargeBinary),
        sa.Column("secret_config_version", sa.Integer),
        sa.Column("metadata", JSON),
        sa.Column("tags", JSON, nullable=False),
        sa.Column("end_user", JSON),
        sa.Column("end_user_id", sa.Text),
        sa.Column("organization_id", sa.Text),
        sa.Column("search_text", sa.Text, nullable=False),
        sa.Column("webhook_url_override", sa.Text),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", TIME),
        sa.Column("failure_code", sa.Text),
        sa.Column("failure_message", sa.Text),
        sa.Column("failure_final", sa.Boolean),
        sa.Column("failure_at", TIME),
        sa.Column("failure_attempts", sa.Integer),
        sa.Column("failure_retry_at", TIME),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("last_fetched_at", TIME),
        sa.Column("last_refreshed_at", TIME),
        sa.UniqueConstraint("environment", "integration_id", "connection_id", name="connections_by_ref"),
        sa.UniqueConstraint("uid", name="connections_by_uid"),
        sqlite_autoincrement=True,
    )
    op.create_index("connections_by_age", "connections", ["environment", "created_at", "id"])
    op.create_index("connections_by_connection_id", "connections", ["environment", "connection_id", "created_at", "id"])
    op.create_index("connections_by_end_user", "connections", ["environment", "end_user_id", "created_at", "id"])
    op.create_index(
        "connections_by_organization", "connections", ["environment", "organization_id", "created_at", "id"]
    )


def _connection_tags() -> None:
    op.create_table(
        "connection_tags",
        sa.Column("connection", ROW_ID, sa.ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_index("connection_tags_by_value", "connection_tags", ["key", "value", "connection"])


def _connect_sessions() -> None:
    op.create_table(
        "connect_sessions",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("end_user", JSON),
        sa.Column("tags", JSON, nullable=False),
        sa.Column("allowed_integrations", JSON, nullable=False),
        sa.Column("defaults", sa.LargeBinary, nullable=False),
        sa.Column("overrides", JSON, nullable=False),
        sa.Column("webhook_url_override", sa.Text),
        sa.Column("connection_id", sa.Text),
        sa.Column("integration_id", sa.Text),
    )
    op.create_index("connect_sessions_by_connection", "connect_sessions", ["environment", "connection_id"])
    op.create_index("connect_sessions_by_expiry", "connect_sessions", ["expires_at"])


def _flows() -> None:
    op.create_table(
        "flows",
        sa.Column("state_digest", sa.Text, primary_key=True),
        sa.Column("browser_digest", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sa.Column("session_digest", sa.Text, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("details", sa.LargeBinary, nullable=False),
    )
    op.create_index("flows_by_expiry", "flows", ["expires_at"])


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )


def _request_log() -> None:
    op.create_table(
        "request_log",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("duration_ms", sa.Float, nullable=False),
        sa.Column("bytes_in", sa.BigInteger, nullable=False),
        sa.Column("bytes_out", sa.BigInteger, nullable=False),
        sa.Column("error_code", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("request_log_by_age", "request_log", ["at"])
