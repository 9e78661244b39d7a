"""Connect sessions, authorizations under way (flows) and the results of authorizations, all stored by digests."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.errors import Forbidden
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Flow, NewFlow, Outcome, SessionTerms
from gateway.records.connection import Sealed
from gateway.store.connection_rows import end_user_from_json, end_user_to_json
from gateway.store.data_keys import DataKeys
from gateway.store.tables import UtcTime, connect_sessions, flow_results, flows
from gateway.store.transactions import NOTIFIES, Transactions
from gateway.text import counted as number_of
from gateway.vault import Vault

# ── Connect sessions. A session is stored by the digest of its token; the token itself is not stored.

PINNED: Final = ""
# the time to finish an authorization that began before its session expired
COUNTED_AFTER: Final = timedelta(minutes=10)
SESSION_COLUMNS: Final = tuple(column.name for column in connect_sessions.columns)


class SessionStore:
    """Connect sessions. A session can be used until it expires or is deleted.

    The column `defaults` is sealed, because defaults can contain secrets.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def add(self, session: ConnectSession, *, max_open: int | None = None) -> datetime | None:
        """Store the session and return None.

        `max_open`: how many open sessions the session's key may have; None for no limit. If the limit is reached,
        store nothing, and return when the first open session of the key expires.
        """
        row = {
            **{name: getattr(session, name) for name in SESSION_COLUMNS},
            "end_user": end_user_to_json(session.end_user),
            "allowed_integrations": list(session.allowed_integrations),
        }

        async def write(db: AsyncConnection) -> datetime | None:
            if max_open is not None:
                if db.dialect.name == "postgresql":  # other writers, whose sessions the count would miss, must wait
                    name = f"connect_sessions {session.environment} {session.key_id}"
                    await db.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
                condition = (
                    connect_sessions.c.environment == session.environment,
                    connect_sessions.c.key_id == session.key_id,
                    connect_sessions.c.expires_at > clock.now(),
                )
                open_sessions = (
                    select(connect_sessions.c.expires_at).where(*condition).order_by(connect_sessions.c.expires_at)
                )
                last_expiry = (await db.execute(open_sessions.offset(max_open - 1).limit(1))).scalar()
                if last_expiry is not None:
                    first_expiry: datetime | None = (await db.execute(open_sessions.limit(1))).scalar()
                    return first_expiry
            # `pinned` is stored among the defaults, under the empty text, which is no integration's id. Because the
            # defaults are sealed, a person who can write to the table cannot remove `pinned`.
            stored_defaults = {**session.defaults, **({PINNED: {}} if session.pinned else {})}
            sealed = self._vault.seal_json(stored_defaults, **_session_seal_place(session.environment, session.digest))
            await db.execute(insert(connect_sessions).values(row | {"defaults": sealed.ciphertext}))
            return None

        return await self._transactions.write(write, before=lambda: self._keys.allow(session.environment))

    async def get(self, digest: str, *, now: datetime) -> ConnectSession | None:
        """Return the session whose token has this digest; None if the session does not exist or has expired."""
        session_query = select(connect_sessions).where(
            connect_sessions.c.digest == digest, connect_sessions.c.expires_at > now
        )
        async with self._transactions.read() as db:
            row = (await db.execute(session_query)).mappings().first()
        return None if row is None else await self._session_of(dict(row))

    async def has_existed(self, digest: str, environment: str) -> bool:
        """Return whether the session exists, or has existed: it has expired or was deleted.

        For an hour after its deletion, a row of `flow_results` proves that the session has existed.
        """
        matches = (connect_sessions.c.digest == digest, connect_sessions.c.environment == environment)
        condition = (flow_results.c.session_digest == digest, flow_results.c.environment == environment)
        query = select(exists().where(*matches) | exists().where(*condition))
        async with self._transactions.read() as db:
            return bool((await db.execute(query)).scalar())

    async def delete(self, digest: str) -> bool:
        """Delete the session. Return whether the session existed."""
        return await self._transactions.write(lambda db: delete_sessions(db, connect_sessions.c.digest == digest)) == 1

    async def keep_for_browser(self, digest: str, browser_digest: str) -> bool:
        """Bind the session to the browser whose cookie has this digest.

        Returns False if the session is bound to another browser or does not exist. Of several concurrent browsers, only
        one succeeds.
        """
        condition = connect_sessions.c.digest == digest
        statement = (
            update(connect_sessions)
            .where(condition, _may_serve_browser(browser_digest))
            .values(browser_digest=browser_digest)
        )
        return (await self._transactions.write(lambda db: db.execute(statement))).rowcount == 1

    async def prune(self, now: datetime) -> None:
        """Delete expired sessions.

        A session with a limit of connections stays for the additional time `COUNTED_AFTER`, so that its last
        connections are counted.
        """
        table = connect_sessions.c
        uncounted_expired = and_(table.max_connections.is_(None), table.expires_at <= now)
        await self._transactions.write(
            lambda db: delete_sessions(db, or_(uncounted_expired, table.expires_at <= now - COUNTED_AFTER))
        )

    async def _session_of(self, row: dict[str, Any]) -> ConnectSession:
        sealed = Sealed(row["defaults"], **_session_seal_place(row["environment"], row["digest"]))
        await self._keys.load_keys_of(sealed)
        row["defaults"] = self._vault.open_json(sealed)
        row["pinned"] = row["defaults"].pop(PINNED, None) is not None
        row["end_user"] = end_user_from_json(row["end_user"])
        row["allowed_integrations"] = tuple(row["allowed_integrations"])
        return ConnectSession(**row)


async def delete_sessions(db: AsyncConnection, condition: ColumnElement[bool]) -> int:
    """Delete these sessions. Return how many were deleted.

    Also stores a result for each, so that polling clients see that the session has ended.
    """
    ended_query = select(
        connect_sessions.c.environment,
        connect_sessions.c.digest,
        literal(""),
        false(),
        literal(SESSION_ENDED),
        literal(clock.now(), UtcTime),
    ).where(condition)
    names = ["environment", "session_digest", "integration_id", "is_pending", "error_type", "at"]
    await db.execute(insert(flow_results).from_select(names, ended_query))
    return (await db.execute(delete(connect_sessions).where(condition))).rowcount


async def count_connection(db: AsyncConnection, terms: SessionTerms, *, replaces: bool = False) -> None:
    """Count a session's new connection. Runs in the transaction that stores the connection and has locked its row.

    `replaces`: whether the connection replaces a connection that is already counted. A single statement makes two
    checks and locks the session until the commit: the limit is not reached, and the session is not bound to another
    browser. Raises Forbidden if a check fails, or if the session had limits and was deleted.
    """
    table = connect_sessions.c
    conditions = [table.digest == terms.session_digest]
    if not replaces:
        conditions.append(or_(table.max_connections.is_(None), table.connections_made < table.max_connections))
    if terms.browser_digest is not None:
        conditions.append(_may_serve_browser(terms.browser_digest))
    statement = update(connect_sessions).where(*conditions)
    connections_made = table.connections_made if replaces else table.connections_made + 1
    if (await db.execute(statement.values(connections_made=connections_made))).rowcount:
        return
    limits_query = select(table.max_connections, table.browser_digest).where(table.digest == terms.session_digest)
    row = (await db.execute(limits_query)).mappings().first()
    if terms.browser_digest is not None and row and row["browser_digest"] not in {None, terms.browser_digest}:
        raise bound_to_other_browser_error()
    if (terms.limited and not replaces) or terms.browser_digest is not None:
        raise session_used_up_error(row["max_connections"] if row else None)


def _may_serve_browser(browser_digest: str) -> ColumnElement[bool]:
    """Return the condition that a session is bound to this browser or to none yet."""
    bound_browser = connect_sessions.c.browser_digest
    return or_(bound_browser.is_(None), bound_browser == browser_digest)


async def uncount_connection(db: AsyncConnection, session_digest: str) -> None:
    """Decrement a session's count of connections. Runs in the transaction that removes a pending connection."""
    table = connect_sessions.c
    statement = update(connect_sessions).where(table.digest == session_digest, table.connections_made > 0)
    await db.execute(statement.values(connections_made=table.connections_made - 1))


def session_used_up_error(max_connections: int | None) -> Forbidden:
    """Return the error for a session that has reached its limit of connections.

    `max_connections`: the limit; None if the session was ended in another way.
    """
    reached_limit = (
        f"has reached its limit of {number_of(max_connections, 'connection')}" if max_connections else "was ended"
    )
    return Forbidden("connect_session_used", f"This link {reached_limit}. Ask the application for a new link.")


def bound_to_other_browser_error() -> Forbidden:
    """Return the error for a session that is bound to another browser."""
    return Forbidden(
        "connect_session_in_use",
        "This link is already in use in another browser. Continue there, or ask the application for a new link.",
    )


def _session_seal_place(environment: str, digest: str) -> dict[str, Any]:
    return {"environment": environment, "table": "connect_sessions", "row": digest, "column": "defaults", "version": 1}


# ── Authorizations under way (flows), stored by the digest of `state`. A flow can be used only once (RFC 9700 §4.7).

KEEP_FOR: Final = timedelta(hours=1)
FLOW_COLUMNS: Final = tuple(column.name for column in flows.columns)


class FlowStore:
    """Authorizations under way.

    The details of a flow, such as the PKCE verifier, are stored and returned sealed. `Store.open` opens them.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def add(self, new_flow: NewFlow) -> Flow:
        """Seal and store a flow."""

        async def write(db: AsyncConnection) -> Flow:
            place = _flow_seal_place(new_flow.environment, new_flow.state_digest)
            row: dict[str, Any] = {name: getattr(new_flow, name) for name in FLOW_COLUMNS if name != "details"}
            details = self._vault.seal_json(new_flow.details.as_json(), **place)
            await db.execute(insert(flows).values(row | {"details": details.ciphertext}))
            return Flow(**row, details=details)

        return await self._transactions.write(write, before=lambda: self._keys.allow(new_flow.environment))

    async def get(self, state_digest: str, *, now: datetime) -> Flow | None:
        """Return the flow whose `state` has this digest; None if the flow was used or has expired."""
        async with self._transactions.read() as db:
            row = (await db.execute(select(flows).where(_alive(state_digest, now)))).mappings().first()
        return None if row is None else await self._flow(row)

    async def consume(self, state_digest: str, *, now: datetime) -> Flow | None:
        """Delete the flow, and return it as `get` does. Of several concurrent callers, only one gets the flow."""

        async def take(db: AsyncConnection) -> RowMapping | None:
            row = (await db.execute(select(flows).where(_alive(state_digest, now)))).mappings().first()
            result = await db.execute(delete(flows).where(_alive(state_digest, now)))
            return row if result.rowcount == 1 else None

        row = await self._transactions.write(take)
        return None if row is None else await self._flow(row)

    async def count_not_returned(
        self, environment: str, *, expires_after: datetime, expires_until: datetime
    ) -> dict[str, tuple[int, datetime]]:
        """Return, by integration, how many flows wait for a browser that has not returned.

        Counts only flows that expire after `expires_after` and until `expires_until`. Also returns when the last of
        these flows expires.
        """
        conditions = (
            flows.c.environment == environment,
            flows.c.browser_digest != "",  # empty: the end user has not confirmed yet, so the flow is not counted
            flows.c.expires_at > expires_after,
            flows.c.expires_at <= expires_until,
        )
        group, expires_at = flows.c.integration_id, flows.c.expires_at
        async with self._transactions.read() as db:
            rows = (
                await db.execute(select(group, func.count(), func.max(expires_at)).where(*conditions).group_by(group))
            ).all()
        return {row[0]: (row[1], row[2]) for row in rows}

    async def prune(self, now: datetime) -> None:
        """Delete flows an hour after they have expired.

        During this hour, an expired flow cannot be used, but `count_not_returned` counts it.
        """
        await self._transactions.write(lambda db: db.execute(delete(flows).where(flows.c.expires_at <= now - KEEP_FOR)))

    async def _flow(self, row: RowMapping) -> Flow:
        fields = dict(row)
        details = Sealed(fields.pop("details"), **_flow_seal_place(row["environment"], row["state_digest"]))
        await self._keys.load_keys_of(details)
        return Flow(**fields, details=details)


def _flow_seal_place(environment: str, state_digest: str) -> dict[str, Any]:
    return {"environment": environment, "table": "flows", "row": state_digest, "column": "details", "version": 1}


def _alive(state_digest: str, now: datetime) -> Any:
    return and_(flows.c.state_digest == state_digest, flows.c.expires_at > now)


# ── Results of authorizations. A result is kept for an hour, and also as long as its session exists. Other nodes read
# the results here.

MAX_RESULTS: Final = 1000
MAX_KEPT_FAILURES: Final = 100  # per session; older failures are deleted
RESULT_COLUMNS: Final = tuple(column.name for column in flow_results.columns if column.name != "id")


class ReturnedCounts(NamedTuple):
    """How many authorizations succeeded and failed, and the time of the last success and failure (None: never)."""

    succeeded: int = 0
    failed: int = 0
    succeeded_at: datetime | None = None
    failed_at: datetime | None = None


class FlowResults:
    """Results of authorizations. A result contains no secret, only digests of tokens.

    Rows are never changed, only added, and removed by age. Of a session's failures, only the newest `MAX_KEPT_FAILURES`
    are kept.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, outcome: Outcome) -> None:
        """Store a result, and notify other nodes, because a caller of another node can be waiting for it."""

        async def write(db: AsyncConnection) -> None:
            await db.execute(insert(flow_results).values({name: getattr(outcome, name) for name in RESULT_COLUMNS}))
            if outcome.is_failed_attempt:
                failures = (flow_results.c.session_digest == outcome.session_digest, _is_failed_attempt())
                newest_query = select(flow_results.c.id).where(*failures).order_by(flow_results.c.id.desc())
                newest_surplus_id = newest_query.offset(MAX_KEPT_FAILURES).limit(1).scalar_subquery()
                await db.execute(delete(flow_results).where(*failures, flow_results.c.id <= newest_surplus_id))
            db.info[NOTIFIES] = True

        await self._transactions.write(write)

    async def list_since(self, moment: datetime) -> list[Outcome]:
        """Return the newest results since `moment`, at most 1000.

        The clocks of nodes differ, so pass a time that is slightly too early.
        """
        recent_query = select(flow_results).where(
            flow_results.c.at >= moment, flow_results.c.error_type.is_distinct_from(SESSION_ENDED)
        )
        return await self._read_outcomes(recent_query.order_by(flow_results.c.at.desc()).limit(MAX_RESULTS))

    async def find_by_session(self, session_digest: str) -> list[Outcome]:
        """Return the results of a session: its last 1000 connections and its last 100 failures, the oldest first."""
        newest_query = select(flow_results).order_by(flow_results.c.id.desc())
        of_session = newest_query.where(flow_results.c.session_digest == session_digest)
        async with self._transactions.read() as db:
            outcomes = (await db.execute(of_session.where(~_is_failed_attempt()).limit(MAX_RESULTS))).mappings().all()
            failed = (
                (await db.execute(of_session.where(_is_failed_attempt()).limit(MAX_KEPT_FAILURES))).mappings().all()
            )
        return [_outcome(row) for row in sorted((*outcomes, *failed), key=lambda row: int(row["id"]))]

    async def find_by_flow(self, flow_digest: str) -> Outcome | None:
        """Return the result of the authorization whose `state` has this digest; None if there is no result."""
        outcomes = await self._read_outcomes(
            select(flow_results).where(flow_results.c.flow_digest == flow_digest).limit(1)
        )
        return outcomes[0] if outcomes else None

    async def count_returned(self, environment: str, *, since: datetime) -> dict[str, ReturnedCounts]:
        """Return how many authorizations succeeded and failed, by integration.

        Counts the authorizations whose browser returned at `since` or later.
        """
        returned = (
            flow_results.c.environment == environment,
            flow_results.c.flow_digest.is_not(None),
            flow_results.c.at >= since,
        )
        group, returned_at, fault = flow_results.c.integration_id, flow_results.c.at, flow_results.c.error_type
        counts = (func.count() - func.count(fault), func.count(fault))
        newest = (func.max(case((fault.is_(None), returned_at))), func.max(case((fault.is_not(None), returned_at))))
        async with self._transactions.read() as db:
            rows = (await db.execute(select(group, *counts, *newest).where(*returned).group_by(group))).all()
        return {row[0]: ReturnedCounts(*row[1:]) for row in rows}

    async def prune(self, now: datetime) -> None:
        of_session = select(connect_sessions.c.digest).where(connect_sessions.c.digest == flow_results.c.session_digest)
        old_results_delete = delete(flow_results).where(flow_results.c.at < now - KEEP_FOR, ~exists(of_session))
        await self._transactions.write(lambda db: db.execute(old_results_delete))

    async def _read_outcomes(self, query: Select[Any]) -> list[Outcome]:
        async with self._transactions.read() as db:
            rows: Sequence[RowMapping] = (await db.execute(query)).mappings().all()
        return [_outcome(row) for row in rows]


def _outcome(row: RowMapping) -> Outcome:
    return Outcome(**{name: row[name] for name in RESULT_COLUMNS})


def _is_failed_attempt() -> ColumnElement[bool]:
    """Return the condition that a result is a failed attempt.

    A failure with `is_pending` is not a failed attempt: the connection was made, but the application did not complete
    it.
    """
    conditions = (flow_results.c.error_type.is_not(None), flow_results.c.error_type != SESSION_ENDED)
    return and_(*conditions, flow_results.c.is_pending.is_(False))
