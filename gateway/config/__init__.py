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
unknown key is a fault. A test compares docs/configuration.md with `config_shape`. Only `load` and `parse` import
`load_config`, which takes 50 ms, because some processes read no file: a worker that replaces another, `gateway init`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.config.document import Fault, Faults, Readable
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


def load(path: Path, *, environ: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration from the YAML or JSON file at `path`.

    Relative paths in the file start from the file's folder. `environ`: the environment variables for ``${NAME}``.
    Raises Faults with all faults, each as ``file:line``.
    """
    from gateway.config import load_config

    return load_config.load(path, environ=environ)


def parse(document: Mapping[str, Any], *, base: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration from `document`, a mapping with the same keys as gateway.yaml. Raises Faults.

    `base`: the folder from which relative paths start. `environ`: the environment variables for ``${NAME}``.
    """
    from gateway.config import load_config

    return load_config.parse(document, base=base, environ=environ)
