"""Sign-ins to the console: single-use links and sessions, both stored by digests."""

import secrets
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.audit import AuditAction, AuditActor, AuditEntry
from gateway.records.console import ROLES, ConsoleRole, ConsoleSession
from gateway.secret import Secret, digest
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.tables import console_sessions
from gateway.store.transactions import Transactions, insert_if_absent

CONSOLE: Final = "console"
"""The command that audit records name for an operator who uses the console."""
LINK: Final = "link"
SESSION: Final = "session"
SEEN: Final = "seen"
"""The kind of a row for a person whom a trusted proxy has named. The row is not a session.

The row shows that the sign-in of the person is already recorded. No further record is needed until the row expires.
"""
COLUMNS: Final = (console_sessions.c.name, console_sessions.c.role, console_sessions.c.expires_at)


LINK_LIFE: Final = timedelta(minutes=10)


class ConsoleSessionStore:
    def __init__(self, transactions: Transactions, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail

    async def add_link(self, digest: str, session: ConsoleSession) -> None:
        """Store a link that is valid until `session.expires_at`. `digest`: hex SHA-256 digest of the link's token."""
        await self._transactions.write(lambda db: _add(db, digest, LINK, session))

    async def sign_in(
        self, link_digest: str, session_digest: str, *, ends_at: datetime, now: datetime
    ) -> ConsoleSession | None:
        """Use up the link, and start a session that ends at `ends_at`.

        Returns None if the link was already used, has expired or does not exist.
        """
        table = console_sessions.c
        if await self._find(link_digest, LINK, now) is None:
            return None  # anyone can send a wrong link, so a wrong link must not enter the queue of writes
        entry = AuditEntry.of(AuditAction.OPERATOR_SIGNED_IN, at=now)
        link_delete = (
            delete(console_sessions).where(table.digest == link_digest, table.kind == LINK).returning(*COLUMNS)
        )

        async def write(db: AsyncConnection) -> ConsoleSession | None:
            row = (await db.execute(link_delete)).one_or_none()
            if row is None or row.expires_at <= now:
                return None
            session = ConsoleSession(row.name, _role(row.role), ends_at)
            await _add(db, session_digest, SESSION, session)
            actor = AuditActor("operator", name=row.name, command=CONSOLE, address=entry.actor.address)
            await self._trail.record(db, replace(entry, actor=actor, detail={"role": row.role}))
            return session

        return await self._transactions.write(write)

    async def begin(self, session_digest: str, session: ConsoleSession, *, method: str, now: datetime) -> None:
        """Start a session for a person. `method`: how the person was identified, such as ``oidc``."""
        entry = AuditEntry.of(AuditAction.OPERATOR_SIGNED_IN, at=now)

        async def write(db: AsyncConnection) -> None:
            await _add(db, session_digest, SESSION, session)
            await self._add_audit_entry(db, entry, session, method)

        await self._transactions.write(write)

    async def record_identity_sign_in(self, session: ConsoleSession, *, method: str, now: datetime) -> bool:
        """Record the sign-in of a person whom ``identity_headers`` names and who has no stored session.

        Until `session.expires_at`, only the first sign-in with this name and role is recorded. Returns whether this
        sign-in was recorded.
        """
        table = console_sessions.c
        key = digest(f"{method} {session.role} {session.name}")
        query = select(table.digest).where(table.digest == key, table.kind == SEEN, table.expires_at > now)
        async with self._transactions.read() as db:
            if (await db.execute(query)).first() is not None:
                return False
        entry = AuditEntry.of(AuditAction.OPERATOR_SIGNED_IN, at=now)
        expired_delete = delete(console_sessions).where(table.digest == key, table.expires_at <= now)
        row = {"digest": key, "kind": SEEN, "name": session.name, "role": session.role}

        async def write(db: AsyncConnection) -> bool:
            await db.execute(expired_delete)
            values = {**row, "expires_at": session.expires_at}
            if not await insert_if_absent(db, console_sessions, values, key=("digest",)):
                return False
            await self._add_audit_entry(db, entry, session, method)
            return True

        return await self._transactions.write(write)

    async def _add_audit_entry(
        self, db: AsyncConnection, entry: AuditEntry, session: ConsoleSession, method: str
    ) -> None:
        actor = AuditActor("operator", name=session.name, command=CONSOLE, address=entry.actor.address)
        await self._trail.record(db, replace(entry, actor=actor, detail={"role": session.role, "by": method}))

    async def get(self, session_digest: str, *, now: datetime) -> ConsoleSession | None:
        """Return the session whose token has this digest; None if the session does not exist or has expired."""
        return await self._find(session_digest, SESSION, now)

    async def _find(self, digest: str, kind: str, now: datetime) -> ConsoleSession | None:
        table = console_sessions.c
        query = select(*COLUMNS).where(table.digest == digest, table.kind == kind, table.expires_at > now)
        async with self._transactions.read() as db:
            row = (await db.execute(query)).one_or_none()
        return None if row is None else ConsoleSession(row.name, _role(row.role), row.expires_at)

    async def end(self, session_digest: str, *, now: datetime) -> None:
        """End the session if there is one. Without one, nothing is written, because anyone can send a wrong cookie."""
        if await self._find(session_digest, SESSION, now) is None:
            return
        entry = AuditEntry.of(AuditAction.OPERATOR_SIGNED_OUT, at=now)
        session_delete = delete(console_sessions).where(console_sessions.c.digest == session_digest).returning(*COLUMNS)

        async def write(db: AsyncConnection) -> None:
            row = (await db.execute(session_delete)).one_or_none()
            if row is not None:
                actor = AuditActor("operator", name=row.name, command=CONSOLE, address=entry.actor.address)
                await self._trail.record(db, replace(entry, actor=actor, detail={"role": row.role}))

        await self._transactions.write(write)

    async def end_all(self) -> int:
        """End every session and delete every unused link. Return the number of deleted rows."""
        entry = AuditEntry.of(AuditAction.OPERATOR_SIGNED_OUT)
        statement = delete(console_sessions).where(console_sessions.c.kind != SEEN).returning(console_sessions.c.digest)

        async def write(db: AsyncConnection) -> int:
            ended_count = len((await db.execute(statement)).all())
            if ended_count:
                await self._trail.record(db, replace(entry, detail={"ended": ended_count}))
            return ended_count

        return await self._transactions.write(write)

    async def prune(self, now: datetime) -> None:
        expired_delete = delete(console_sessions).where(console_sessions.c.expires_at <= now)
        await self._transactions.write(lambda db: db.execute(expired_delete))


async def new_link(
    store: ConsoleSessionStore, name: str, role: ConsoleRole, *, life: timedelta = LINK_LIFE
) -> tuple[Secret, ConsoleSession]:
    """Store a single-use link with which `name` can sign in.

    Return the link's token, and the name, role and expiry of the link. The session that it starts gets its own expiry.
    """
    token = Secret(secrets.token_urlsafe(32))
    session = ConsoleSession(name, role, clock.now() + life)
    await store.add_link(digest(token.reveal()), session)
    return token, session


async def _add(db: AsyncConnection, digest: str, kind: str, session: ConsoleSession) -> None:
    values = {"name": session.name, "role": session.role, "expires_at": session.expires_at}
    await db.execute(insert(console_sessions).values({**values, "digest": digest, "kind": kind}))


def _role(name: str) -> ConsoleRole:
    return next(role for role in ROLES if role == name)
