"""How much the ways out are used: for metrics, and never by provider, whose host names tell of end users."""

from typing import NamedTuple


class PoolLoad(NamedTuple):
    """Connections to providers that carry a request, those kept for the next one, and requests that wait for one."""

    busy: int
    idle: int
    waiting: int
