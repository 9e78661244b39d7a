"""Records of a caller's rights: environments, minted keys and their limits, capabilities."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from gateway.records.connection import ConnectionRef
from gateway.secret import Secret

KeyKind = Literal["key", "capability"]

ANY_INTEGRATION = "*"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of a key. A call must satisfy every member that is set; an empty member limits nothing.

    - `connections`: each is ``integration/connection`` or ``*/connection``
    - `tags`: the connection must have all these tags
    - `rules`: each is ``METHODS PATH`` (`access.key_rule`) or names operations of the catalog
      (`access.operation_rules`); the request must match one of them
    - `hosts`: each is a host name or ``*.example.com``
    - `operations`: rule ▸ snapshot, for each rule that names operations; a snapshot is the number of operations, a
      colon, and the operations in base64
    """

    integrations: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    operations: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the limits that are set, for display. A snapshot is shown as its number of operations."""
        counts = {rule: int(snapshot.partition(":")[0]) for rule, snapshot in self.operations.items()}
        return {**self._limits_set(), **({"operations": counts} if counts else {})}

    def as_stored(self) -> dict[str, Any]:
        """Return the limits that are set, with whole snapshots, as the store keeps them. `from_json` reads the
        result."""
        return {**self._limits_set(), **({"operations": dict(self.operations)} if self.operations else {})}

    def _limits_set(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "integrations": list(self.integrations),
            "connections": list(self.connections),
            "tags": dict(self.tags),
            "rules": list(self.rules),
            "hosts": list(self.hosts),
        }
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "KeyLimits":
        return cls(
            tuple(fields.get("integrations", ())),
            tuple(fields.get("connections", ())),
            dict(fields.get("tags", {})),
            tuple(fields.get("rules", ())),
            tuple(fields.get("hosts", ())),
            dict(fields.get("operations", {})),
        )

    @property
    def limits_resources(self) -> bool:
        """Whether the limits restrict which integrations or connections the key may see."""
        return bool(self.integrations or self.connections or self.tags)

    @property
    def limits_requests(self) -> bool:
        """Whether the limits restrict which requests may be sent with a connection."""
        return bool(self.rules or self.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTerms:
    """The terms of a key, which are fixed when the key is minted. The key itself is not stored, only `digest`, its hex
    SHA-256.

    - `last_four`: the key's last four characters
    - `limits`: the limits of the key, of the key that minted it, and so on; a call must satisfy all of them
    - `rate`: maximum calls per minute; None: no limit
    - `budget`: maximum calls in total; None: no limit
    - `parent_id`: the id of the minted key that minted this key, if any; revoking the parent revokes this key too
    """

    digest: str
    environment: str
    kind: KeyKind
    name: str
    last_four: str
    scopes: tuple[str, ...]
    limits: tuple[KeyLimits, ...] = ()
    rate: int | None = None
    budget: int | None = None
    created_by: str
    parent_id: int | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey(KeyTerms):
    """A minted key as the store returns it. `calls`: the number of calls of its `budget` that are used, or that a
    worker has reserved. `replaced`: the key that the creation of this key replaced; None also if the key was read
    later."""

    id: int
    calls: int = 0
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    replaced: "ReplacedKey | None" = field(default=None, compare=False)

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class ReplacedKey(NamedTuple):
    """A key that a new key replaced.

    `before`: the key's record before the replacement. `ends_at`: the end of the key since the replacement.
    """

    before: MintedKey
    ends_at: datetime | None


# ── A capability: a URL with which a client calls the API of one connection.


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability: a key inside a URL, for one connection. `mount`: the secret beginning of the URL's path,
    ``/c/gw_cap_…``. `token`: the key. `ref`: the connection."""

    mount: Secret
    token: Secret
    ref: ConnectionRef


# ── An environment: one stage of an application, such as ``dev``, with its own keys, integrations and connections.


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment, identified by its `name` everywhere, also in the store. A name matches ``[a-z0-9_-]+``
    (docs/compatibility.md#identifiers)."""

    name: str
