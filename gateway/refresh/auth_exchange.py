"""Sends the requests that auth modes build, such as a code exchange or a refresh, to providers.

Only the replies to refreshes are written to the refresh journal.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import structlog

from gateway import clock
from gateway.access import refusals
from gateway.auth import modes
from gateway.auth.mode import AuthMode, Dialogue
from gateway.catalog.provider import Provider
from gateway.egress.client import Egress, fetch_reply
from gateway.egress.egress_errors import EgressError
from gateway.errors import ReconnectNeeded
from gateway.generation import CurrentGeneration
from gateway.journal import Entry, RecordedReply
from gateway.journal.segment import call_name
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable, replaces_refresh_token
from gateway.records.connection import ConnectionRef
from gateway.records.provider_call import ProviderCall, Reply, scrubbed
from gateway.refresh.token_exchange import ExchangeLost, TokenExchange

# ── An attempt to refresh a credential journals each reply. If an earlier attempt has journalled the reply to a call,
# the attempt uses that reply and does not send the call again.


class Attempt:
    """One attempt to refresh a credential.

    - `entry`: how the journal records this attempt; None if there is no journal
    - `recorded_replies`: journalled replies to calls of earlier attempts
    - `spent_tokens`: the refresh tokens that the attempt sends
    - `has_sent`: whether this attempt has sent a call to a provider
    """

    def __init__(
        self,
        exchange: TokenExchange,
        entry: Entry | None = None,
        recorded_replies: Sequence[RecordedReply] = (),
        spent_tokens: Collection[str] = (),
    ) -> None:
        self._exchange = exchange
        self._entry = entry
        self._recorded_replies = list(recorded_replies)
        self._spent_tokens = spent_tokens
        self._earlier_attempts = {earlier.attempt for earlier in recorded_replies}
        self._exchange_lost = False
        self._step = 0  # the index of the dialogue's next call
        self._reply: Reply | None = None  # the reply to the last call
        self._was_recorded = False  # whether an earlier attempt has journalled that reply
        self.has_sent = False

    @property
    def has_unread_token(self) -> bool:
        """Whether the journal has the last reply, and the reply seems to contain a new refresh token."""
        is_journalled = self._entry is not None and self._exchange.journal_fault is None
        return (
            (is_journalled or self._was_recorded)
            and self._reply is not None
            and replaces_token(self._reply, self._spent_tokens)
        )

    def recorded_reply(self, call: ProviderCall) -> Reply | None:
        """Return the reply that an earlier attempt received to the same call; None if there is no such reply.

        If the URL of the call has changed since then, a reply from the former URL is used if it contains a new refresh
        token: the token that was sent is spent, so no URL accepts it.
        """
        at_this_url = (earlier for earlier in self._recorded_replies if earlier.call == call_name(call))
        at_former_url = (
            earlier
            for earlier in self._recorded_replies
            if earlier.step == self._step and replaces_token(earlier.reply, self._spent_tokens)
        )
        earlier = next(chain(at_this_url, at_former_url), None)
        if earlier is None:
            return None
        self._recorded_replies.remove(earlier)
        self._step += 1
        self._reply, self._was_recorded = earlier.reply, True
        return earlier.reply

    async def send(self, call: ProviderCall, timeout_s: float, limit_bytes: int) -> Reply:
        """Send the call and return its reply. Raises EgressError."""
        self.has_sent = True
        step, self._reply, self._was_recorded = self._step, None, False
        self._step += 1
        try:
            self._reply = await self._exchange.send(
                call, self._entry, step, timeout_s=timeout_s, limit_bytes=limit_bytes
            )
        except ExchangeLost:
            self._exchange_lost = True
            raise
        return self._reply

    def release(self) -> None:
        """Let the journal delete the records of this attempt and of earlier attempts, which are no longer needed.

        If an exchange was lost, this attempt keeps its own records, because the outcome of the exchange is unknown.
        """
        for attempt in self._earlier_attempts:
            self._exchange.release(attempt)
        if self._entry is not None and self.has_sent and not self._exchange_lost:
            self._exchange.release(self._entry.attempt)


def replaces_token(reply: Reply, spent_tokens: Collection[str]) -> bool:
    """Return whether `reply` seems to contain a refresh token that replaces one of `spent_tokens`.

    False if `spent_tokens` is empty: after a login, for example, nothing is used up.
    """
    return (
        bool(spent_tokens)
        and 200 <= reply.status < 300
        and replaces_refresh_token(reply.headers, reply.body, spent_tokens)
    )


TIMEOUT_S: Final = 10.0
MAX_REPLY_BYTES: Final = 128 * 1024  # a larger reply would block the event loop, which reads and encrypts the reply
LAST_CALL_S: Final = 15.0  # no call starts later than this many seconds after the start of its dialogue
MAX_CALLS: Final = 12  # no dialogue needs as many calls, even with discovery and several sign-in steps

T = TypeVar("T")

log = structlog.get_logger(__name__)


class AuthDialogueRunner:
    """Runs the dialogues of auth modes.

    A dialogue is a generator that yields calls to a provider and receives the replies. This class sends the calls.
    """

    def __init__(self, current: CurrentGeneration, exchange: TokenExchange) -> None:
        """`exchange`: sends the calls of refreshes to token endpoints and journals the replies."""
        self._current = current
        self.exchange = exchange

    async def run(self, dialogue: Dialogue[T], *, timeout_s: float = TIMEOUT_S, attempt: Attempt | None = None) -> T:
        """Run the dialogue and return its result.

        `timeout_s`: maximum wait for each reply, in seconds. `attempt`: the refresh attempt that journals the replies;
        None if the dialogue is not a refresh. Raises the dialogue's own errors: TokenRefused after a final refusal,
        TokenUnavailable after a temporary failure, InvalidRequest if a setting is missing. The provider's error text
        can quote the request, and it is stored, logged and shown. So the request's secrets are masked in it.
        """
        egress, secrets = self._current.generation.egress, list[str]()
        try:
            call = next(dialogue)
            last_call_at = clock.monotonic() + LAST_CALL_S
            for _ in range(MAX_CALLS):
                if clock.monotonic() >= last_call_at:
                    raise TokenUnavailable("the requests to the provider took too long in total")
                secrets += call.secrets
                try:
                    reply = await _send_call(egress, call, timeout_s, attempt)
                except EgressError as fault:
                    maybe_done = fault.sent and fault.kind != "refused"
                    reply_lost = maybe_done and isinstance(fault, ExchangeLost)
                    unavailable = TokenUnavailable(fault.message, maybe_done=maybe_done, maybe_journalled=reply_lost)
                    call = dialogue.throw(unavailable)
                else:
                    call = dialogue.send(reply)
            raise TokenUnavailable(f"the sign-in needs more than {MAX_CALLS} requests to the provider")
        except StopIteration as finished:
            result: T = finished.value
            return result
        except TokenRefused as fault:
            secret_texts = tuple(secrets)
            raise TokenRefused(scrubbed(fault.code, secret_texts), scrubbed(fault.description, secret_texts)) from None
        except TokenUnavailable as fault:
            reason = scrubbed(fault.reason, tuple(secrets))
            raise TokenUnavailable(
                reason,
                fault.retry_after_s,
                maybe_done=fault.maybe_done,
                maybe_journalled=fault.maybe_journalled,
                refused_with=fault.refused_with,
            ) from None
        finally:
            dialogue.close()


async def _send_call(egress: Egress, call: ProviderCall, timeout_s: float, attempt: Attempt | None) -> Reply:
    if attempt is not None:
        recorded_reply = attempt.recorded_reply(call)
        if recorded_reply is not None:
            return recorded_reply
        reply = await attempt.send(call, timeout_s, MAX_REPLY_BYTES)
    else:
        reply = await fetch_reply(egress, call, timeout_s=timeout_s, limit_bytes=MAX_REPLY_BYTES)
    _compare_clocks(reply)
    return reply


def _compare_clocks(reply: Reply) -> None:
    provider_dates, date = clock.provider_dates, reply.headers.get("Date")
    if date is None or "Age" in reply.headers or not provider_dates.add_date(reply.asked_at, clock.now(), date):
        return
    if provider_dates.seconds == 0:
        log.info("clock_agrees_with_providers")
        return
    log.warning(
        "clock_differs_from_providers",
        offset_s=round(provider_dates.seconds),
        detail=f"the last {clock.AGREEING_RESPONSES} responses of token endpoints agree on another time; no time was corrected",
        fix="synchronize the clock of this machine, or of the database's machine, with NTP",
    )


# ── A stored credential uses the auth mode of its provider's catalog entry, if the mode supports the credential's type.


def mode_for(provider: Provider, credential: Mapping[str, Any], ref: ConnectionRef) -> AuthMode:
    """Return the auth mode of the provider's catalog entry for the credential `credential`.

    Raises ReconnectNeeded if the mode does not support the credential: the entry got another mode after the connection
    was made.
    """
    mode = modes()[provider.auth_mode]
    if credential["type"] not in mode.types():
        raise ReconnectNeeded(
            "reconnect_needed",
            f"Connection '{ref.connection_id}' has a credential of type {credential['type']}, but provider "
            f"'{provider.name}' now uses {provider.auth_mode}. {refusals.sentence(refusals.RECONNECT_STEP)}",
            payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
        )
    return mode
