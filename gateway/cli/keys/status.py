"""``gateway keys status``: how many values each key seals, and which encryption keys may be taken out of the file."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import as_json, config_file
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.store import Store
    from gateway.store.key_counts import KeyCounts


@click.command()
@config_file
@click.option("--verify", is_flag=True, help="Open every value as well, and tell which do not open.")
@as_json
def status(file: Path, verify: bool, as_json: bool) -> None:
    """Count what is sealed under each encryption key and each data key. Never shows a key.

    Exits 1 where a value does not open: its data key is gone or, with --verify, it was changed.
    """
    from gateway.cli.on_store import on_store

    async def work(store: "Store", config: "Config") -> int:
        from gateway.cli.progress import progress

        counts = await store.rotation.counts()
        damaged: list[str] | None = None
        if verify:
            with progress("opening") as step:
                damaged = await store.rotation.verify(step)
        if as_json:
            print(json.dumps(as_report(config, counts, damaged), indent=2))
        else:
            _print(config, counts)
        for value in damaged or ():
            print(f"gateway: {value} does not open", file=sys.stderr)
        for key_id, number in counts.homeless.items():
            print(f"gateway: {counted(number, 'value')} under data key {key_id}, which is not stored", file=sys.stderr)
        return 1 if damaged or counts.homeless else 0

    on_store(file, work, as_json=as_json)


def as_report(config: "Config", counts: "KeyCounts", damaged: list[str] | None = None) -> dict[str, Any]:
    from gateway.cli.keys.masters import advice, masters

    found = masters(config.store, counts)
    report: dict[str, Any] = {
        "encryption_keys": [
            {"place": one.place, "id": one.id, "data_keys": one.data_keys, "values": one.values, "may_go": one.may_go}
            for one in found
        ],
        "data_keys": [
            {
                "id": key.id,
                "environment": key.environment,
                "encryption_key": key.master_key_id,
                "created_at": key.created_at.isoformat(timespec="seconds"),
                "seals": key.newest,
                "values": dict(key.values),
            }
            for key in counts.data_keys
        ],
        "values": counts.total,
        "without_a_key": sum(counts.homeless.values()),
        "advice": advice(found),
    }
    return report if damaged is None else {**report, "damaged": damaged}


def _print(config: "Config", counts: "KeyCounts") -> None:
    from gateway.cli.connections.work import table
    from gateway.cli.keys.masters import advice, masters

    found = masters(config.store, counts)
    rows = [
        (str(one.place), one.id, str(one.data_keys), f"{one.values:,}", _use(one.place, one.may_go)) for one in found
    ]
    table(("ENCRYPTION KEY", "ID", "DATA KEYS", "VALUES", ""), rows)
    print()
    shown = [
        (key.id, key.environment, key.master_key_id, f"{key.created_at:%Y-%m-%d}", f"{key.total:,}", use)
        for key in counts.data_keys
        for use in ["seals" if key.newest else ""]
    ]
    table(("DATA KEY", "ENVIRONMENT", "UNDER", "MADE", "VALUES", ""), shown)
    print()
    print(advice(found))


def _use(place: int, may_go: bool) -> str:
    if place == 1:
        return "wraps what is new"
    return "may go" if may_go else "needed"
