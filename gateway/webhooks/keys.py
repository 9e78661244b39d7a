"""The keys that sign an environment's events: those that gateway.yaml names, else ones of our own making."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gateway import clock
from gateway.config import Config
from gateway.errors import Conflict
from gateway.secret import Secret
from gateway.store import Store
from gateway.webhooks.sign import mint

OVERLAP: Final = timedelta(days=1)
KNOWN_S: Final = 5.0


async def signing_keys(config: Config, store: Store, environment: str) -> Sequence[Secret]:
    """The one in force first, then those that sign beside it for a while. One is made where there is none."""
    declared = config.environments.get(environment)
    if declared is not None and declared.webhook_signing_key is not None:
        former = declared.webhook_signing_key_previous
        return [declared.webhook_signing_key, *([former] if former is not None else [])]
    found = await store.signing_keys.ensure(environment, mint, now=clock.now())
    return [one.key for one in found]


class KnownKeys:
    """Looked up again after a few seconds: whoever was given a new key has the former one for a day."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store
        self._known: dict[str, tuple[float, Sequence[Secret]]] = {}

    async def of(self, environment: str) -> Sequence[Secret]:
        """As `signing_keys`."""
        good_until, keys = self._known.get(environment, (0.0, ()))
        if clock.monotonic() >= good_until:
            keys = await signing_keys(self._config, self._store, environment)
            self._known[environment] = clock.monotonic() + KNOWN_S, keys
        return keys

    def forget(self) -> None:
        """Somebody here has changed them."""
        self._known.clear()


async def rotate(config: Config, store: Store, environment: str) -> tuple[Secret, datetime]:
    """A new key, and when the one before it stops signing. Raises Conflict where gateway.yaml names the key."""
    declared = config.environments.get(environment)
    if declared is not None and declared.webhook_signing_key is not None:
        raise Conflict(
            "conflict",
            f"gateway.yaml names the webhook_signing_key of environment '{environment}'. Put a new one there, and this one "
            "under webhook_signing_key_previous for as long as receivers still check with it.",
        )
    now = clock.now()
    await store.signing_keys.ensure(environment, mint, now=now)
    key, retires_at = mint(), now + OVERLAP
    await store.signing_keys.rotate(environment, key, now=now, retires_at=retires_at)
    return key, retires_at
