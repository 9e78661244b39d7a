"""What is told to the customer's application, and what providers tell us."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from gateway.store.tables.columns import Json, RowId, UtcTime, environment_name, metadata, row_id, where_set

# What is told to the customer's application: one row an event, whoever is to hear of it.
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
    Column("sealed", LargeBinary),  # a provider's webhook as it came
    sqlite_autoincrement=True,
)

# One row for each address that an event goes to. `due_at` is null once it is over, delivered or dead.
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
    Column("sequence", Text),  # those with the same one go out in order
    Column("target", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", UtcTime),
    Column("give_up_at", UtcTime, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", UtcTime),
    Column("status", Integer),  # the last answer's
    Column("detail", Text),
    Column("ended_at", UtcTime),
    Index("deliveries_by_outbox", "outbox"),
    Index("deliveries_by_message", "message_id"),
    Index("deliveries_by_connection", "environment", "connection_id", "id"),
    where_set("deliveries_by_due", "due_at", "environment", "target", "due_at", "id"),
    where_set("deliveries_by_integration", "due_at", "environment", "integration_id", "outbox"),
    where_set("deliveries_by_sequence", "due_at", "environment", "target", "sequence", "id"),
    where_set("deliveries_by_end", "ended_at", "state", "ended_at"),
    sqlite_autoincrement=True,  # an id is never given twice, so that order is that of happening
)

# What signs events where gateway.yaml names no key: the highest number signs, one that retires later signs beside it.
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

# Webhooks that were taken, so that none is taken twice, by whichever node.
webhooks_seen = Table(
    "webhooks_seen",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Index("webhooks_seen_by_age", "at"),
)
