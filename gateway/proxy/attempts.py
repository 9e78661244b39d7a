"""Sends the request of one exchange until there is a response to pass on, and signs it if the auth mode requires that.

There is one attempt unless the call asks for retries. After a 401, the token is refreshed and there is one attempt with
the new token. `http.retry` decides which requests may be sent again and when; the retry budget limits how often.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from aiohttp import hdrs, web

from gateway import clock
from gateway.access.caller import RateState
from gateway.connections.opened import OpenedConnection
from gateway.egress.egress_errors import EgressError
from gateway.egress.limits import Outcome
from gateway.egress.provider_exchange import ConnectionLost, ProviderExchange, ProviderResponse
from gateway.errors import BodyTooLarge, GatewayError
from gateway.generation import Generation
from gateway.http.content_coding import CodingError
from gateway.http.retry import RetryRules, allows_another_attempt, may_send_again, wait_s
from gateway.http.scope_challenge import refused_scopes
from gateway.middleware.access_log import unfinished_result
from gateway.middleware.facts import CALLER, CONNECTION, PROXY_OPTIONS, TIMING, TRACE, UPSTREAM
from gateway.middleware.upstream import place_credential, trace_headers
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.proxy.caller_body import CallerBody
from gateway.proxy.exchange_watch import ExchangeTimeout, ExchangeWatch
from gateway.records.integration import OWN
from gateway.records.trace import TRACEPARENT, AttemptTrace, CallTrace
from gateway.runtime import RUNTIME, generation_of

# ── The fast path hands over the first attempt of a request that the middleware chain must continue.

FirstOutcome: TypeAlias = ProviderExchange | EgressError | ExchangeTimeout | ConnectionLost | CodingError | GatewayError


class FastPathHandover(NamedTuple):
    """The state that the fast path hands over to the middleware chain.

    - `outcome`: response or fault of the first attempt
    - `spent_s`: seconds spent so far
    - `opened`: the connection whose credential the request carried
    - `generation`: the generation with which the request began
    - `body_kept`: True if the chain gets all bytes of the body received so far, False if it gets none of them
    - `received`: number of bytes of the body received so far
    - `waits_for_caller`: whether the fast path waited for the caller's next bytes
    - `rate_state`: rate limit of the key, in which this call is already counted; None without such a limit
    - `record_end`: records the call with a status and an error code, if the caller disconnects before the chain begins
    - `trace`: trace of a sampled call and its first attempt, or None
    """

    outcome: FirstOutcome
    spent_s: float
    opened: OpenedConnection
    generation: Generation
    body_kept: bool = True
    received: int = 0
    waits_for_caller: bool = False
    rate_state: RateState | None = None
    record_end: Callable[[int, str], None] | None = None
    trace: CallTrace | None = None

    def record_abandoned(self, *, stopped: bool) -> None:
        """Record a call that the middleware chain did not continue, because the caller disconnected first.

        `stopped`: whether the gateway closed the connection, because the gateway stops.
        """
        if self.record_end is not None:
            self.record_end(*unfinished_result(stopped=stopped))

    def discard(self) -> None:
        """Close the provider's response, if there is one, because it will not be read."""
        if isinstance(self.outcome, ProviderResponse):
            self.outcome.close()


# ── Signs `request[UPSTREAM]` for one attempt if the connection's auth mode signs requests.

MAX_COLLECTED_BYTES: Final = 16 * 1024 * 1024  # services that require a hash of the body accept no larger body


async def collect_body(request: web.Request, upload: CallerBody) -> None:
    """Read the whole body if the signature covers it or the catalog entry adds members to it. Raises BodyTooLarge."""
    placement, upstream = request[CONNECTION].placement, request[UPSTREAM]
    content_type, coding = (upstream.headers.get(name, "") for name in (hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING))
    members = (
        placement.body if placement.body and placement.body.can_add_to(request.method, content_type, coding) else None
    )
    signed = placement.signer is not None and placement.signer.wants_body(upstream)
    if not request.body_exists or not (signed or members):
        return
    body = await upload.read_whole(MAX_COLLECTED_BYTES)
    if body is None:
        raise BodyTooLarge(
            "body_too_large",
            f"The body exceeds {MAX_COLLECTED_BYTES >> 20} MiB, the limit for providers that need the credential in the body or "
            "a signature over it. For AWS, send the body's SHA-256 in hex as X-Amz-Content-Sha256: then it is streamed.",
            close=True,
        )
    if members is not None:
        add_members = members.add_to_body
        upload.replace(
            add_members(content_type, body)
            if len(body) <= INLINE_BYTES
            else await off_loop(request[CALLER].share, add_members, content_type, body)
        )


async def sign(request: web.Request, upload: CallerBody) -> None:
    """Sign the request for one attempt, with a new nonce and the current time. Await `collect_body` first."""
    signer = request[CONNECTION].placement.signer
    if signer is None:
        return
    upstream = request[UPSTREAM]
    body: bytes | None = b""
    if request.body_exists:
        body = await upload.read_whole(MAX_COLLECTED_BYTES) if signer.wants_body(upstream) else None
    if body is not None and len(body) > INLINE_BYTES:
        await off_loop(request[CALLER].share, signer.sign, upstream, body)
    else:
        signer.sign(upstream, body)


IDEMPOTENCY_KEY: Final = "Idempotency-Key"
# A response that is not passed on is read to its end if it has at most this many bytes. After that, the response's
# connection can be used again.
DISCARDED_MAX_BYTES: Final = 16 * 1024
DISCARDED_MAX_S: Final = 1.0
REFUSAL_STATUSES: Final = frozenset({401, 403})


class Attempts:
    """Sends a request until there is a response to pass on.

    `count`: number of attempts so far. `upgrade`: the protocol that the caller wants to switch to; None if the caller
    requests no upgrade. `refused_scopes`: the missing scopes that the response to pass on names; None if the response
    is not about scopes.
    """

    __slots__ = (
        "_generation",
        "_origin_limits",
        "_refreshed",
        "_refusal_recorded",
        "_request",
        "_retried",
        "_runtime",
        "_sent_with",
        "_timing",
        "_trace",
        "_upgrade",
        "_upload",
        "_waited_s",
        "_watch",
        "count",
        "refused_scopes",
    )

    def __init__(
        self, request: web.Request, upload: CallerBody, watch: ExchangeWatch, upgrade: str | None = None
    ) -> None:
        self.count = 0
        self.refused_scopes: tuple[str, ...] | None = None
        self._upgrade = upgrade
        self._request = request
        self._upload = upload
        self._watch = watch
        self._runtime, self._generation = request.app[RUNTIME], generation_of(request)
        self._timing = request[TIMING]
        self._trace = request.get(TRACE)
        upstream = request[UPSTREAM]
        self._origin_limits = self._runtime.egress_limits.for_origin((upstream.scheme, upstream.host, upstream.port))
        self._retried = 0
        self._waited_s = 0.0
        self._refreshed = False
        self._refusal_recorded = False
        # connection of the first attempt, if the fast path made that attempt
        self._sent_with: OpenedConnection | None = None

    async def response(self) -> ProviderExchange:
        """Return the response to pass on as soon as its head has arrived.

        Raises EgressError, ExchangeTimeout, BodyTooLarge, and the errors of `ConnectionCache.open_connection`.
        """
        self._origin_limits.budget.requests += 1
        await collect_body(self._request, self._upload)
        with self._timing.waiting_for_upstream():
            return await self._response()

    async def _response(self) -> ProviderExchange:
        while True:
            try:
                exchange = await self._send()
            except (EgressError, ExchangeTimeout) as fault:
                if not await self._retries_after_fault(fault):
                    raise
                continue
            try:
                attempt_allowed = allows_another_attempt(exchange.status, retries=self._retries_left)
                send_again = attempt_allowed and await self._retries_after_response(exchange)
            except BaseException:  # an error while waiting for a newer token, a time limit, or a disconnected caller
                exchange.close()
                raise
            if not send_again:
                self.refused_scopes = refused_scopes(exchange.status, exchange.headers)
                if self.refused_scopes is None:  # a 403 for missing scopes does not reject the credential
                    self._record_outcome(exchange.status)
                return exchange

    async def _send(self) -> ProviderExchange:
        fast_path_outcome = self._outcome_of_fast_path()
        if fast_path_outcome is not None and not isinstance(fast_path_outcome, ConnectionLost):
            return self._adopt_fast_path_attempt(fast_path_outcome)
        origin_limits = self._origin_limits
        probe = False if origin_limits.try_acquire() else await origin_limits.acquire()
        outcome: Outcome = "unknown"
        self._count_attempt()
        attempt = None if self._trace is None else self._trace_attempt(self._trace, again=fast_path_outcome is not None)
        try:
            await sign(self._request, self._upload)
            exchange = await self._generation.egress.send(
                self._request[UPSTREAM],
                self._upload.body(),
                upgrade=self._upgrade,
                on_new_connection=fast_path_outcome is not None,
            )
            outcome = "responded"
            if attempt is not None:
                attempt.end(status=exchange.status, peer=exchange.peer)
        except EgressError as fault:
            if attempt is not None:
                attempt.end(error=error_type(fault))
            if fault.is_provider_failure and self._upload.fault is None:
                outcome = "failed"
            raise
        except asyncio.CancelledError:
            timeout = self._watch.timeout_behind_cancellation()
            if attempt is not None:
                attempt.end(error="client_left" if timeout is None else error_type(timeout))
            if timeout is None:
                raise
            outcome = timeout.outcome(self._generation.egress.timeouts, waits_for_caller=self._upload.waits_for_caller)
            raise timeout from None
        finally:
            origin_limits.release(outcome, probe=probe)
        return exchange

    def _count_attempt(self) -> None:
        self.count += 1
        self._timing.attempts += 1

    def _adopt_fast_path_attempt(self, fast_path_outcome: ProviderExchange | Exception) -> ProviderExchange:
        """Return the response to the first attempt, which the fast path has made. Raise the fault if it failed."""
        self._count_attempt()
        first_trace = self._trace.attempts[-1] if self._trace is not None and self._trace.attempts else None
        if isinstance(fast_path_outcome, Exception):
            if first_trace is not None:
                first_trace.end(error=error_type(fast_path_outcome))
            raise fast_path_outcome
        if first_trace is not None:
            first_trace.end(status=fast_path_outcome.status, peer=fast_path_outcome.peer)
        return fast_path_outcome

    def _trace_attempt(self, trace: CallTrace, *, again: bool) -> AttemptTrace:
        """Return the trace of the attempt that begins now.

        `again`: whether the fast path has begun this attempt and lost its connection, so that its trace continues.
        """
        upstream = self._request[UPSTREAM]
        attempt = trace.attempts[-1] if again and trace.attempts else trace.attempt(upstream.host, upstream.port)
        if trace_headers(self._request[CONNECTION], self._generation) == OWN:
            upstream.headers.popall(TRACEPARENT, None)
            upstream.headers.add(TRACEPARENT, trace.traceparent(attempt.span_id))
        return attempt

    def _outcome_of_fast_path(self) -> FirstOutcome | None:
        """Return the outcome of the first attempt if the fast path made it; otherwise None.

        The time that the fast path spent is added to the time of this exchange.
        """
        take_handover = getattr(self._request.protocol, "take_handover", None)
        handover: FastPathHandover | None = take_handover() if take_handover is not None and self.count == 0 else None
        if handover is None:
            return None
        self._timing.began -= handover.spent_s
        self._timing.upstream_s += handover.spent_s
        self._watch.began_earlier(handover.spent_s)
        if not handover.body_kept:
            self._upload.is_kept = False
            self._request.content.total_bytes = handover.received
        self._upload.waits_for_caller = handover.waits_for_caller
        base_changed = handover.opened.base != self._request[CONNECTION].base  # the base URL was changed meanwhile
        if base_changed and self._may_repeat(sent=getattr(handover.outcome, "sent", True)):
            close = getattr(handover.outcome, "close", None)
            if close is not None:
                close()
            return None  # send the request to the new URL
        self._sent_with = handover.opened
        return handover.outcome

    async def _retries_after_fault(self, fault: EgressError | ExchangeTimeout) -> bool:
        """Return whether to send the request again after this fault. Before a retry, wait until the retry is due."""
        if isinstance(fault, EgressError):
            retry_may_help, sent = fault.is_provider_failure, fault.sent
        else:
            retry_may_help, sent = not self._upload.waits_for_caller and not fault.total, True
        return retry_may_help and self._may_repeat(sent=sent) and await self._wait_for_retry(None)

    async def _retries_after_response(self, exchange: ProviderExchange) -> bool:
        """Return whether to send the request again instead of passing this response on.

        Before a retry, close the response.
        """
        if exchange.status == 401 and not self._refreshed:
            self._refreshed = True
            if await self._refresh_rejected_token():
                await _read_and_close(exchange)
                return True
        if not self._retries_left or not self._may_repeat(sent=True):
            return False
        rules = self._rules()
        if not rules.asks_for_retry(exchange.status, exchange.headers):
            return False
        requested_wait_s = rules.requested_wait_s(exchange.status, exchange.headers, clock.now())
        return await self._wait_for_retry(requested_wait_s, exchange)

    async def _refresh_rejected_token(self) -> bool:
        """Refresh the token after a 401. Return whether the request now carries a newer token and may be sent again.

        If the request may not be sent again, start a refresh for the next request.
        """
        refreshes, sent_connection = self._runtime.live.early_refreshes, self._sent_with or self._request[CONNECTION]
        self._sent_with = None
        if not self._may_repeat(sent=True):
            self._refusal_recorded = True
            refresh_task = refreshes.start(sent_connection)  # helps the next request
            if self.at_own_api:
                path = self._request[UPSTREAM].target.partition("?")[0]
                refresh_task.add_done_callback(partial(self._record_refusal_later, sent_connection, path))
            return False
        if self._request[CONNECTION].connection.version > sent_connection.connection.version:
            return True  # the token was refreshed during the fast path's attempt; the request carries the newer token
        with self._watch.suspend_silence_limit(), self._timing.waiting_for_token():
            newer = await refreshes.newer_than(sent_connection)
        if newer is None:
            return False
        self._place_credential(newer)
        return True

    def _record_outcome(self, status: int) -> None:
        """Record whether the API accepts the credential. `status`: status of the response that is passed on."""
        rejections = self._runtime.live.rejections
        if status in REFUSAL_STATUSES:
            if not self._refusal_recorded and self.at_own_api:
                path = self._request[UPSTREAM].target.partition("?")[0]
                rejections.record_refusal(self._request[CONNECTION], status, path)
        elif rejections.suspected and (200 <= status < 300 or status == 101):
            ref = self._request[CONNECTION].connection.ref
            if ref in rejections.suspected:
                rejections.record_acceptance(ref)

    def _record_refusal_later(
        self, sent_connection: OpenedConnection, path: str, refresh: "asyncio.Task[OpenedConnection | None]"
    ) -> None:
        """Record a 401 as a refusal of the credential, if the refresh after the 401 returned no newer token.

        The response may have been sent meanwhile, so the facts about the request are no longer available. `path`: the
        path of the request that was sent.
        """
        if refresh.cancelled() or refresh.exception() is not None:
            return
        newer = refresh.result()
        if newer is None or newer.connection.version <= sent_connection.connection.version:
            self._runtime.live.rejections.record_refusal(sent_connection, 401, path)

    @property
    def at_own_api(self) -> bool:
        """Whether the request goes to the connection's own API.

        A response from another origin does not show whether the credential is valid.
        """
        base, upstream = self._request[CONNECTION].base, self._request[UPSTREAM]
        return (upstream.scheme, upstream.host, upstream.port) == (base.scheme, base.host, base.port)

    async def _wait_for_retry(self, requested_wait_s: float | None, exchange: ProviderExchange | None = None) -> bool:
        """Wait until the retry is due, and put the current credential into the request.

        Return False if there is no retry.

        `requested_wait_s`: the wait that the provider requests, in seconds; None if it requests none. `exchange`: the
        response that is not passed on; this method closes it. Raises the errors of `ConnectionCache.open_connection`.
        """
        if not self._retries_left:
            return False
        wait = self._wait_s(requested_wait_s)
        if wait is None or wait >= self._watch.left_s or not self._origin_limits.budget.try_spend(clock.monotonic()):
            return False
        if not await self._key_allows_retry():
            return False
        if exchange is not None:
            await _read_and_close(exchange)
        self._retried += 1
        self._waited_s += wait
        with self._watch.suspend_silence_limit():
            await clock.sleep(wait)
            ref = self._request[CONNECTION].connection.ref
            live = self._runtime.live
            with self._timing.waiting_for_token():
                self._place_credential(live.peek(ref) or await live.open_connection(*ref))
        return True

    async def _key_allows_retry(self) -> bool:
        """Count a retry against the rate limit and the budget of the caller's key; return whether both allow it."""
        access = self._request[CALLER].access
        if access is None or access.meter is None:
            return True
        try:
            await access.meter.count_against_budget()
        except GatewayError:
            return False  # the caller gets the response or the fault of the last attempt
        return True

    def _wait_s(self, requested_wait_s: float | None) -> float | None:
        return wait_s(requested_wait_s, self._retried + 1, random.random(), waited_s=self._waited_s)  # noqa: S311 (spreads load only)

    def _place_credential(self, opened: OpenedConnection) -> None:
        if opened is not self._request[CONNECTION]:
            place_credential(opened, self._request[UPSTREAM], has_body=self._request.body_exists)
            self._request[CONNECTION] = opened

    @property
    def _retries_left(self) -> bool:
        return self._retried < self._request[PROXY_OPTIONS].retries

    def _may_repeat(self, *, sent: bool) -> bool:
        upload, request = self._upload, self._request
        has_key = bool(request[UPSTREAM].headers.get(IDEMPOTENCY_KEY))
        return upload.fault is None and may_send_again(
            request.method, has_key=has_key, body_kept=upload.is_kept, sent=sent
        )

    def _rules(self) -> RetryRules:
        retry = self._request[CONNECTION].provider.proxy.retry
        retry_on = self._request[PROXY_OPTIONS].retry_on
        if retry is None:
            return RetryRules.of(retry_on=retry_on)
        return RetryRules.of(
            error_code=retry.error_code,
            after=retry.after,
            at=retry.at,
            remaining=retry.remaining,
            retry_on=retry_on,
        )


def error_type(fault: Exception) -> str:
    """Return the name that `fault` gets in a span of the trace."""
    if isinstance(fault, EgressError):
        return fault.kind
    return (
        "timeout"
        if isinstance(fault, ExchangeTimeout)
        else "broken_body"
        if isinstance(fault, GatewayError)
        else "protocol"
    )


async def _read_and_close(exchange: ProviderExchange) -> None:
    """Close a response that is not passed on.

    Read a short response to its end first, so that its connection can be used again.
    """
    try:
        if exchange.length is not None and exchange.length <= DISCARDED_MAX_BYTES:
            async with asyncio.timeout(DISCARDED_MAX_S):
                while await exchange.read():
                    pass
    except (EgressError, TimeoutError):
        pass
    finally:
        exchange.close()
