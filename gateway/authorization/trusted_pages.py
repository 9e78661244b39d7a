"""The pages that an environment trusts: they may embed the connect page, and end users may be redirected to them."""

from urllib.parse import urlsplit

from gateway.config import Config
from gateway.config.values import is_loopback


def is_registered(config: Config, environment: str, origin: str) -> bool:
    """Return whether pages of `origin`, as a browser writes it, belong to the application of `environment`.

    The pages belong to the application if `origin` is in the environment's `connect_origins`. If the gateway is
    reachable only from this machine, pages of this machine also belong to the application.
    """
    environment_config = config.environments.get(environment)
    if environment_config is not None and origin in environment_config.connect_origins:
        return True
    scheme, _, host_and_port = origin.partition("://")
    host = host_and_port.rpartition(":")[0] or host_and_port
    return trusts_loopback(config) and scheme in {"http", "https"} and host in {"localhost", "127.0.0.1"}


def trusts_loopback(config: Config) -> bool:
    """Return whether the gateway is reachable only from this machine. Such a gateway trusts the pages of this machine,
    so that a first test needs no configuration."""
    return is_loopback(urlsplit(config.server.public_url).hostname or "")
