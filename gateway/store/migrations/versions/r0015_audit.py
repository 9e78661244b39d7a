"""The audit trail: records with their chain, checkpoints, digests of end users, counts of the uses of credentials."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_records()
    _create_state()
    _create_use_counts()


def _create_records() -> None:
    op.create_table(
        "audit_pending",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audit_records",
        sa.Column("sequence", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("key_id", sa.BigInteger),
        sa.Column("integration_id", sa.Text, nullable=False),
        sa.Column("connection_id", sa.Text, nullable=False),
        sa.Column("end_user", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("audit_records_by_time", "audit_records", ["at"])
    op.create_index("audit_records_by_action", "audit_records", ["action", "sequence"])
    op.create_index("audit_records_by_connection", "audit_records", ["connection_id", "sequence"])
    by_key = sa.text("key_id IS NOT NULL")
    op.create_index(
        "audit_records_by_key", "audit_records", ["key_id", "sequence"], sqlite_where=by_key, postgresql_where=by_key
    )


def _create_state() -> None:
    op.create_table(
        "audit_state",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("master_key_id", sa.Text),
        sa.Column("wrapped", sa.LargeBinary),
        sa.Column("configuration_digest", sa.Text),
    )
    op.create_table(
        "audit_checkpoints",
        sa.Column("sequence", ROW_ID, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
        sa.Column("starts", sa.Boolean, nullable=False),
    )
    op.create_table(
        "audit_persons",
        sa.Column("environment", sa.Text, primary_key=True),
        sa.Column("end_user_id", sa.Text, primary_key=True),
        sa.Column("secret", sa.Text, nullable=False),
    )


def _create_use_counts() -> None:
    op.create_table(
        "credential_uses",
        sa.Column("environment", sa.Text, primary_key=True),
        sa.Column("key_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("integration_id", sa.Text, primary_key=True),
        sa.Column("connection_id", sa.Text, primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("credential_uses_by_connection", "credential_uses", ["environment", "connection_id", "hour"])
    op.create_index("credential_uses_by_hour", "credential_uses", ["hour"])
