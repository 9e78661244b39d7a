"""Connections, with their tags and their history."""

from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, UniqueConstraint, text

from gateway.store.tables.columns import Json, RowId, UtcTime, environment_name, metadata, row_id, where_set

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
    Column("secret_config_version", Integer),  # the row's version when it was sealed; later credentials leave it alone
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
    Column("previous_refresh", LargeBinary),  # the refresh token before this one, for the provider's grace time
    Column("previous_refresh_version", Integer),
    Column("previous_refresh_until", UtcTime),
    Column("dies_at", UtcTime),
    Column("keep_alive_at", UtcTime),
    Column("end_settled", Boolean),  # null: to be looked at when expires_at comes; true: nothing is to be done then
    Column("expiry_told_days", Integer),  # how many days ahead its end was told of last
    Column("site_origin", Text),  # that of config["baseUrl"], for finding by it whose a provider's webhook is
    Column("account_id", Text),
    Column("account_label", Text),
    Column("rotates", Boolean),  # true: the provider has replaced its refresh token at a refresh
    UniqueConstraint("environment", "integration_id", "connection_id", name="connections_by_ref"),
    UniqueConstraint("uid", name="connections_by_uid"),
    Index("connections_by_age", "environment", "created_at", "id"),
    Index("connections_by_connection_id", "environment", "connection_id", "created_at", "id"),
    Index("connections_by_end_user", "environment", "end_user_id", "created_at", "id"),
    Index("connections_by_organization", "environment", "organization_id", "created_at", "id"),
    Index("connections_by_keep_alive", "provider", "keep_alive_at", "id"),
    where_set("connections_by_end", "dies_at", "environment", "dies_at", "id"),
    # The migration alone has `postgresql_where`, as for `where_set`: naming that dialect here would load it.
    Index("connections_by_token_end", "expires_at", "id", sqlite_where=UNSETTLED),
    where_set("connections_by_site", "site_origin", "environment", "integration_id", "site_origin"),
    where_set("connections_by_lease", "lease_until", "lease_until"),
    where_set("connections_by_previous", "previous_refresh_until", "previous_refresh_until"),
    sqlite_autoincrement=True,  # an id is never given twice, so that a cursor stays meaningful
)

# What is in `connections.tags`, once more, for finding by tag.
connection_tags = Table(
    "connection_tags",
    metadata,
    Column("connection", RowId, ForeignKey("connections.id", ondelete="CASCADE"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Index("connection_tags_by_value", "key", "value", "connection"),
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
    Index("connection_history_by_connection", "connection", "id"),
    sqlite_autoincrement=True,  # an id is never given twice, so that order is that of happening
)
