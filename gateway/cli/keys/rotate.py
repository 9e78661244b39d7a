"""``gateway keys rotate``: everything sealed anew under the first encryption key, while gateways serve."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.store import Store
    from gateway.store.rotation import Rotated


@click.command()
@config_file
@click.option(
    "--data-keys", is_flag=True, help="Make new data keys also where the first encryption key wraps them already."
)
@click.option("--wrap-only", is_flag=True, help="Only wrap the data keys anew, and leave every value as it is.")
@click.option("-y", "--yes", is_flag=True, help="Every running gateway has the first key in its list: do not ask.")
@as_json
def rotate(file: Path, data_keys: bool, wrap_only: bool, yes: bool, as_json: bool) -> None:
    """Seal everything anew under the first of store.encryption_keys, with fresh data keys.

    Gateways go on serving meanwhile; every node must have that key in its list first. What was interrupted goes on where
    it was: run it again. Exits 1 where a value is left under another key.
    """
    if data_keys and wrap_only:
        raise click.UsageError("Give one of --data-keys and --wrap-only.")
    from gateway.cli.on_store import on_store

    async def work(store: "Store", config: "Config") -> int:
        if not yes:
            _remind()
        if wrap_only:
            return await _wrapped(store, config, as_json=as_json)
        from gateway.cli.progress import progress

        began = time.monotonic()
        with progress("sealing anew") as step:
            done = await store.rotation.rotate(step, fresh=data_keys)
        return await _told(store, config, done, time.monotonic() - began, as_json=as_json)

    on_store(file, work, as_json=as_json)


def _remind() -> None:
    """What no gateway can be asked from here. On a terminal, nothing is done before it is confirmed."""
    words = (
        "Every running gateway must know the first of store.encryption_keys by now: change its list and send it SIGHUP."
    )
    print(f"{words} One that does not answers 503 once values are sealed under it.", file=sys.stderr)
    if sys.stdin.isatty() and not click.confirm("Do all of them know it?", err=True):
        raise click.Abort


async def _wrapped(store: "Store", config: "Config", *, as_json: bool) -> int:
    from gateway.cli.keys.masters import advice, masters
    from gateway.cli.keys.status import as_report

    count = await store.rotation.wrap_anew()
    counts = await store.rotation.counts()
    if as_json:
        print(json.dumps({"wrapped": count, "status": as_report(config, counts)}, indent=2))
    else:
        print(f"{counted(count, 'data key')} wrapped anew; every value stays as it is.")
        print(advice(masters(config.store, counts)))
    return 0


async def _told(store: "Store", config: "Config", done: "Rotated", took_s: float, *, as_json: bool) -> int:
    from gateway.cli.keys.masters import advice, masters
    from gateway.cli.keys.status import as_report

    counts = await store.rotation.counts()
    if as_json:
        report = {
            "sealed_anew": done.sealed,
            "new_data_keys": done.new_keys,
            "removed_data_keys": done.removed_keys,
            "kept_data_keys": done.kept_keys,
            "left": done.left,
            "damaged": done.damaged,
            "took_s": round(took_s, 2),
        }
        print(json.dumps({**report, "status": as_report(config, counts)}, indent=2))
    else:
        made = f"data keys: {done.new_keys} made, {done.removed_keys} removed"
        sealed = counted(done.sealed, "value")
        print(f"{sealed} sealed anew in {took_s:.1f} s; {done.left:,} left under another data key; {made}.")
        if not done.sealed and not done.new_keys:
            print("Everything was under the first encryption key already; --data-keys seals it anew all the same.")
        if done.kept_keys:
            which, them = ("key stays", "it") if done.kept_keys == 1 else ("keys stay", "them")
            print(
                f"{done.kept_keys} former data {which} for refreshes that began before; the next rotation removes {them}."
            )
        print(advice(masters(config.store, counts)))
    for value in done.damaged:
        print(f"gateway: {value} does not open; it was left as it is", file=sys.stderr)
    return 1 if done.left else 0
