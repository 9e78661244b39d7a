"""Who may read the metrics: they need no key."""

from dataclasses import dataclass

from gateway.config.model import ServerConfig
from gateway.config.values import is_loopback


@dataclass(frozen=True, slots=True)
class OpenPort:
    message: str
    fix: str


def open_to_network(server: ServerConfig, address: str) -> OpenPort | None:
    """What to say of an admin port on `address`. None where only this machine reaches it, or `admin_host` says who may."""
    if server.admin_host is not None or is_loopback(address):
        return None
    return OpenPort(
        f"everybody who reaches {address} may read the metrics on server.admin_port, which need no key",
        f"set server.admin_host: 127.0.0.1, or to the address from which your monitoring reads ({address} if that is meant)",
    )
