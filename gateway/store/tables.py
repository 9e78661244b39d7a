"""The schema. A test checks that the migrations build the same schema."""

import itertools
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TextClause,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)

# ── Column types and helpers, and the metadata with all tables.


class UtcTime(TypeDecorator[datetime]):
    """A UTC time with a time zone, on every database. SQLite stores the time as a text that sorts by time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone is not stored")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


RowId: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite assigns row numbers only for an INTEGER key
Json: Final = JSON(none_as_null=True)

metadata = MetaData()


def row_id() -> Column[Any]:
    return Column("id", RowId, primary_key=True, autoincrement=True)


def environment_name() -> Column[Any]:
    return Column("environment", Text, ForeignKey("environments.name"), nullable=False)


_order = itertools.count()


def index(name: str, *columns: str, where: TextClause | None = None) -> Index:
    """Return an index of the rows that meet the condition `where`; None means all rows.

    The indexes of a table are listed in the order in which the revisions create them, because SQLite chooses by that
    order between indexes that suit a query equally well. `create_tables` reads the order, and applies the condition to
    PostgreSQL. With `postgresql_where` here, every worker on SQLite would load PostgreSQL's dialect, 2 MB.
    """
    return Index(name, *columns, sqlite_where=where, info={"order": next(_order)})


def index_where_not_null(name: str, column: str, *columns: str) -> Index:
    """Return an index that contains only the rows in which `column` is not null."""
    return index(name, *columns, where=text(f"{column} IS NOT NULL"))


# ── Environments, and their data keys.

environments = Table(
    "environments",
    metadata,
    Column("name", Text, primary_key=True),
    Column("created_at", UtcTime, nullable=False),
)

data_keys = Table(
    "data_keys",
    metadata,
    # The newest data key of an environment (the highest number) seals new values.
    Column("number", RowId, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False),
    environment_name(),
    Column("master_key_id", Text, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("seals_reserved", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("id", name="data_keys_by_id"),
    index("data_keys_by_environment", "environment", "number"),
    sqlite_autoincrement=True,
)


# ── Connections, with their tags and their history.

IN_TROUBLE: Final = text("state <> 'active'")
UNSETTLED: Final = text("end_settled IS NULL AND expires_at IS NOT NULL")

connections = Table(
    "connections",
    metadata,
    row_id(),
    Column("uid", Text, nullable=False),
    environment_name(),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("credential", LargeBinary, nullable=False),
    Column("expires_at", UtcTime),
    Column("config", Json, nullable=False),
    Column("secret_config", LargeBinary),
    Column("secret_config_version", Integer),  # the row's version when this value was sealed
    Column("metadata", Json),
    Column("tags", Json, nullable=False),
    Column("end_user", Json),
    Column("end_user_id", Text),
    Column("organization_id", Text),
    Column("search_text", Text, nullable=False),
    Column("webhook_url_override", Text),
    Column("lease_owner", Text),
    Column("lease_until", UtcTime),
    Column("failure_code", Text),
    Column("failure_message", Text),
    Column("failure_final", Boolean),
    Column("failure_at", UtcTime),
    Column("failure_attempts", Integer),
    Column("failure_retry_at", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("last_fetched_at", UtcTime),
    Column("last_refreshed_at", UtcTime),
    Column("state", Text, nullable=False, server_default="active"),
    Column("state_reason", Text),
    Column("state_since", UtcTime),
    Column("granted_at", UtcTime),
    Column("intent_digest", Text),
    Column("intent_at", UtcTime),
    # the refresh token before the present one, as long as the provider accepts it
    Column("previous_refresh", LargeBinary),
    Column("previous_refresh_version", Integer),
    Column("previous_refresh_until", UtcTime),
    Column("dies_at", UtcTime),
    Column("keep_alive_at", UtcTime),
    Column("end_settled", Boolean),  # null: the connection must be checked when its token expires; true: no check
    Column("expiry_told_days", Integer),  # the last `connection.expiring` event was for this many days
    Column("site_origin", Text),  # the origin of config["baseUrl"], for finding the connections of a webhook
    Column("account_id", Text),
    Column("account_label", Text),
    Column("rotates", Boolean),  # true: at a refresh, the provider has replaced the connection's refresh token
    Column("refused_scopes", Json),  # the scopes that the API demanded with a 403 since the last authorization
    UniqueConstraint("environment", "integration_id", "connection_id", name="connections_by_ref"),
    UniqueConstraint("uid", name="connections_by_uid"),
    index("connections_by_age", "environment", "created_at", "id"),
    index("connections_by_connection_id", "environment", "connection_id", "created_at", "id"),
    index("connections_by_end_user", "environment", "end_user_id", "created_at", "id"),
    index("connections_by_organization", "environment", "organization_id", "created_at", "id"),
    index("connections_by_keep_alive", "provider", "keep_alive_at", "id"),
    index_where_not_null("connections_by_end", "dies_at", "environment", "dies_at", "id"),
    index_where_not_null("connections_by_lease", "lease_until", "lease_until"),
    index_where_not_null("connections_by_previous", "previous_refresh_until", "previous_refresh_until"),
    index_where_not_null("connections_by_site", "site_origin", "environment", "integration_id", "site_origin"),
    index("connections_by_token_end", "expires_at", "id", where=UNSETTLED),
    index("connections_by_trouble", "environment", "created_at", "id", where=IN_TROUBLE),
    index("connections_by_integration", "integration_id", "environment", "created_at", "id"),
    sqlite_autoincrement=True,  # ids are never reused, so that a list's cursor stays valid
)

# A copy of the column `tags` of `connections`, with an index that finds connections by tag.
connection_tags = Table(
    "connection_tags",
    metadata,
    Column("connection", RowId, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    index("connection_tags_by_value", "key", "value", "connection"),
)

connection_history = Table(
    "connection_history",
    metadata,
    row_id(),
    Column("connection", RowId, ForeignKey("connections.id", ondelete="CASCADE"), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("state", Text, nullable=False),
    Column("state_before", Text),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    index("connection_history_by_connection", "connection", "id"),
    sqlite_autoincrement=True,  # ids are never reused: the order of the ids is the order of the events
)


# ── Integrations.

# Integrations created through the API. All other integrations are in gateway.yaml.
integrations = Table(
    "integrations",
    metadata,
    Column("uid", Text, primary_key=True),  # the row's identity, which stays the same if `integration_id` is renamed
    environment_name(),
    Column("integration_id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("display_name", Text),
    Column("forward_webhooks", Boolean, nullable=False),
    Column("scopes", Json),
    Column("secrets", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("ending_at", UtcTime),  # when the deletion began; afterwards, only the deleting process sees the row
    UniqueConstraint("environment", "integration_id", name="integrations_by_key"),
)


# ── Secret keys and capabilities.

# Minted keys and capabilities. The keys in gateway.yaml are not stored.
keys = Table(
    "keys",
    metadata,
    row_id(),
    Column("digest", Text, nullable=False),
    environment_name(),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("last_four", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("limits", Json, nullable=False),
    Column("rate", Integer),
    Column("budget", BigInteger),
    Column("calls", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("parent_id", RowId),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("last_used_at", UtcTime),
    UniqueConstraint("digest", name="keys_by_digest"),
    index("keys_by_environment", "environment", "id"),
    index("keys_by_parent", "parent_id"),
    sqlite_autoincrement=True,  # ids are never reused: a removed key must not become another key's parent
)


# ── Short-lived rows while an end user connects, and the results.

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
    Column("browser_digest", Text),  # digest of the cookie of the browser that the session is bound to
    Column("code_challenge", Text),
    Column("return_url", Text),
    Column("return_state", Text),
    index("connect_sessions_by_connection", "environment", "connection_id"),
    index("connect_sessions_by_expiry", "expires_at"),
    index("connect_sessions_by_key", "environment", "key_id", "expires_at"),
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
    index("flows_by_expiry", "expires_at"),
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
    Column("sealed", LargeBinary),  # null: the connection is completed
    index("pending_connections_by_session", "session_digest"),
    index("pending_connections_by_expiry", "expires_at"),
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
    index("flow_results_by_session", "session_digest", "id"),
    index("flow_results_by_age", "at"),
    index("flow_results_by_flow", "flow_digest"),
    sqlite_autoincrement=True,
)


# ── Events to the customer's application, and webhooks from providers.

# One row for each event, shared by all targets of the event.
outbox = Table(
    "outbox",
    metadata,
    row_id(),
    Column("uid", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    environment_name(),
    Column("integration_id", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("facts", Json, nullable=False),
    Column("sealed", LargeBinary),  # a provider's webhook as received; null for other events
    sqlite_autoincrement=True,
)

# One row for each target of an event. `due_at` is null if the delivery has ended, either delivered or dead.
deliveries = Table(
    "deliveries",
    metadata,
    row_id(),
    Column("outbox", RowId, ForeignKey("outbox.id", ondelete="CASCADE"), nullable=False),
    Column("message_id", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    environment_name(),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text),
    Column("sequence", Text),  # deliveries with the same value are sent in order
    Column("target", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", UtcTime),
    Column("give_up_at", UtcTime, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", UtcTime),
    Column("status", Integer),  # the HTTP status of the last response
    Column("detail", Text),
    Column("ended_at", UtcTime),
    index("deliveries_by_outbox", "outbox"),
    index("deliveries_by_message", "message_id"),
    index("deliveries_by_connection", "environment", "connection_id", "id"),
    index_where_not_null("deliveries_by_due", "due_at", "environment", "target", "due_at", "id"),
    index_where_not_null("deliveries_by_sequence", "due_at", "environment", "target", "sequence", "id"),
    index_where_not_null("deliveries_by_end", "ended_at", "state", "ended_at"),
    index_where_not_null("deliveries_by_integration", "due_at", "environment", "integration_id", "outbox"),
    sqlite_autoincrement=True,  # ids are never reused: the order of the ids is the order of the events
)

# Keys that sign events if gateway.yaml has no signing key. The key with the highest number signs. An older key also
# signs until it retires.
signing_keys = Table(
    "signing_keys",
    metadata,
    Column("uid", Text, primary_key=True),
    environment_name(),
    Column("number", Integer, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("retires_at", UtcTime),
    UniqueConstraint("environment", "number", name="signing_keys_by_number"),
)

# Webhooks that a node has accepted, so that no node accepts a webhook twice.
webhooks_seen = Table(
    "webhooks_seen",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("at", UtcTime, nullable=False),
    index("webhooks_seen_by_age", "at"),
)


# ── The call log of releases before 0.3. `Store.prune_former_log` removes its rows.

request_log = Table(
    "request_log",
    metadata,
    row_id(),
    Column("at", UtcTime, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("bytes_in", BigInteger, nullable=False),
    Column("bytes_out", BigInteger, nullable=False),
    Column("error_code", Text),
    index("request_log_by_age", "at"),
    sqlite_autoincrement=True,
)


# ── Sign-ins to the console. `kind`: ``link`` for a sign-in link, ``session`` for a session, ``seen`` for a person whom
# a trusted proxy has named.

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)


# ── The audit trail (docs/audit.md). Records wait in `audit_pending` until they are moved into the chain.

audit_pending = Table(
    "audit_pending", metadata, row_id(), Column("body", Text, nullable=False), sqlite_autoincrement=True
)

# Rows never change; pruning removes the oldest. The columns from `at` to `end_user` are copied from `body`.
audit_records = Table(
    "audit_records",
    metadata,
    Column("sequence", RowId, primary_key=True, autoincrement=False),
    Column("hash", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("environment", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("key_id", BigInteger),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("end_user", Text, nullable=False),
    Column("body", Text, nullable=False),
    index("audit_records_by_time", "at"),
    index("audit_records_by_action", "action", "sequence"),
    index("audit_records_by_connection", "connection_id", "sequence"),
    index_where_not_null("audit_records_by_key", "key_id", "key_id", "sequence"),
)

# This table has a single row. A process that extends the chain locks the row, so only one process does so at a time.
# `wrapped`: the private key that signs checkpoints, wrapped under a master key.
audit_state = Table(
    "audit_state",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=False),
    Column("store_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("key_id", Text),
    Column("master_key_id", Text),
    Column("wrapped", LargeBinary),
    Column("configuration_digest", Text),
)

audit_checkpoints = Table(
    "audit_checkpoints",
    metadata,
    Column("sequence", RowId, primary_key=True, autoincrement=False),
    Column("hash", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("public_key", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("starts", Boolean, nullable=False),  # true: the chain begins after this record
)

# The secret for the digests of one end user. Without the secret, a digest in the records no longer identifies the
# person.
audit_persons = Table(
    "audit_persons",
    metadata,
    Column("environment", Text, primary_key=True),
    Column("end_user_id", Text, primary_key=True),
    Column("secret", Text, nullable=False),
)

credential_uses = Table(
    "credential_uses",
    metadata,
    Column("environment", Text, primary_key=True),
    Column("key_id", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),  # hours since 1970
    Column("integration_id", Text, primary_key=True),
    Column("connection_id", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    index("credential_uses_by_connection", "environment", "connection_id", "hour"),
    index("credential_uses_by_hour", "hour"),
    sqlite_with_rowid=False,
)


# ── State that nodes share: leases on tasks, the change log, and failovers of the database.

# Leases on tasks that one node does for all nodes, by the name of the task.
task_leases = Table(
    "task_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", UtcTime, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    row_id(),
    Column("at", UtcTime, nullable=False),
    Column("environment", Text, nullable=False),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    sqlite_autoincrement=True,  # ids are never reused, because readers remember the last id that they read
)

# PostgreSQL only. This table lists each timeline of the database that a node has noticed. The first timeline is the
# original one; each later timeline began with a failover.
timelines = Table(
    "timelines",
    metadata,
    Column("timeline", Text, primary_key=True),
    Column("since", UtcTime, nullable=False),
)

# PostgreSQL only. This table lists each process whose tokens can be newer than the database after a failover.
# `beat_at`: the time of its last heartbeat. `timeline`: the timeline for which it has confirmed that its tokens are
# written back; null before.
processes = Table(
    "processes",
    metadata,
    Column("process", Text, primary_key=True),
    Column("beat_at", UtcTime, nullable=False),
    Column("timeline", Text),
)
