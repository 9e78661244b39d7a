"""Reads gateway.yaml into a `Config`. All faults are found in one pass and reported together, each with its line.

Read in this order:

    document       the file as plain values with their line numbers
    substitution   ``${NAME}``, ``${NAME:-default}`` and ``${file:path}``, filled in after parsing
    values         validates and converts single values, also keys and secrets
    store_url      `store.url`: a SQLite file, or a PostgreSQL connection URI as libpq reads it
    config_shape   every key, its type and default, for pydantic
    model          the configuration as the gateway uses it: frozen, with all defaults filled in
    load_config    from the file to the model: shapes, rules across keys, faults
    exposed        what a configuration exposes to others: files with secrets, the metrics port

Always true: a key's name, type and default are defined once, in `config_shape`; the rest of the gateway uses only
`model`; unknown keys are faults; docs/configuration.md is tested against `config_shape`.
"""

from gateway.config.document import Fault, Faults, Readable
from gateway.config.load_config import load, parse
from gateway.config.model import (
    AllowedNetwork,
    ClientLimitsConfig,
    Config,
    ConnectConfig,
    EgressConfig,
    EnvironmentConfig,
    LiveConfig,
    PoolConfig,
    ServerConfig,
    StoreConfig,
    WebhooksConfig,
    with_fixed,
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
    "LiveConfig",
    "PoolConfig",
    "Readable",
    "ServerConfig",
    "StoreConfig",
    "WebhooksConfig",
    "load",
    "parse",
    "with_fixed",
]
