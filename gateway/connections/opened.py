"""A connection made ready for use: its records, its provider, and the templates filled in. What the proxy path reads."""

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from gateway.auth.signer import Signer
from gateway.catalog.provider import Provider
from gateway.records.call import ClientIdentity
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.wire.body_members import BodyMembers
from gateway.wire.origin import Address

_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Placement:
    """What goes on every request of this connection.

    `slots` carry the credential and replace whatever the caller sent under these (lower-case) names; `defaults` stand in
    where the caller sent none. The same for the query: pairs already percent-encoded, `query_slots` replacing.
    `signer`, if there is one, signs each request besides, when all else of it stands. `body`: what goes into a JSON object
    or a form that the caller sends.
    """

    slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    defaults: tuple[tuple[str, str], ...] = ()
    query_slots: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query_defaults: tuple[tuple[str, str], ...] = ()
    signer: Signer | None = field(default=None, repr=False)
    body: BodyMembers | None = field(default=None, repr=False)

    @property
    def query_names(self) -> frozenset[str]:
        """Decoded names of the query parameters that carry the credential."""
        signed = self.signer.query_fields if self.signer is not None else ()
        return frozenset((*signed, *(unquote(name) for name, _ in self.query_slots)))

    @property
    def signs_request(self) -> bool:
        """Whether the proof depends on the request, so that what stands here is not all there is to it."""
        return self.signer is not None


@dataclass(frozen=True, slots=True)
class Opened:
    """`base`: the entry's `proxy.base_url` with this connection's settings in it.

    `allowed_origins`: where its credential may travel, spelled as `Address.origin` and `UpstreamRequest.origin` do.
    `identity`: what is shown in mutual TLS. `for_one_request`: the entry's templates hold ``${now}`` or ``${random}``, or
    the mode makes a proof that is used once.
    """

    connection: Connection
    integration: Integration
    provider: Provider
    base: Address
    allowed_origins: frozenset[str]
    placement: Placement = field(repr=False)
    identity: ClientIdentity | None = field(default=None, repr=False)
    for_one_request: bool = False
    secret_base: str | None = field(default=None, repr=False)
    """The template of `base` where a credential or a secret setting stands in it: shown in its place."""
    routes: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)
    """Of plain requests made with this credential, by what the caller sent: the fast lane's, gone when this is."""

    def without_secrets(self, reference: str) -> str:
        """An address that a provider sent back, without what is secret in our base address, in either spelling."""
        path = self.base.path
        if self.secret_base is None or not path:
            return reference
        instead = "/" + _PLACEHOLDER.sub("***", self.secret_base.partition("://")[2].partition("/")[2])
        return reference.replace(path, instead).replace(unquote(path), instead)
