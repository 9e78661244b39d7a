"""Secret keys: the way from the bearer of a request to its environment. Only digests are kept in memory."""

from collections.abc import Mapping

from gateway.config import Config
from gateway.errors import Unauthorized
from gateway.records.environment import Environment
from gateway.secret import digest


class Keys:
    """The keys that gateway.yaml declares. A look-up by digest tells nothing through its timing about the key."""

    def __init__(self, by_digest: Mapping[str, Environment]) -> None:
        self._by_digest = dict(by_digest)

    @classmethod
    def declared(cls, config: Config) -> "Keys":
        return cls(
            {
                digest(key.reveal()): Environment(environment.name)
                for environment in config.environments.values()
                for key in environment.secret_keys
            }
        )

    def environment_of(self, key: str) -> Environment:
        """The environment that `key` opens. Raises Unauthorized."""
        found = self._by_digest.get(digest(key))
        if found is None:
            raise Unauthorized(
                "unknown_account",
                "This secret key opens no environment. Use one of environments.<name>.secret_keys in gateway.yaml.",
            )
        return found
