"""``gateway audit key``: prints the public key that verifies checkpoints, or makes a new key."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file
from gateway.cli.run_command import run_on_store

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.store import Store


@click.command()
@config_file
@click.option(
    "--new", is_flag=True, help="Make a new key for new checkpoints. Keep the old public key for older checkpoints."
)
@as_json
def key(file: Path, new: bool, as_json: bool) -> None:
    """Print the Ed25519 public key, in base64. Keep it in another place, and pass it to `verify --public-key`."""

    async def work(store: "Store", _config: "Config") -> int:
        from gateway import clock
        from gateway.vault import VaultError

        now = clock.now()
        try:
            public_key = await (store.audit.new_key(now=now) if new else store.audit.public_key(now=now))
        except VaultError as fault:
            print(f"gateway: the signing key cannot be decrypted: {fault} To replace it, use --new.", file=sys.stderr)
            return 1
        store_id = (await store.audit.chain_end()).store
        print(json.dumps({"public_key": public_key, "store": store_id}) if as_json else public_key)
        return 0

    run_on_store(file, work, as_json=as_json)
