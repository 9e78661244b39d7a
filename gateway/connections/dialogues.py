"""Holds the conversations of auth modes with providers: the one place where codes, passwords and refresh tokens leave."""

from typing import Final, TypeVar

from gateway import clock
from gateway.auth.mode import Dialogue
from gateway.connections.attempt import Attempt
from gateway.egress.client import Egress
from gateway.egress.errors import EgressError
from gateway.egress.reply import replied
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.call import Call, Reply, scrubbed
from gateway.refresh.exchange import Exchange, ExchangeLost

TIMEOUT_S: Final = 10.0
LIMIT_BYTES: Final = 128 * 1024  # it is read, and sealed, on the event loop
LAST_CALL_S: Final = 15.0  # no call begins later
MOST_CALLS: Final = 12  # discovery and sign-in in several steps need less; no dialogue may go on for ever

T = TypeVar("T")


class Dialogues:
    """Asks what a dialogue yields, and hands it what came back."""

    def __init__(self, egress: Egress, exchange: Exchange) -> None:
        """`exchange`: for the calls of refreshes, whose replies are journalled."""
        self._egress = egress
        self.exchange = exchange

    async def hold(self, dialogue: Dialogue[T], *, timeout_s: float = TIMEOUT_S, attempt: Attempt | None = None) -> T:
        """What the dialogue returns. `timeout_s`: for each answer. `attempt`: of a refresh, whose calls are journalled.

        Raises what it raises: TokenRefused after a final no, TokenUnavailable after anything that may pass, InvalidRequest
        where something is missing that it needs. The provider's words may quote what it was sent, and are stored, logged
        and shown; so its secrets are taken out of them here.
        """
        secrets: list[str] = []
        try:
            call = next(dialogue)
            until = clock.monotonic() + LAST_CALL_S
            for _ in range(MOST_CALLS):
                if clock.monotonic() >= until:
                    raise TokenUnavailable("the provider took too long for all that had to be asked")
                secrets += call.secrets
                try:
                    reply = await self._answered(call, timeout_s, attempt)
                except EgressError as fault:
                    maybe_done = fault.sent and fault.kind != "refused"
                    reason, lost = (
                        f"the token endpoint: {fault.message}",
                        maybe_done and isinstance(fault, ExchangeLost),
                    )
                    unanswered = TokenUnavailable(reason, maybe_done=maybe_done, maybe_journalled=lost)
                    call = dialogue.throw(unanswered)
                else:
                    call = dialogue.send(reply)
            raise TokenUnavailable(f"the provider wanted more than {MOST_CALLS} requests")
        except StopIteration as end:
            result: T = end.value
            return result
        except TokenRefused as fault:
            known = tuple(secrets)
            raise TokenRefused(scrubbed(fault.code, known), scrubbed(fault.description, known)) from None
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

    async def _answered(self, call: Call, timeout_s: float, attempt: Attempt | None) -> Reply:
        if attempt is not None:
            return attempt.recorded(call) or await attempt.ask(call, timeout_s, LIMIT_BYTES)
        return await replied(self._egress, call, timeout_s=timeout_s, limit_bytes=LIMIT_BYTES)
