"""Stores the connections of connect sessions. With a code challenge, a connection is pending until it is completed.

A pending connection is stored encrypted in its own table. No list contains a pending connection, and no call can use
it. During a reconnect, the existing connection keeps working with its old credential. If the application does not
complete a pending connection within `LIFETIME`, the gateway deletes it and revokes its grant at the provider.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.authorization.outcomes import Outcomes
from gateway.background import ShieldedTasks
from gateway.connections.create import Creator, missing_connection_error
from gateway.connections.delete import Revoker
from gateway.connections.verify import check_same_account
from gateway.errors import Conflict, Forbidden, GatewayError, InvalidRequest, NotFound, exc_info_of
from gateway.generation import CurrentGeneration
from gateway.oauth.authorize import challenge
from gateway.records.connecting import ConnectSession, Outcome, PendingConnection, SessionTerms
from gateway.records.connection import Connection, ConnectionRef, NewConnection, log_fields
from gateway.secret import Secret
from gateway.store import Store

LIFETIME: Final = timedelta(minutes=10)
MAX_WRONG_VERIFIERS: Final = 5
EXPIRY_INTERVAL_S: Final = 60.0
EXPIRED_MESSAGE: Final = "The application did not complete this connection within 10 minutes. Connect again."
WRONG_VERIFIERS_MESSAGE: Final = "The application sent 5 wrong code verifiers for this connection. Connect again."

log = structlog.get_logger(__name__)


class SessionConnections:
    """Stores and completes the connections of connect sessions, for authorizations, typed credentials and the API."""

    def __init__(
        self, store: Store, current: CurrentGeneration, creator: Creator, outcomes: Outcomes, revoker: Revoker
    ) -> None:
        self._store = store
        self._current = current
        self._creator = creator
        self._outcomes = outcomes
        self._revoker = revoker
        self._tasks = ShieldedTasks()
        self._closed = False

    async def store(
        self, row: NewConnection, terms: SessionTerms, *, reconnects: bool = False
    ) -> Connection | PendingConnection:
        """Store the connection and return it. If the session has a code challenge, store the connection as pending.
        `reconnects`: whether the connection replaces an existing connection.

        Raises Forbidden, and stores nothing, if the session has reached its maximum number of connections or belongs to
        another browser (`SessionTerms.browser_digest`).
        """
        if terms.code_challenge is None:
            connection, _ = await self._creator.store(row, terms)
            return connection
        until = clock.now() + LIFETIME
        pending, replaced_connections = await self._store.pending.add(
            row, terms, expires_at=until, reconnects=reconnects
        )
        log.info("connection_pending", **log_fields(row.ref), until=until.isoformat())
        for replaced_connection in replaced_connections:
            await self._end_grant(replaced_connection, except_for=pending)
        return pending

    async def complete(
        self,
        session: ConnectSession | None,
        pending: Sequence[PendingConnection],
        code_verifier: Secret,
    ) -> list[ConnectionRef]:
        """Store a session's `pending` connections, and return the references of all completed connections. A second
        call with the same verifier returns the same references. `session`: None if the session has ended in the
        meantime.

        Raises InvalidRequest if the session has no code challenge, or if the connection to reconnect is gone or belongs
        to another account. Raises NotFound if the integration is gone, and Forbidden for a wrong verifier. Raises
        Conflict if no connection is pending, or if several connections are pending.

        If the caller is cancelled, the work continues, so that every completed connection is reported, and every
        dropped grant is revoked.
        """
        return await self._tasks.run(self._complete(session, pending, code_verifier))

    async def close(self, within_s: float = 15) -> None:
        """Wait for work in progress, at most `within_s` seconds. Expired connections that are left wait for the next
        start."""
        self._closed = True
        await self._tasks.close(within_s)

    async def _complete(
        self,
        session: ConnectSession | None,
        pending: Sequence[PendingConnection],
        code_verifier: Secret,
    ) -> list[ConnectionRef]:
        code_challenge = next(
            (connection.code_challenge for connection in pending), session.code_challenge if session else None
        )
        if code_challenge is None:
            raise InvalidRequest(
                "invalid_body",
                "This connect session has no code_challenge, so its connections need no completion. Create sessions "
                "with a code_challenge to complete them.",
            )
        if Secret(challenge(code_verifier.reveal())) != Secret(code_challenge):
            await self._refuse_verifier(pending)
        if not pending:
            raise Conflict(
                "conflict",
                "This connect session has no pending connection: its end user has not connected yet, or it was not "
                "completed within 10 minutes. Let the end user connect, then complete it.",
            )
        waiting_refs = [connection.ref for connection in pending if connection.new is not None]
        if len(waiting_refs) > 1:  # another person with the link may have made one of these
            raise _several_pending_error(waiting_refs)
        completed_refs = [
            connection.ref
            for connection in pending
            if connection.new is None or await self._complete_one(connection, connection.new)
        ]
        if not completed_refs:  # the connection has expired meanwhile, or another node refused a verifier
            raise Conflict("conflict", "The pending connection has expired. Let the end user connect again.")
        return completed_refs

    async def expire(self) -> None:
        """Delete pending connections that were not completed in time, and revoke their grants.

        If the caller is cancelled, the revocation of a connection that is already deleted continues.
        """
        await self._tasks.run(self._expire())

    async def _expire(self) -> None:
        async with aclosing(self._store.pending.expire(clock.now())) as expired:
            async for connection in expired:
                await self._report_dropped(connection, EXPIRED_MESSAGE, "pending_connection_expired")
                if self._closed:
                    return

    async def _complete_one(self, pending: PendingConnection, new_connection: NewConnection) -> bool:
        """Complete a pending connection. Return True if the connection is completed, even by another call. Return False
        if the connection is no longer stored. If the connection can never be completed, drop it and raise
        InvalidRequest or NotFound."""

        def check(existing: Connection | None) -> None:
            if pending.reconnects and existing is None:
                raise missing_connection_error(pending.ref)
            provider = self._creator.provider_of(self._current.generation.integrations.get(*pending.ref[:2]))
            if existing is not None and pending.reconnects:
                check_same_account(provider, existing.account, new_connection.account)

        try:
            stored_connection = await self._store.pending.complete(pending, now=clock.now(), check=check)
        except (InvalidRequest, NotFound) as fault:
            if await self._store.pending.drop(pending):
                await self._report_dropped(pending, fault.message, "pending_connection_refused")
            raise
        if stored_connection is None:
            session_connections = await self._store.pending.find_by_session(pending.session_digest, now=clock.now())
            return any(
                other_pending.uid == pending.uid and other_pending.new is None for other_pending in session_connections
            )
        connection, created = stored_connection
        self._creator.record_stored(connection, new_connection, created=created)
        await self._outcomes.publish(_outcome(pending, connection_id=pending.ref.connection_id))
        return True

    async def _refuse_verifier(self, pending: Sequence[PendingConnection]) -> None:
        if pending:
            session_digest = pending[0].session_digest
            for refused_pending in await self._store.pending.refuse_verifier(session_digest, limit=MAX_WRONG_VERIFIERS):
                await self._report_dropped(refused_pending, WRONG_VERIFIERS_MESSAGE, "pending_connection_dropped")
        raise Forbidden(
            "invalid_code_verifier",
            "code_verifier does not match the session's code_challenge. Send the verifier from which the challenge was "
            "created, as stored in your own user's session.",
        )

    async def _report_dropped(self, pending: PendingConnection, reason: str, event: str) -> None:
        """Log that a pending connection was dropped, report this to callers that wait for the session, and revoke the
        grant."""
        log.warning(event, **log_fields(pending.ref))
        await self._outcomes.publish(
            _outcome(
                pending,
                connection_id=pending.ref.connection_id,
                is_pending=True,
                error_type="state_err",
                error_desc=reason,
                code="invalid_state",
            )
        )
        await self._end_grant(pending)

    async def _end_grant(self, pending: PendingConnection, except_for: PendingConnection | None = None) -> None:
        """Revoke the grant at the provider. Keep the grant if a connection, or the pending connection `except_for`, may
        use it too. Many providers have only one grant for each account and application, and revoke all its tokens
        together."""
        new_connection, integration = pending.new, self._current.generation.integrations.find(*pending.ref[:2])
        if new_connection is None or integration is None:
            return
        account = new_connection.account.id
        if except_for is not None and (account is None or except_for.account.id in {None, account}):
            return
        try:
            if await self._store.connections.get(pending.ref) is not None:
                return
            if account is not None and await self._store.connections.has_other_for_account(pending.ref, account):
                return
        except GatewayError as fault:
            log.warning("revocation_failed", connection_id=pending.ref.connection_id, detail=fault.message)
            return
        config = {**(new_connection.config or {}), **(new_connection.secret_config or {})}
        await self._revoker.revoke(
            pending.ref,
            new_connection.provider,
            integration,
            new_connection.credential,
            config,
            new_connection.metadata,
        )


def _several_pending_error(waiting_refs: Sequence[ConnectionRef]) -> Conflict:
    return Conflict(
        "connection_id_required",
        f"This connect session has {len(waiting_refs)} pending connections. Send the connection_id of the result that your "
        "signed-in user came back with.",
        payload={
            "pending": [
                {"provider_config_key": ref.integration_id, "connection_id": ref.connection_id} for ref in waiting_refs
            ]
        },
    )


async def expire_pending(session_connections: SessionConnections) -> None:
    """Call `SessionConnections.expire` regularly while the gateway runs."""
    while True:
        try:
            await session_connections.expire()
        except Exception as fault:  # after any failure, because the next run can succeed
            log.warning("prune_failed", what="pending connections", detail=str(fault), exc_info=exc_info_of(fault))
        await asyncio.sleep(EXPIRY_INTERVAL_S)


def _outcome(pending: PendingConnection, **members: object) -> Outcome:
    return Outcome(
        environment=pending.ref.environment,
        session_digest=pending.session_digest,
        integration_id=pending.ref.integration_id,
        at=clock.now(),
        **members,  # type: ignore[arg-type]
    )
