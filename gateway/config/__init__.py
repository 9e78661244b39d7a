"""Reads gateway.yaml into a `Config`. All faults are found in one pass and reported together, each with its line.

Modules in reading order:

    document       reads the file into plain values with their line numbers
    substitution   fills in ``${NAME}``, ``${NAME:-default}`` and ``${file:path}`` after parsing
    values         validates and converts single values, including keys and secrets
    store_url      validates `store.url`: a SQLite file, or a PostgreSQL connection URI as libpq reads it
    config_shape   defines every key with its type and default, for pydantic
    model          defines the configuration as the gateway uses it: frozen, with all defaults filled in
    load_config    builds the model from the file: checks types, checks rules across keys, collects faults
    exposed        finds what other users and machines can read: files with secrets, the metrics port

Always true: only `config_shape` defines a key's name, type and default. The rest of the gateway uses only `model`. An
unknown key is a fault. A test compares docs/configuration.md with `config_shape`.
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
    with_fixed_settings,
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
    "with_fixed_settings",
]
