"""Records of a caller's rights: environments, minted keys and their limits, capabilities."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from gateway.records.connection import ConnectionRef
from gateway.secret import Secret

KeyKind = Literal["key", "capability"]

ANY_INTEGRATION = "*"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of a key. A call must satisfy every member that is set; an empty member limits nothing.

    `connections` are ``integration/connection`` or ``*/connection``. `tags` must be on the connection. `rules` are
    ``METHODS PATH`` (`access.key_policy`) or name operations of the catalog (`access.operation_rules`); one must match.
    `hosts` are names or ``*.example.com``. `operations`: for each rule that names operations, the snapshot of those
    operations, as ``COUNT:`` and base64.
    """

    integrations: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    operations: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the given limits for display: for snapshots, only the numbers of operations."""
        counts = {rule: int(snapshot.partition(":")[0]) for rule, snapshot in self.operations.items()}
        return {**self._limits_set(), **({"operations": counts} if counts else {})}

    def as_stored(self) -> dict[str, Any]:
        """Return the given limits with whole snapshots, as they are stored; `from_json` reads them."""
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
    """The terms of a key, fixed when it is minted. The key itself is not stored: `digest` is its hex SHA-256.

    `last_four`: the key's last four characters. `limits`: the key's own, and those of its ancestors; a call must
    satisfy all. `rate`: calls per minute. `budget`: calls in total. `parent_id`: the key that minted it; revoking the
    parent revokes this key too.
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
    """A minted key, as it is stored. `calls`: the calls of its `budget` that are spent or set aside by a worker."""

    id: int
    calls: int = 0
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def alive(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


# ── A capability: a URL that stands for one connection.


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability and its connection. `mount`: the secret prefix of its paths on this host, ``/c/gw_cap_…``."""

    mount: Secret
    token: Secret
    ref: ConnectionRef


# ── An environment: one customer application's set of integrations and connections, opened by its secret keys.


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment, identified by its `name` everywhere, also in the store (docs/compatibility.md#identifiers:
    ``[a-z0-9_-]+``)."""

    name: str
