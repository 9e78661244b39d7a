"""gateway.yaml ▸ Config.

    text ▸ nodes          yaml_nodes, json_nodes      lines, repeated keys and aliases stay visible
    nodes ▸ document      document                    plain values, and the line of each
    document ▸ filled     substitution                ${NAME}, ${NAME:-default}, ${file:path}
    filled ▸ shape        shape, values, reading      types, ranges, unknown keys
    shape ▸ Config        rules, load, model          what only several keys together can tell

Each step adds the faults it finds; they are reported together.
"""

from gateway.config.faults import Fault, Faults, Readable
from gateway.config.fixed import with_fixed
from gateway.config.load import load, parse
from gateway.config.model import (
    AllowedNetwork,
    ClientLimitsConfig,
    Config,
    ConnectConfig,
    EgressConfig,
    EnvironmentConfig,
    IntegrationConfig,
    LiveConfig,
    PoolConfig,
    RequestLogConfig,
    ServerConfig,
    StoreConfig,
    WebhooksConfig,
)

__all__ = [
    "AllowedNetwork",
    "ClientLimitsConfig",
    "Config",
    "ConnectConfig",
    "EgressConfig",
    "EnvironmentConfig",
    "Fault",
    "Faults",
    "IntegrationConfig",
    "LiveConfig",
    "PoolConfig",
    "Readable",
    "RequestLogConfig",
    "ServerConfig",
    "StoreConfig",
    "WebhooksConfig",
    "load",
    "parse",
    "with_fixed",
]
