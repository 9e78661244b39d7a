"""How often a refusal must repeat before it counts: one table for token endpoints, one for APIs. docs/connections.md has both.

A refusal that names its reason needs no rule (`oauth.error_codes`). An outage never counts: 5xx, 408, 425, 429, a timeout, a
connection that fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """`count` refusals in a row, the last of them at least `over` after the first. `paths`: on so many paths, two at most."""

    count: int
    over: timedelta = timedelta()
    paths: int = 1

    def reached(self, count: int, over: timedelta, paths: int = 1) -> bool:
        return count >= self.count and over >= self.over and paths >= self.paths


MINUTES: Final = timedelta(minutes=5)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)

TOKEN_ENDPOINT: Final[Mapping[int, Limit]] = {400: Limit(5, MINUTES), 401: Limit(5, MINUTES), 403: Limit(5, HOUR)}
"""By the status of a token endpoint's answers without a known code: when the connection becomes ``needs_reauth``.

403 is also what a firewall answers, for an hour of wrong configuration.
"""
WITH_2XX: Final = Limit(5, MINUTES)
"""The same for an unknown `error` in an answer of 2xx."""
API_DEGRADED: Final[Mapping[int, Limit]] = {401: Limit(3), 403: Limit(10, HOUR)}
"""By the status of an API's answers to proxied calls, with no 2xx in between: when the connection becomes ``degraded``."""
API_ENDED: Final[Mapping[int, Limit]] = {401: Limit(5, MINUTES), 403: Limit(20, DAY, paths=2)}
"""The same, ``needs_reauth``. 403 also means that a permission is missing, so one path alone never ends a connection."""


def token_endpoint_ended(status: int, count: int, over: timedelta) -> bool:
    """Whether `count` refusals of unknown meaning in a row are final; `status` is the last one's."""
    return TOKEN_ENDPOINT.get(status, WITH_2XX).reached(count, over)


def api_verdict(status: int, count: int, over: timedelta, paths: int) -> bool | None:
    """What `count` answers of `status` in a row mean for a credential: True it is over, False it is in doubt, None nothing."""
    ended, degraded = API_ENDED.get(status), API_DEGRADED.get(status)
    if ended is not None and ended.reached(count, over, paths):
        return True
    return False if degraded is not None and degraded.reached(count, over) else None
