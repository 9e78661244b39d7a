"""How often one client may send an invalid key.

Valid keys are looked up first and never come here, so those who share an address with a guesser (behind a load balancer
everybody does) are not affected.
"""

from collections.abc import Callable
from typing import Final

import structlog

from gateway.access.client_window import ClientWindow
from gateway.access.refusals import rule_and_fix
from gateway.errors import GatewayError, TooManyRequests, Unauthorized

MOST: Final = 50

log = structlog.get_logger(__name__)


class InvalidKeys:
    """Counts by client, for a minute, in this process. `count` is called for each."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._window = ClientWindow()

    def answer(self, fault: Unauthorized, client: str, request_id: str) -> GatewayError:
        """What to answer `client`, an address, whose key was refused with `fault`."""
        self._count()
        seen, client, wait_s = self._window.count(client)
        if seen <= MOST:
            return fault
        if seen == MOST + 1:
            log.warning("invalid_keys_throttled", client=client, for_s=wait_s, request_id=request_id)
        fix = f"Send a valid key, which is accepted at once, or try again in {wait_s} s."
        return TooManyRequests(
            "too_many_request",
            f"Invalid key, and more than {MOST} requests with one came from this address within a minute. {fix}",
            payload={"limit": MOST, **rule_and_fix("key", fix)},
            retry_after_s=wait_s,
        )
