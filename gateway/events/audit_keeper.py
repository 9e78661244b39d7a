"""Places audit records in the hash chain, signs and sends checkpoints, and prunes old records (docs/audit.md)."""

import asyncio
import json
import os
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from gateway import clock
from gateway.config.model import AuditConfig
from gateway.errors import GatewayError
from gateway.events.delivery import send
from gateway.generation import CurrentGeneration
from gateway.store import Store
from gateway.store.audit.audit_chain import Checkpoint
from gateway.vault import VaultError

BATCH_DELAY_S: Final = 1.0  # records that are written within this time are placed in one transaction
CHECK_EVERY_S: Final = 10.0  # interval of checks for records that another process has written
SEND_AGAIN_S: Final = 60.0
PRUNE_EVERY_S: Final = 3600.0
# Pruning waits until the oldest record is overdue by this much, because each pruning adds a record of its own.
MIN_OVERDUE: Final = timedelta(days=1)
PRUNE_TASK: Final = "prune_audit"
JSON: Final = {"Content-Type": "application/json"}

log = structlog.get_logger(__name__)


class AuditKeeper:
    """Places the records of the audit trail in the hash chain. Each process has one keeper.

    `batch_delay_s`: seconds to wait after a record, so that several records are placed in one transaction. `failing`:
    whether the last attempt to place records failed, for example because the signing key cannot be decrypted.
    """

    def __init__(self, store: Store, current: CurrentGeneration, batch_delay_s: float = BATCH_DELAY_S) -> None:
        self._store = store
        self._current = current
        self._batch_delay_s = batch_delay_s
        self._owner = uuid.uuid4().hex
        self._may_need_checkpoint = True  # there may be records without a signed checkpoint
        self._unsent_checkpoint: Checkpoint | None = None
        self._send_at = 0.0
        self._prune_at = clock.monotonic() + PRUNE_EVERY_S / 60
        self.failing = False

    async def run(self) -> None:
        """Run until the gateway stops."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._store.trail.record_written.wait()
            await asyncio.sleep(self._batch_delay_s)
            try:
                await self.run_once()
                self.failing = False
            except (GatewayError, VaultError) as fault:
                self._log_first_failure(str(fault), None)
            except Exception as fault:  # noqa: BLE001 (the next attempt may succeed)
                self._log_first_failure(str(fault), fault)

    async def run_once(self) -> None:
        """Do the tasks that are due. Raises Unavailable, and VaultError if the signing key cannot be decrypted."""
        config = self._current.generation.config.audit
        self._store.trail.record_written.clear()
        if await self._store.audit.append_to_chain():
            self._may_need_checkpoint = True
        if self._may_need_checkpoint:
            await self._checkpoint(config)
        if self._unsent_checkpoint is not None and clock.monotonic() >= self._send_at:
            await self._send(config)
        if clock.monotonic() >= self._prune_at:
            self._prune_at = clock.monotonic() + PRUNE_EVERY_S
            await self._prune(config)

    def _log_first_failure(self, reason: str, fault: Exception | None) -> None:
        """Log only the first of several failures in a row. Until the next success, new records stay in the store
        without a place in the hash chain."""
        if not self.failing:
            log.error("audit_not_sealed", detail=reason, effect="records wait without a checkpoint", exc_info=fault)
        self.failing = True

    async def _checkpoint(self, config: AuditConfig) -> None:
        chain_end, now = await self._store.audit.chain_end(), clock.now()
        if chain_end.sequence <= chain_end.signed:
            self._may_need_checkpoint = False
            return
        is_due = chain_end.signed_at is None or now - chain_end.signed_at >= timedelta(
            minutes=config.checkpoint_minutes
        )
        if not is_due and chain_end.sequence - chain_end.signed < config.checkpoint_records:
            return
        checkpoint = await self._store.audit.checkpoint(now=now, after=chain_end.signed)
        if checkpoint is None:
            return
        checkpoint_json = checkpoint.as_json()
        log.info("audit_checkpoint", **checkpoint_json)
        if config.checkpoint_file is not None:
            await asyncio.to_thread(_append, config.checkpoint_file, json.dumps(checkpoint_json))
        if config.checkpoint_url:
            self._unsent_checkpoint, self._send_at = checkpoint, 0.0

    async def _send(self, config: AuditConfig) -> None:
        """Send the newest checkpoint. An earlier checkpoint that was never sent does not matter, because the newest
        checkpoint proves the same records."""
        checkpoint = self._unsent_checkpoint
        if checkpoint is None or not config.checkpoint_url:
            self._unsent_checkpoint = None
            return
        body = json.dumps({"type": "audit.checkpoint", "data": checkpoint.as_json()}).encode()
        response = await send(self._current.generation.egress, config.checkpoint_url, body, JSON, clock.now())
        if response.status is not None and 200 <= response.status < 300:
            self._unsent_checkpoint = None
            return
        self._send_at = clock.monotonic() + SEND_AGAIN_S
        log.warning("audit_checkpoint_not_sent", sequence=checkpoint.sequence, status=response.status)

    async def _prune(self, config: AuditConfig) -> None:
        now = clock.now()
        if not await self._store.tasks.hold(
            PRUNE_TASK, owner=self._owner, now=now, ttl=timedelta(seconds=PRUNE_EVERY_S)
        ):
            return
        await self._store.uses.prune(now - timedelta(days=config.uses_days))
        await self._store.audit.finish_pruning()
        if config.keep_days:
            kept_from = now - timedelta(days=config.keep_days)
            if await self._store.audit.is_oldest_before(kept_from - MIN_OVERDUE):
                await self._store.audit.prune(kept_from, now=now)
        self._store.pruned_at["audit"] = now


def _append(path: Path, line: str) -> None:
    """Append `line` to the file and sync it. A failure is only logged, because the checkpoint is also in the
    log."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as fault:
        log.error("audit_checkpoint_file_unwritable", path=str(path), detail=fault.strerror)
