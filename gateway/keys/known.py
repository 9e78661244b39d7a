"""The way from the bearer of a request to its caller. Only digests are kept in memory."""

from collections.abc import Collection, Mapping
from typing import Final

from gateway.access.refusals import CREATE, told
from gateway.config import Config
from gateway.errors import Unauthorized
from gateway.keys.caller import Caller
from gateway.keys.mint import CAPABILITY_PREFIX, PREFIX, kind_of
from gateway.keys.minted import Minted
from gateway.records.access import Kind
from gateway.records.environment import Environment
from gateway.secret import digest

INVALID: Final = {"WWW-Authenticate": 'Bearer realm="gateway", error="invalid_token"'}  # RFC 6750 §3.1


class Keys:
    """The keys that gateway.yaml declares, and behind them those that were minted.

    A look-up by digest tells nothing through its timing about the key.
    """

    def __init__(self, by_digest: Mapping[str, Caller], minted: Minted, environments: Collection[str]) -> None:
        self._by_digest = dict(by_digest)
        self._environments = frozenset(environments)
        self.minted = minted

    @classmethod
    def declared(cls, config: Config, minted: Minted | None = None) -> "Keys":
        return cls(
            {
                digest(key.reveal()): Caller(Environment(environment.name))
                for environment in config.environments.values()
                for key in environment.secret_keys
            },
            minted or Minted(),
            config.environments,
        )

    def known(self, key_digest: str) -> Caller | None:
        """The caller whose key has this digest (`secret.digest`), if that can be told without asking the store."""
        declared = self._by_digest.get(key_digest)
        return declared if declared is not None else self._of_ours(self.minted.peek(key_digest))

    async def caller(self, text: str, kind: Kind = "key") -> Caller:
        """Whoever holds `text`. Raises Unauthorized, and Unavailable where the store cannot be asked."""
        key_digest = digest(text)
        found = self.known(key_digest)
        if found is None and kind_of(text) == kind:
            found = self._of_ours(await self.minted.caller(key_digest))
        if found is None or (found.key.kind if found.key is not None else "key") != kind:
            raise mistaken(text, kind) or unknown(kind)
        return found

    def _of_ours(self, caller: Caller | None) -> Caller | None:
        """Unless its environment is declared no more."""
        return caller if caller is not None and caller.environment.name in self._environments else None


def mistaken(text: str, kind: Kind) -> Unauthorized | None:
    """Where `text` belongs, if it has the form of the other kind; whether it is known is not said."""
    if kind == "key" and CAPABILITY_PREFIX in text:
        message = "This is a capability address, not a secret key."
        fix = "Use it as the base URL, <gateway>/c/<capability>, where no key is needed; or send a secret key."
    elif kind == "capability" and text.startswith(PREFIX):
        message = "This is a secret key, not a capability address."
        fix = "Send it to /proxy as 'Authorization: Bearer <key>'; addresses get logged, so replace this key."
    else:
        return None
    return Unauthorized("unknown_account", f"{message} {fix}", payload=told("key", fix), headers=INVALID)


def unknown(kind: Kind) -> Unauthorized:
    """Never minted, revoked and expired look alike."""
    if kind == "capability":
        message = "This capability address leads nowhere: it is unknown, expired or revoked."
        fix = f"Ask whoever gave it to you for a new one: {CREATE}."
    else:
        message = "This secret key opens no environment: it is unknown, expired or revoked."
        fix = f"Use one of environments.<name>.secret_keys in gateway.yaml, or a minted one: {CREATE}."
    return Unauthorized("unknown_account", f"{message} {fix}", payload=told("key", fix), headers=INVALID)
