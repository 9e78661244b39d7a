"""Integrations."""

from sqlalchemy import Boolean, Column, Integer, LargeBinary, Table, Text, UniqueConstraint

from gateway.store.tables.columns import Json, UtcTime, environment_name, metadata

# Those that were made through the API; others stand in gateway.yaml.
integrations = Table(
    "integrations",
    metadata,
    Column("uid", Text, primary_key=True),  # the row's own identity: it stays where the key is renamed
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
    Column("ending_at", UtcTime),  # since when it is being deleted: it is gone for everybody but whoever deletes it
    UniqueConstraint("environment", "integration_id", name="integrations_by_key"),
)
