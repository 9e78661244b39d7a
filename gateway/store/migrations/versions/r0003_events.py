"""Events, their deliveries, the keys that sign events, received webhooks, an index to find a webhook's connections."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("connections", sa.Column("expiry_told_days", sa.Integer))
    op.add_column("connections", sa.Column("site_origin", sa.Text))
    _fill_sites()
    _index_where_set(
        "connections_by_site", "site_origin", "connections", ["environment", "integration_id", "site_origin"]
    )
    _outbox()
    _deliveries()
    op.create_table(
        "signing_keys",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("retires_at", TIME),
        sa.UniqueConstraint("environment", "number", name="signing_keys_by_number"),
    )
    op.create_table(
        "webhooks_seen",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("at", TIME, nullable=False),
    )
    op.create_index("webhooks_seen_by_age", "webhooks_seen", ["at"])


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sqlite_autoincrement=True,
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("outbox", ROW_ID, sa.ForeignKey("outbox.id", ondelete="CASCADE"), nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("environment", sa.Text, sa.ForeignKey("environments.name"), nullable=False),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text),
        sa.Column("sequence", sa.Text),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", TIME),
        sa.Column("give_up_at", TIME, nullable=False),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", TIME),
        sa.Column("status", sa.Integer),
        sa.Column("detail", sa.Text),
        sa.Column("ended_at", TIME),
        sqlite_autoincrement=True,
    )
    op.create_index("deliveries_by_outbox", "deliveries", ["outbox"])
    op.create_index("deliveries_by_message", "deliveries", ["message_id"])
    op.create_index("deliveries_by_connection", "deliveries", ["environment", "connection_id", "id"])
    _index_where_set("deliveries_by_due", "due_at", "deliveries", ["environment", "target", "due_at", "id"])
    _index_where_set("deliveries_by_sequence", "due_at", "deliveries", ["environment", "target", "sequence", "id"])
    _index_where_set("deliveries_by_end", "ended_at", "deliveries", ["state", "ended_at"])


def _index_where_set(name: str, column: str, table: str, columns: list[str]) -> None:
    condition = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def _fill_sites() -> None:
    """Fill `site_origin` of existing connections in batches, because there can be a million connections."""
    table = sa.table("connections", sa.column("id", ROW_ID), sa.column("config", sa.JSON), sa.column("site_origin"))
    db, after = op.get_bind(), 0
    while True:
        query = sa.select(table.c.id, table.c.config).where(table.c.id > after).order_by(table.c.id).limit(1000)
        rows = db.execute(query).all()
        if not rows:
            return
        after = rows[-1].id
        new_origins = [{"row": row.id, "origin": origin} for row in rows if (origin := _origin(row.config))]
        if new_origins:
            to = table.update().where(table.c.id == sa.bindparam("row")).values(site_origin=sa.bindparam("origin"))
            db.execute(to, new_origins)


def _origin(config: Any) -> str | None:
    url = config.get("baseUrl") if isinstance(config, dict) else None
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname and port else None
