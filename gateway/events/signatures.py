"""Signs events, with keys from gateway.yaml or generated keys.

Each event has a signature for Standard Webhooks and signatures for Nango's SDKs, all from the same key text. For
Standard Webhooks, the key is the decoded base64 after ``whsec_``. For Nango's SDKs, the key is the whole text, with
``whsec_``. If a key from gateway.yaml does not begin with ``whsec_``, all signatures use the bytes of the text.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gateway import clock
from gateway.config import Config
from gateway.errors import Conflict
from gateway.generation import CurrentGeneration
from gateway.secret import Secret
from gateway.store import Store

PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
HMAC: Final = "X-Nango-Hmac-Sha256"
LEGACY: Final = "X-Nango-Signature"
SIGNATURE_HEADERS: Final = frozenset(name.lower() for name in (ID, TIMESTAMP, SIGNATURE, HMAC, LEGACY))


def new_signing_key() -> Secret:
    """Return a new key: ``whsec_`` and 32 random bytes in base64."""
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode())


def standard_key(key: Secret) -> bytes:
    """Return the bytes of the key for Standard Webhooks: the decoded base64 after ``whsec_``, or else the bytes of the
    text."""
    text = key.reveal()
    if text.startswith(PREFIX):
        try:
            return base64.b64decode(text[len(PREFIX) :], validate=True)
        except binascii.Error:
            pass
    return text.encode()


def standard_form(key: Secret) -> Secret:
    """Return `key` in the format of the Standard Webhooks libraries: ``whsec_`` and base64."""
    return Secret(PREFIX + base64.b64encode(standard_key(key)).decode())


def signature_fields(body: bytes, message_id: str, timestamp: int, keys: Sequence[Secret]) -> dict[str, str]:
    """Return the signature header fields for `body`. `keys`: the current key first; during a rotation, the former key
    follows. The former key signs only in `SIGNATURE`, because each of Nango's headers has room for only one signature.

    `timestamp`: time of this attempt in seconds since 1970.
    """
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signatures = [base64.b64encode(hmac.digest(standard_key(key), content, "sha256")).decode() for key in keys]
    nango_key = keys[0].reveal().encode()
    return {
        ID: message_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(f"v1,{signature}" for signature in signatures),
        HMAC: hmac.digest(nango_key, body, "sha256").hex(),
        LEGACY: hashlib.sha256(nango_key + body).hexdigest(),
    }


# ── The keys that sign an environment's events. gateway.yaml sets the keys, or the gateway generates them.

OVERLAP: Final = timedelta(days=1)
CACHE_S: Final = 5.0


async def signing_keys(config: Config, store: Store, environment: str) -> Sequence[Secret]:
    """Return the environment's signing keys: the current key first, then former keys that still sign. If there is no
    key, create one."""
    environment_config = config.environments.get(environment)
    if environment_config is not None and environment_config.webhook_signing_key is not None:
        previous_key = environment_config.webhook_signing_key_previous
        return [environment_config.webhook_signing_key, *([previous_key] if previous_key is not None else [])]
    stored_keys = await store.signing_keys.ensure(environment, new_signing_key, now=clock.now())
    return [stored_key.key for stored_key in stored_keys]


class SigningKeyCache:
    """Caches signing keys for a few seconds. After a rotation, other processes use the former key for a few seconds
    more. This delay is harmless, because the former key is valid for a day."""

    def __init__(self, store: Store, current: CurrentGeneration) -> None:
        self._store = store
        self._current = current
        current.add_listener(lambda *_: self.forget())
        self._cached: dict[str, tuple[float, Sequence[Secret]]] = {}

    async def cached_keys(self, environment: str) -> Sequence[Secret]:
        """Return the environment's signing keys as `signing_keys` does, cached for `CACHE_S` seconds."""
        valid_until, keys = self._cached.get(environment, (0.0, ()))
        if clock.monotonic() >= valid_until:
            generation = self._current.generation
            keys = await signing_keys(generation.config, self._store, environment)
            if generation is self._current.generation:
                self._cached[environment] = clock.monotonic() + CACHE_S, keys
        return keys

    def forget(self) -> None:
        """Clear the cache, because a key or gateway.yaml has changed."""
        self._cached.clear()


async def rotate(config: Config, store: Store, environment: str) -> tuple[Secret, datetime]:
    """Create a new key; return the key, and the time when the former key stops signing. Raises Conflict if gateway.yaml
    sets the environment's key."""
    environment_config = config.environments.get(environment)
    if environment_config is not None and environment_config.webhook_signing_key is not None:
        raise Conflict(
            "conflict",
            f"gateway.yaml sets the webhook_signing_key of environment '{environment}'. Set a new key there, and move "
            "the old one to webhook_signing_key_previous until all receivers use the new one.",
        )
    now = clock.now()
    await store.signing_keys.ensure(environment, new_signing_key, now=now)
    key, retires_at = new_signing_key(), now + OVERLAP
    await store.signing_keys.rotate(environment, key, now=now, retires_at=retires_at)
    return key, retires_at
