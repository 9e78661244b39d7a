"""Runs a command on the store alone, whether or not a gateway serves from it; catalog and providers are not touched."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.refusal import faults_end_the_command

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.store import Store


def on_store(file: Path, work: "Callable[[Store, Config], Awaitable[int]]", *, as_json: bool = False) -> None:
    """Open the store of `file`, do `work`, close it and exit with what `work` returned; 1 for a fault, told in one line."""
    with faults_end_the_command(as_json, file):
        config = _ready(file)
        code = asyncio.run(_opened(config, work))
    sys.exit(code)


def _ready(file: Path) -> "Config":
    """The configuration, whose store was looked at: a wrong key is told before anything heavy is loaded."""
    from gateway.config import load
    from gateway.store.looking import look_at

    config = load(file)
    look_at(config.store)
    return config


async def _opened(config: "Config", work: "Callable[[Store, Config], Awaitable[int]]") -> int:
    import os

    from gateway import logs
    from gateway.errors import GatewayError
    from gateway.store import open_store
    from gateway.vault import Keyring

    logs.setup(os.environ.get(logs.LEVEL) or "warning")
    keyring = Keyring(config.store.encryption_keys)
    store = await open_store(config.store.url, keyring, environments=(), pool=config.store.pool)
    try:
        return await work(store, config)
    except GatewayError as fault:
        print(f"gateway: {fault.message}", file=sys.stderr)
        return 1
    finally:
        await store.close()
