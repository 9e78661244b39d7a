"""An address that stands for one connection: the capability in it, and the connection it leads to."""

from dataclasses import dataclass

from gateway.records.connection import ConnectionRef
from gateway.secret import Secret


@dataclass(frozen=True, slots=True)
class Capability:
    """`mount` is how every address of it begins on this host, which is secret: ``/c/gw_cap_…``."""

    mount: Secret
    token: Secret
    ref: ConnectionRef
