"""What lives for minutes while an end user connects, and what came of it."""

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, Table, Text, false

from gateway.store.tables.columns import Json, UtcTime, environment_name, metadata, row_id

connect_sessions = Table(
    "connect_sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    environment_name(),
    Column("expires_at", UtcTime, nullable=False),
    Column("end_user", Json),
    Column("tags", Json, nullable=False),
    Column("allowed_integrations", Json, nullable=False),
    Column("defaults", LargeBinary, nullable=False),
    Column("overrides", Json, nullable=False),
    Column("webhook_url_override", Text),
    Column("connection_id", Text),
    Column("integration_id", Text),
    Column("key_id", Text),
    Column("single_use", Boolean, nullable=False, server_default=false()),
    Column("max_connections", Integer),
    Column("connections_made", Integer, nullable=False, server_default="0"),
    Column("browser_digest", Text),  # of the one browser that a single-use session serves
    Column("code_challenge", Text),
    Column("return_url", Text),
    Column("return_state", Text),
    Index("connect_sessions_by_connection", "environment", "connection_id"),
    Index("connect_sessions_by_expiry", "expires_at"),
    Index("connect_sessions_by_key", "environment", "key_id", "expires_at"),
)

flows = Table(
    "flows",
    metadata,
    Column("state_digest", Text, primary_key=True),
    Column("browser_digest", Text, nullable=False),
    environment_name(),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("session_digest", Text, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("details", LargeBinary, nullable=False),
    Index("flows_by_expiry", "expires_at"),
)

pending_connections = Table(
    "pending_connections",
    metadata,
    Column("uid", Text, primary_key=True),
    environment_name(),
    Column("session_digest", Text, nullable=False),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("code_challenge", Text, nullable=False),
    Column("wrong_verifiers", Integer, nullable=False, server_default="0"),
    Column("expires_at", UtcTime, nullable=False),
    Column("sealed", LargeBinary),  # null: it was completed
    Index("pending_connections_by_session", "session_digest"),
    Index("pending_connections_by_expiry", "expires_at"),
)

flow_results = Table(
    "flow_results",
    metadata,
    row_id(),
    environment_name(),
    Column("session_digest", Text, nullable=False),
    Column("client_digest", Text),
    Column("flow_digest", Text),
    Column("browser_digest", Text),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text),
    Column("is_pending", Boolean, nullable=False),
    Column("error_type", Text),
    Column("error_desc", Text),
    Column("code", Text),
    Column("at", UtcTime, nullable=False),
    Index("flow_results_by_session", "session_digest", "id"),
    Index("flow_results_by_flow", "flow_digest"),
    Index("flow_results_by_age", "at"),
    sqlite_autoincrement=True,
)
