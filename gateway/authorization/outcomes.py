"""Reports the outcome of an authorization: to the waiting window, to other nodes, to the application, to the log.

The browser's WebSocket can be connected to one worker, and another worker can receive the callback. Therefore the
outcome is stored first. The change feed then makes every worker read the outcome and wake the windows that wait in this
worker (ADR 25).
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from gateway import clock
from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.auth.provider_responses import safe_text
from gateway.authorization.open_authorizations import OpenAuthorizations
from gateway.authorization.results import LIFETIME, CallbackRequest, ConnectedResult, SiteChoice, error_type
from gateway.errors import GatewayError, TooManyRequests
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.observe.masking import masked_text
from gateway.records.connecting import Flow, Outcome, PendingAuthorization
from gateway.records.connection import ConnectionRef
from gateway.records.event import Event
from gateway.records.operation import Operation, RecordOperation, current_request_id
from gateway.secret import digest
from gateway.store import Store
from gateway.text import counted

# ── Logs why an authorization failed: one warning per failure.

MAX_TEXT: Final = 300
MAX_CAUSES: Final = 5

log = structlog.get_logger(__name__)


def log_failure(
    fault: Exception,
    *,
    environment: str,
    integration: str,
    request_id: str,
    connection_id: str | None = None,
    query: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Log the failure, and return the fields of the log line.

    `query`: the callback's query, None if there was no callback. The query can contain the provider's error (RFC 6749
    §4.1.2.1). Secrets in a provider's text are masked, and long texts are shortened.
    """
    fields = {
        "environment": environment,
        "integration": _masked_text(integration),
        "connection_id": connection_id,
        "reason": fault.code if isinstance(fault, GatewayError) else "generic_error_support",
        **_provider_error_fields(fault, query or {}),
        "detail": _masked_text(fault.message) if isinstance(fault, GatewayError) else type(fault).__name__,
        "request_id": request_id,
    }
    log_fields = {name: text for name, text in fields.items() if text is not None}
    log.warning("authorization_failed", **log_fields)
    return log_fields


def _provider_error_fields(fault: Exception, query: Mapping[str, str]) -> dict[str, str | None]:
    cause = fault.__cause__
    for _ in range(MAX_CAUSES):  # bounded, because an error raised from itself is its own cause
        if not isinstance(cause, GatewayError):
            break
        cause = cause.__cause__
    if isinstance(cause, TokenRefused):
        return {"provider_error": _masked_text(cause.code), "provider_description": _masked_text(cause.description)}
    if isinstance(cause, TokenUnavailable):
        return {"provider_error": None, "provider_description": _masked_text(cause.reason)}
    if isinstance(fault, GatewayError) and fault.code == "connection_test_failed" and fault.payload:
        status = fault.payload.get("status")
        provider_message = fault.payload.get("provider_message")
        return {
            "provider_error": str(status) if status else None,
            "provider_description": _masked_text(provider_message),
        }
    return {
        "provider_error": _masked_text(query.get("error")),
        "provider_description": _masked_text(query.get("error_description") or query.get("error_reason")),
    }


def _masked_text(text: object) -> str | None:
    """Shorten the text, then mask the secrets in it. Return None if there is no text."""
    return masked_text(safe_text(text[:MAX_TEXT])) if isinstance(text, str) and text else None


# ── Publishes outcomes, and wakes the windows that wait for them.

MAX_FAILURES: Final = 100
"""Maximum number of failures of one connect session that this process stores within `LIFETIME`. The limit for attempts
does not limit failures, because a callback from another browser fails without an attempt that is counted."""
RETRY_SOCKET_S: Final = 10
CLOCK_TOLERANCE: Final = timedelta(seconds=60)  # because the clocks of nodes differ, and a commit can be delayed


@dataclass(eq=False, slots=True)
class WaitingWindow:
    """A waiter for the outcome of one window, or for the outcomes of a whole session. `key`: the digest of the window's
    `ws_client_id`, or of the session's token."""

    key: str
    outcome: "asyncio.Future[Outcome | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resolve(self, outcome: Outcome | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Outcomes:
    """Publishes outcomes of authorizations, and wakes the windows that wait for these outcomes. The store is not
    queried while no window waits in this worker. `attempts`: counts the attempts that have not succeeded."""

    def __init__(self, store: Store, record_operation: RecordOperation = lambda _: None) -> None:
        self._store = store
        self._record_operation = record_operation
        self._waiting: dict[str, set[WaitingWindow]] = {}
        self._waiter_count = 0
        self._socket_counts: Counter[str] = Counter()  # by client
        self._last_read_at: datetime | None = None
        self.attempts = OpenAuthorizations()
        self._failures: WindowCounter[str] = WindowCounter(LIFETIME.total_seconds())  # by session

    @staticmethod
    def new_client() -> str:
        """Return a new `ws_client_id`. A page passes this ID to the window that it opens, and receives the window's
        outcome under this ID."""
        return str(uuid.uuid4())

    def is_full(self, limit: int) -> bool:
        """Return whether `limit` windows and pages already wait in this worker."""
        return self._waiter_count >= limit

    @contextmanager
    def count_socket(self, client: str, limit: int) -> Iterator[None]:
        """Count one open WebSocket of the IP address or network `client`. Raises TooManyRequests if `client` already
        has `limit` open WebSockets."""
        if self._socket_counts[client] >= limit:
            fix = f"Close others, or try again in {RETRY_SOCKET_S} s."
            raise TooManyRequests(
                "too_many_request",
                f"{counted(limit, 'WebSocket')} from this IP address already wait for a result: the limit "
                f"(connect.result_sockets_per_address). {fix}",
                payload={"limit": limit, **rule_and_fix("result_sockets_per_address", fix, "the gateway's operator")},
                retry_after_s=RETRY_SOCKET_S,
            )
        self._socket_counts[client] += 1
        try:
            yield
        finally:
            self._socket_counts[client] -= 1
            if not self._socket_counts[client]:
                del self._socket_counts[client]

    @contextmanager
    def waiter(self, key: str) -> Iterator[WaitingWindow]:
        """Yield the window that waits for the next outcome.

        `key`: the digest of a `ws_client_id`, or of a session's token.
        """
        window = WaitingWindow(key)
        self._waiting.setdefault(key, set()).add(window)
        self._waiter_count += 1
        if self._last_read_at is None:
            self._last_read_at = clock.now()
        try:
            yield window
        finally:
            self._waiter_count -= 1
            windows = self._waiting[key]
            windows.discard(window)
            if not windows:
                del self._waiting[key]
            if not self._waiting:
                self._last_read_at = None

    async def publish_failure(
        self,
        attempt: Outcome,
        fault: Exception,
        *,
        request_id: str,
        connection_id: str | None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        """Log that an attempt to connect failed, and publish the failure. If `fault` is not a GatewayError, its message
        is not published, because the message is not meant for end users.

        `attempt`: the outcome without a result. `request_id`, `connection_id`, `query`: for `log_failure`.
        """
        logged_fields = log_failure(
            fault,
            environment=attempt.environment,
            integration=attempt.integration_id,
            request_id=request_id,
            connection_id=connection_id,
            query=query,
        )
        gateway_error = fault if isinstance(fault, GatewayError) else None
        failed_outcome = replace(
            attempt,
            error_type=error_type(gateway_error) if gateway_error else "unknown_err",
            error_desc=gateway_error.message if gateway_error else "The gateway failed. Its log has the details.",
            code=gateway_error.code if gateway_error else "generic_error_support",
        )
        await self.publish(failed_outcome, logged_fields)

    async def publish(self, outcome: Outcome, failure: Mapping[str, str] | None = None) -> None:
        """Store the outcome, and wake its waiters. If the outcome cannot be stored, other workers miss the outcome, but
        the connection stays. After `MAX_FAILURES` failures of a session, further ones are not stored, and wake only the
        waiters of this worker.

        `failure`: the log fields of a failed authorization, None after a success.
        """
        if outcome.is_failed_attempt:
            self._failures.restart_if_over()
            if self._failures.add(outcome.session_digest) > MAX_FAILURES:
                self._deliver(outcome)
                return
        self._record_operation(_operation(outcome, failure or {}))
        try:
            await self._store.flow_results.add(outcome)
        except GatewayError as fault:
            log.warning("outcome_unsaved", integration=outcome.integration_id, detail=fault.message)
        self._deliver(outcome)

    async def deliver_stored_outcomes(self, serving: bool = True) -> None:
        """Read new outcomes from the store, and wake their waiters. The change feed calls this method after each change
        in the store, and at least once a second.

        `serving`: whether the worker still serves requests. If `serving` is false, all waiters are woken without an
        outcome.
        """
        if not self._waiting:
            return
        if not serving:
            for windows in list(self._waiting.values()):
                for window in list(windows):
                    window.resolve(None)
            return
        now = clock.now()
        earliest_time = (self._last_read_at or now) - CLOCK_TOLERANCE
        for outcome in reversed(await self._store.flow_results.list_since(earliest_time)):
            self._deliver(outcome)
        self._last_read_at = now if self._waiting else None

    def _deliver(self, outcome: Outcome) -> None:
        for key in (outcome.client_digest, outcome.session_digest):
            for window in list(self._waiting.get(key, ()) if key else ()):
                window.resolve(outcome)


def _operation(outcome: Outcome, failure: Mapping[str, str]) -> Operation:
    """Return the call log's record of this authorization."""
    detail: dict[str, Any] = {
        name: failure[name] for name in ("provider_error", "provider_description", "detail") if name in failure
    }
    if outcome.is_pending:
        detail["pending"] = True
    return Operation(
        "authorization",
        outcome.at,
        failure.get("request_id") or current_request_id.get(),
        outcome.environment,
        outcome.integration_id,
        outcome.connection_id or failure.get("connection_id", ""),
        error_code=None if outcome.succeeded else outcome.code,
        detail=detail,
    )


def client_digest(ws_client_id: str | None) -> str | None:
    """Return the digest under which a window's outcome is stored, or None if no window waits."""
    return digest(ws_client_id) if ws_client_id else None


# ── Notifies the customer's application of a connection that was not made (docs/compatibility.md#events).


async def report_failure(store: Store, flow: Flow, pending: PendingAuthorization, fault: GatewayError) -> None:
    """Store the event that reports a failed authorization to the application. In a reconnect, values that `pending`
    does not have (end user, tags, webhook URL) are taken from the existing connection. An error of the store is only
    logged, because the end user must see `fault`, not an error of the store.
    """
    ref = ConnectionRef(flow.environment, flow.integration_id, flow.connection_id)
    try:
        connection = await store.connections.get(ref)
        user = pending.end_user or (connection.end_user if connection else None)
        override = pending.webhook_url_override
        await store.outbox.add_failure(
            ref,
            pending.provider,
            Event.CREATION_FAILED,
            {
                "tags": dict(pending.tags) or (dict(connection.tags) if connection else {}),
                "end_user": asdict(user) if user else None,
                "operation": "override" if connection else "creation",
            },
            now=clock.now(),
            reason=fault.code,
            detail=fault.message,
            override=connection.webhook_url_override if override is None and connection else override,
        )
    except GatewayError as error:
        log.warning("failed_creation_not_reported", connection_id=ref.connection_id, detail=error.message)


# ── Sends the outcome of an authorization to all waiters before the browser gets it, because the browser may have
# disconnected.


class OutcomeReporter:
    """Reports to waiting windows and to the log how authorizations end. Failures are also reported to the
    application."""

    def __init__(self, store: Store, outcomes: Outcomes) -> None:
        self._store = store
        self._outcomes = outcomes

    async def report_result(
        self,
        flow: Flow,
        pending: PendingAuthorization,
        work: Coroutine[Any, Any, ConnectedResult | SiteChoice],
        callback: CallbackRequest,
    ) -> ConnectedResult | SiteChoice:
        """Await `work`, report the new connection or the failure, then return the result for the browser. Raises the
        errors of `work`."""
        try:
            result = await work
        except Exception as fault:
            await self.failure(flow, pending, fault, callback)
            if isinstance(fault, GatewayError):
                await report_failure(self._store, flow, pending, fault)
            raise
        if isinstance(result, ConnectedResult):
            connection_id = result.connection.ref.connection_id
            await self._outcomes.publish(
                _outcome(flow, pending, connection_id=connection_id, is_pending=result.is_pending)
            )
        return result

    async def failure(
        self, flow: Flow, pending: PendingAuthorization, fault: Exception, callback: CallbackRequest
    ) -> None:
        """Report an authorization that failed."""
        await self._outcomes.publish_failure(
            _outcome(flow, pending),
            fault,
            request_id=callback.request_id,
            connection_id=flow.connection_id,
            query=callback.query,
        )


def _outcome(flow: Flow, pending: PendingAuthorization, **members: Any) -> Outcome:
    return Outcome(
        environment=flow.environment,
        session_digest=flow.session_digest,
        integration_id=flow.integration_id,
        client_digest=pending.client,
        flow_digest=pending.began or flow.state_digest,
        browser_digest=pending.browser,
        at=clock.now(),
        **members,
    )
