"""The schema. What is written here and what the migrations build is the same; a test compares them.

A file here is an area; each table that one has is imported here, and so is known to Alembic. The files have other names
than the tables, which would hide them.
"""

from gateway.store.tables.columns import UtcTime, metadata
from gateway.store.tables.connecting import connect_sessions, flow_results, flows, pending_connections
from gateway.store.tables.connection import connection_history, connection_tags, connections
from gateway.store.tables.environment import data_keys, environments
from gateway.store.tables.events import deliveries, outbox, signing_keys, webhooks_seen
from gateway.store.tables.integration import integrations
from gateway.store.tables.key import keys
from gateway.store.tables.log import request_log
from gateway.store.tables.nodes import changes, task_leases, timelines

__all__ = [
    "UtcTime",
    "changes",
    "connect_sessions",
    "connection_history",
    "connection_tags",
    "connections",
    "data_keys",
    "deliveries",
    "environments",
    "flow_results",
    "flows",
    "integrations",
    "keys",
    "metadata",
    "outbox",
    "pending_connections",
    "request_log",
    "signing_keys",
    "task_leases",
    "timelines",
    "webhooks_seen",
]
