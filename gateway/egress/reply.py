"""A call that somebody wants to be sent as data, and what came of it, reckoned from when it was asked."""

from collections.abc import Callable
from datetime import datetime, timedelta

from gateway import clock
from gateway.egress.client import Egress
from gateway.records.call import Call, Reply


async def replied(
    egress: Egress, call: Call, *, timeout_s: float, limit_bytes: int, now: Callable[[], datetime] | None = None
) -> Reply:
    """What came back. `now`: the clock for `asked_at`, if it is not this process's. Raises EgressError."""
    began = clock.monotonic()
    answer = await egress.fetch(
        call.method,
        call.url,
        headers=call.headers,
        body=call.body,
        limit_bytes=limit_bytes,
        timeout_s=timeout_s,
        identity=call.identity,
    )
    # Reckoned back from now by the clock that nobody sets, so that one set meanwhile moves no expiry.
    asked_at = (now or clock.now)() - timedelta(seconds=clock.monotonic() - began)
    return Reply(answer.status, answer.headers, answer.body, asked_at)
