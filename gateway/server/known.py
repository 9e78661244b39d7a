"""What a block of header lines says, as the lane remembers it, and what its key may send."""

from dataclasses import dataclass, field
from typing import Final

from gateway.access.policy import Policy, Sent
from gateway.connections.opened import Opened
from gateway.keys.caller import Caller
from gateway.records.connection import ConnectionRef
from gateway.server.plan import MOUNT
from gateway.wire import asked
from gateway.wire.fields import Fields

ALLOWED_CALLS: Final = 64


@dataclass(slots=True)
class Known:
    """What a block of header lines says, on `mount`: ``/proxy``, or a capability's. `head_id` stands for the block, which
    holds a secret key and is not kept; `names` are those of `fields`, spelled plainly.

    `policy`: the one under which it may use the connection, and `allowed` calls (method, host, target) that it allows.
    """

    head_id: bytes
    mount: str = field(repr=False)
    key_digest: str
    asked: asked.Asked
    fields: Fields = field(repr=False)
    names: frozenset[str]
    request_id: str | None
    ref: ConnectionRef | None = None
    policy: Policy | None = None
    allowed: set[tuple[str, str, str]] = field(default_factory=set, repr=False)


def may_send(caller: Caller, known: Known, opened: Opened, method: str, target: str) -> bool:
    """Whether a minted key may send this, by the decision that the chain would make; what it counts, the chain counts."""
    access = caller.access
    if access is None:
        return True
    policy = access.policy
    if access.meter is not None:
        return False
    if known.policy is not policy:  # the first time, and after the key was changed
        is_key, reached = access.key.kind == "key", policy.reaches(*opened.connection.ref[1:])
        if is_key is not (known.mount == MOUNT) or not policy.may_proxy or not reached:
            return False
        known.policy, known.allowed = policy, set()
    if policy.of_tags and not policy.fits(opened.connection.tags):
        return False
    if not policy.of_requests:
        return True
    call = method, opened.base.host, target
    if call in known.allowed:
        return True
    path, _, query = target.partition("?")
    if policy.breach(Sent(method, opened.base.host, path, query, known.names)) is not None:
        return False
    if len(known.allowed) < ALLOWED_CALLS:
        known.allowed.add(call)
    return True
