"""gateway.yaml ▸ Config. All faults are found in one pass and reported together.

    document.py      A configuration as plain values, with the line of each, and what is wrong with it.
    substitution.py  ``${NAME}``, ``${NAME:-default}`` and ``${file:path}`` in the scalars of a configuration, after
                     parsing.
    values.py        The single values of a configuration, keys and secrets included: what is right for each, in the
                     form that the rest uses.
    store_url.py     `store.url`: a SQLite file, or a PostgreSQL database as libpq's addresses name it (PostgreSQL's
                     manual, 34.1.1.2).
    shape.py         gateway.yaml as it may be written: every key, its type, its default. Read by pydantic, then
                     turned into `model`.
    model.py         The configuration as the gateway uses it: plain, frozen, every default filled in; and what a
                     running gateway cannot change.
    load_config.py   gateway.yaml ▸ Config: shapes checked, rules across keys, every fault reported at once.
    exposed.py       What a configuration leaves open to others: files with secrets, the metrics port.

Always true: a key's name, type and default stand in `shape`; the rest of the gateway sees `model` alone.
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
    IntegrationConfig,
    LiveConfig,
    PoolConfig,
    RequestLogConfig,
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
