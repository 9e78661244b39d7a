"""Who calls: an environment, and for a minted key what it may do there."""

import math
from dataclasses import dataclass
from typing import Final

from gateway import clock
from gateway.access.policy import Policy
from gateway.access.scopes import EVERYTHING
from gateway.keys.meter import Meter
from gateway.records.access import Key
from gateway.records.connection import ConnectionRef
from gateway.records.environment import Environment

UNBOUNDED: Final = Policy((EVERYTHING,), ())


@dataclass(slots=True)
class Access:
    """A minted key at work. `ends_at`: seconds since 1970. `used`: since its last use was written down."""

    key: Key
    policy: Policy
    meter: Meter | None
    ends_at: float
    used: bool = False

    @property
    def alive(self) -> bool:
        return self.ends_at == math.inf or clock.now().timestamp() < self.ends_at

    @property
    def bound_to(self) -> ConnectionRef | None:
        """The one connection that a capability leads to; None for a key."""
        if self.key.kind != "capability":
            return None
        named = next(name for one in self.key.limits for name in one.connections)
        integration_id, _, connection_id = named.partition("/")
        return ConnectionRef(self.key.environment, integration_id, connection_id)


@dataclass(frozen=True, slots=True)
class Caller:
    """`access` None: a key of gateway.yaml, which may do everything in its environment."""

    environment: Environment
    access: Access | None = None

    @property
    def policy(self) -> Policy:
        return UNBOUNDED if self.access is None else self.access.policy

    @property
    def key(self) -> Key | None:
        return None if self.access is None else self.access.key

    @property
    def key_id(self) -> str:
        """Under which the key's connect sessions are counted; empty for all keys of gateway.yaml together."""
        return "" if self.access is None else str(self.access.key.id)


def access_of(key: Key, meter: Meter | None) -> Access:
    ends_at = math.inf if key.expires_at is None else key.expires_at.timestamp()
    return Access(key, Policy(key.scopes, key.limits), meter, ends_at)
