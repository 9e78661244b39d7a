"""The attempts for one page: a provider that says when to come back is waited for, though nobody has asked for retries."""

import random
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.egress.exchange import Exchange
from gateway.forward.attempts import Attempts
from gateway.forward.upload import Upload
from gateway.forward.watch import Watch
from gateway.wire.replay import wait_s
from middleware.facts import ASKED

RETRIES: Final = 5  # of each page, where the caller does not say
LONGEST_WAIT_S: Final = 60.0  # quotas are often counted by the minute
ALL_WAITS_S: Final = 120.0
HEADER: Final = "Retries"


class PageAttempts(Attempts):
    """`later`: the answer has begun, so there is no other way to tell of a failure than to break off."""

    __slots__ = ("_later", "_most")

    def __init__(
        self, request: web.Request, upload: Upload, watch: Watch, upgrade: str | None = None, *, later: bool = False
    ) -> None:
        super().__init__(request, upload, watch, upgrade)
        self._later = later
        self._most = retries_of(request)

    @property
    def _retries_left(self) -> bool:
        return self._retried < self._most

    def told_wait_s(self, exchange: Exchange) -> float | None:
        """Seconds after which the provider wants to be asked again, None if it does not say."""
        return self._rules().told_wait_s(exchange.status, exchange.headers, clock.now())

    async def _waited(self, told_s: float | None, exchange: Exchange | None = None) -> bool:
        """Of the first page a failure is passed on as ever, unless the provider says when it will be over."""
        if told_s is None and not self._later and self._retried >= self._request[ASKED].retries:
            return False
        return await super()._waited(told_s, exchange)

    def _wait_s(self, told_s: float | None) -> float | None:
        chance = random.random()  # noqa: S311 (spread, not secrecy)
        return wait_s(
            told_s,
            self._retried + 1,
            chance,
            waited_s=self._waited_s,
            longest_s=LONGEST_WAIT_S,
            all_s=ALL_WAITS_S,
        )


def retries_of(request: web.Request) -> int:
    """How often each page may be asked for again."""
    return request[ASKED].retries if request.headers.get(HEADER) else RETRIES
