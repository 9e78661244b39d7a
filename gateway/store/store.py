"""The store as the rest of the gateway uses it: one object, with an attribute for each area."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from gateway.errors import CredentialUnreadable, Unavailable
from gateway.records.connection import Connection, Sealed
from gateway.store.audit.audit_records import AuditRecords
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.audit.use_counts import UseStore
from gateway.store.backend import Backend
from gateway.store.changes import ChangeLog, OwnChanges, prune_oldest
from gateway.store.cluster import Holders, TaskLeases
from gateway.store.connection_rows import SealedRows
from gateway.store.connection_store import ConnectionStore
from gateway.store.console_sessions import ConsoleSessionStore
from gateway.store.data_keys import DataKeys, MissingKeys, UnreadableSecrets, unreadable
from gateway.store.deliveries import DeliveryStore, EventLog
from gateway.store.due_connections import ExpiringStore, KeepAliveStore
from gateway.store.edits import EditStore
from gateway.store.event_signing_keys import SigningKeyStore
from gateway.store.failover import Failover
from gateway.store.history import HistoryStore, RejectionStore
from gateway.store.journal_recovery import RefreshJournal
from gateway.store.minted_keys import KeyStore
from gateway.store.outbox import Outbox
from gateway.store.pending_authorizations import FlowResults, FlowStore, SessionStore
from gateway.store.pending_connections import PendingStore
from gateway.store.received_webhooks import WebhookStore
from gateway.store.refreshes import RefreshStore
from gateway.store.stored_integrations import IntegrationStore
from gateway.store.tables import request_log
from gateway.vault import DamagedValue, Keyring, UnknownKey, Vault, instance_id_of

if TYPE_CHECKING:
    from gateway.store.rotation import Rotation


class Store:
    """The store, opened by `open_store`. The methods raise Unavailable as long as the database cannot be used."""

    def __init__(
        self,
        backend: Backend,
        vault: Vault,
        keys: DataKeys,
        failover: Failover,
        unreadable_secrets: UnreadableSecrets | None = None,
        *,
        statement_s: float = 0.0,
    ) -> None:
        self.unreadable = unreadable_secrets or UnreadableSecrets()
        self.transactions = transactions = backend.transactions
        self.failover = failover
        self.data_keys = keys
        self.vault = vault
        self.journal = RefreshJournal(backend.journal, vault, keys, backend.other_journals)
        self.holders = Holders(backend.journal, backend.node, self.journal, backend.other_journals)
        self.outbox = Outbox(transactions)
        self.trail = trail = AuditTrail(transactions)
        self.audit = AuditRecords(transactions, trail, keys)
        self.uses = UseStore(transactions)
        own_changes = OwnChanges()
        rows = SealedRows(transactions, vault, keys)
        self.connections = ConnectionStore(rows, self.outbox, trail)
        self.refreshes = RefreshStore(rows, self.outbox, own_changes, failover, trail)
        self.pending = PendingStore(transactions, vault, keys, self.connections)
        self.deliveries = DeliveryStore(transactions, vault, keys)
        self.event_log = EventLog(transactions, trail)
        self.expiring = ExpiringStore(transactions, self.outbox, keys)
        self.signing_keys = SigningKeyStore(transactions, vault, keys, trail)
        self.webhooks = WebhookStore(transactions, vault, keys, self.outbox)
        self.edits = EditStore(transactions, trail)
        self.rejections = RejectionStore(transactions, self.outbox)
        self.integrations = IntegrationStore(transactions, vault, keys, trail)
        self.history = HistoryStore(transactions)
        self.keep_alive = KeepAliveStore(transactions, keys)
        self.tasks = TaskLeases(transactions)
        self.keys = KeyStore(transactions, trail)
        self.sessions = SessionStore(transactions, vault, keys)
        self.flows = FlowStore(transactions, vault, keys)
        self.flow_results = FlowResults(transactions)
        self.changes = ChangeLog(transactions, backend.watch, own_changes, statement_s=statement_s)
        self.console_sessions = ConsoleSessionStore(transactions, trail)
        self.call_log = backend.call_log
        self.waits = transactions.waits
        self.backed_up_at = backend.backed_up_at
        self.pruned_at: dict[str, datetime] = {}  # the key: an area; the value: when this process last pruned that area

    def open(self, sealed: Sealed | None) -> Mapping[str, Any]:
        """Return the value of `sealed`; an empty mapping for None.

        Raises Unavailable if the keyring lacks the key of `sealed`. Raises CredentialUnreadable if `sealed` was changed
        after sealing.
        """
        if sealed is None:
            return {}
        try:
            return self.vault.open_json(sealed)
        except DamagedValue as fault:
            raise unreadable(sealed) from fault
        except UnknownKey as fault:
            if not self.data_keys.is_locked(sealed):
                self.unreadable.record(sealed)
                raise unreadable(sealed) from fault
            raise Unavailable(
                "store_unavailable", f"A stored secret cannot be opened. {fault}", retry_after_s=60
            ) from fault

    def open_or_nothing(self, sealed: Sealed | None) -> Mapping[str, Any]:
        """Return the value of `sealed`, or an empty mapping if `sealed` was changed after sealing.

        For callers that replace the value or do not need it.
        """
        try:
            return self.open(sealed)
        except CredentialUnreadable:
            return {}

    def settings_of(self, connection: Connection, *, skip_damaged: bool = False) -> dict[str, Any]:
        """Return all settings of `connection`, with the secret ones. Raises the errors of `open`.

        `skip_damaged`: leave out secret settings that were changed after sealing, as `open_or_nothing` does.
        """
        open_ = self.open_or_nothing if skip_damaged else self.open
        return {**connection.config, **open_(connection.secret_config)}

    async def ensure_environments(self, names: set[str]) -> None:
        """Create the environments that a reloaded configuration has added."""
        await self.data_keys.ensure(sorted(names))

    async def use_keyring(self, keyring: Keyring, *, environments: Collection[str] = ()) -> None:
        """Use other master keys from now on, and create `environments` with these keys.

        If this fails, keys and environments stay as before. Raises StoreRefused if a stored data key needs a master key
        that `keyring` lacks.
        """
        former = self.data_keys.keyring
        await self.data_keys.use_keyring(keyring)
        try:
            await self.data_keys.ensure(sorted(environments))
        except BaseException:
            self.data_keys.keyring = former
            raise

    @property
    def missing_keys(self) -> MissingKeys:
        """The object that requests a reload of the configuration when a master key is missing."""
        return self.data_keys.missing

    @property
    def rotation(self) -> "Rotation":
        """The rotation of encryption keys. Imported on first use, because a serving gateway does not need it."""
        from gateway.store.rotation import Rotation

        return Rotation(self.transactions, self.vault, self.data_keys, self.trail)

    async def prune(self, now: datetime) -> None:
        """Remove expired sessions, flows, keys and events, and changes older than a day.

        Call this method periodically. A failure in one area does not stop the others. Raises ExceptionGroup; a note on
        each exception of the group names its area.
        """
        faults = []
        for name, prune in (
            ("connect sessions", self.sessions.prune),
            ("flows", self.flows.prune),
            ("keys", self.keys.prune),
            ("console sessions", self.console_sessions.prune),
            ("flow results", self.flow_results.prune),
            ("changes", self.changes.prune),
            ("events", self.event_log.prune),
            ("previous refresh tokens", self.refreshes.forget_previous),
        ):
            try:
                await prune(now)
            except Exception as fault:  # noqa: BLE001 (raised below, with the errors of other areas)
                fault.add_note(name)
                faults.append(fault)
        if faults:
            raise ExceptionGroup("some expired rows were not removed", faults)

    async def prune_former_log(self, before: datetime) -> int:
        """Remove the logged calls older than `before` from the table of releases before 0.3. Return how many.

        This release writes nothing into that table. It stays because nodes of an older release still write to it during
        a rolling restart.
        """
        return await prune_oldest(self.transactions, request_log, request_log.c.at < before)

    @property
    def instance(self) -> str:
        """A text that distinguishes this gateway from gateways with other encryption keys. Not a secret."""
        return instance_id_of(self.data_keys.keyring.first_id)

    @property
    def damaged(self) -> bool:
        """Whether the database has reported damage since this process opened it."""
        return self.transactions.damage.damaged

    @property
    def full(self) -> bool:
        """Whether this process's last write failed because the database's disk is full."""
        return self.transactions.damage.full

    @property
    def read_only(self) -> bool:
        """Whether this process's last write failed because the database is read-only."""
        return self.transactions.damage.read_only

    async def ping(self) -> None:
        """Run a query that reads no table. Raises Unavailable if the database does not respond."""
        async with self.transactions.read() as db:
            await db.execute(select(1))

    async def close(self) -> None:
        """Finish running writes and close all connections, even if the caller is cancelled."""
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        await self.call_log.close()
        await self.changes.close()
        await self.transactions.close()
        self.journal.close()
