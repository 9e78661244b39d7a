"""``gateway keys status`` and ``rotate``: the encryption keys, and how many values each key encrypts."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import as_json, config_file
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.config import Config, StoreConfig
    from gateway.store import Store
    from gateway.store.rotation import KeyCounts, RotationResult

# ── The encryption keys, each with its position in store.encryption_keys and its id.


@dataclass(frozen=True, slots=True)
class EncryptionKeyUse:
    """An encryption key and its use.

    `place`: the key's position in store.encryption_keys, from 1.
    `data_keys`: the number of data keys that this key encrypts.
    `values`: the number of values that these data keys encrypt.
    """

    place: int
    id: str
    data_keys: int
    values: int

    @property
    def is_removable(self) -> bool:
        """Return whether the key is no longer needed. The first key is always needed: it wraps new data keys."""
        return self.place > 1 and self.data_keys == 0


def key_uses(store: "StoreConfig", counts: "KeyCounts") -> Sequence[EncryptionKeyUse]:
    from gateway.vault import Keyring

    ids = Keyring(store.encryption_keys).ids
    wrapped_counts = [counts.data_keys_wrapped_by(id_) for id_ in ids]
    return [
        EncryptionKeyUse(place, key_id, len(keys), sum(key.total for key in keys))
        for place, (key_id, keys) in enumerate(zip(ids, wrapped_counts, strict=True), start=1)
    ]


def advice(uses: Sequence[EncryptionKeyUse]) -> str:
    """Return the operator's next step, in one line."""
    removable = [str(key.place) for key in uses if key.is_removable]
    needed_keys = [key for key in uses if key.place > 1 and key.data_keys]
    if needed_keys:
        return (
            "Run `gateway keys rotate` to encrypt everything again with key 1. Until then, keep all keys in the list."
        )
    if removable:
        subject, pronoun = (
            (f"key {removable[0]} is", "it") if len(removable) == 1 else (f"keys {', '.join(removable)} are", "them")
        )
        return f"Encryption {subject} no longer needed: remove {pronoun} from store.encryption_keys on every node, then reload."
    return "Every key in store.encryption_keys is needed."


# ── ``gateway keys status``: counts the values that each key encrypts, and shows which encryption keys can be removed.


@click.command()
@config_file
@click.option("--verify", is_flag=True, help="Also decrypt every value, and list those that cannot be decrypted.")
@as_json
def status(file: Path, verify: bool, as_json: bool) -> None:
    """Count the values encrypted with each encryption key and each data key. Never shows a key.

    Exits 1 if a value cannot be decrypted: its data key is missing or, with --verify, the value was changed.
    """
    from gateway.cli.run_command import run_on_store

    async def work(store: "Store", config: "Config") -> int:
        from gateway.cli.terminal import progress

        counts = await store.rotation.counts()
        damaged: list[str] | None = None
        if verify:
            with progress("decrypting") as step:
                damaged = await store.rotation.verify(step)
        if as_json:
            print(json.dumps(status_json(config, counts, damaged), indent=2))
        else:
            _print(config, counts)
            if damaged == []:
                print(f"{counted(counts.total, 'value')} decrypted, none damaged.")
        for value in damaged or ():
            print(f"gateway: {value} cannot be decrypted", file=sys.stderr)
        for key_id, number in counts.without_data_key.items():
            print(
                f"gateway: {counted(number, 'value')} encrypted with data key {key_id}, which is missing",
                file=sys.stderr,
            )
        return 1 if damaged or counts.without_data_key else 0

    run_on_store(file, work, as_json=as_json)


def status_json(config: "Config", counts: "KeyCounts", damaged: list[str] | None = None) -> dict[str, Any]:

    uses = key_uses(config.store, counts)
    report: dict[str, Any] = {
        "encryption_keys": [
            {
                "place": key.place,
                "id": key.id,
                "data_keys": key.data_keys,
                "values": key.values,
                "removable": key.is_removable,
                "may_go": key.is_removable,  # the former name of `removable`
            }
            for key in uses
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
        "without_a_key": sum(counts.without_data_key.values()),
        "advice": advice(uses),
    }
    return report if damaged is None else {**report, "damaged": damaged}


def _print(config: "Config", counts: "KeyCounts") -> None:
    from gateway.cli.run_command import table

    uses = key_uses(config.store, counts)
    rows = [
        (str(key.place), key.id, str(key.data_keys), f"{key.values:,}", _use_text(key.place, key.is_removable))
        for key in uses
    ]
    table(("ENCRYPTION KEY", "ID", "DATA KEYS", "VALUES", ""), rows)
    print()
    cells = [
        (key.id, key.environment, key.master_key_id, f"{key.created_at:%Y-%m-%d}", f"{key.total:,}", use)
        for key in counts.data_keys
        for use in ["encrypts new values" if key.newest else ""]
    ]
    table(("DATA KEY", "ENVIRONMENT", "ENCRYPTION KEY", "CREATED", "VALUES", ""), cells)
    print()
    print(advice(uses))


def _use_text(place: int, is_removable: bool) -> str:
    if place == 1:
        return "encrypts new data keys"
    return "can be removed" if is_removable else "needed"


# ── ``gateway keys rotate``: encrypts everything again with the first encryption key, while gateways serve.


@click.command()
@config_file
@click.option(
    "--data-keys",
    is_flag=True,
    help="Make new data keys even if the first encryption key already encrypts the present ones.",
)
@click.option("--wrap-only", is_flag=True, help="Encrypt only the data keys again, and change no value.")
@click.option(
    "-y", "--yes", is_flag=True, help="Do not ask whether every running gateway has the first key in its list."
)
@as_json
def rotate(file: Path, data_keys: bool, wrap_only: bool, yes: bool, as_json: bool) -> None:
    """Encrypt everything again with the first key of store.encryption_keys, and with new data keys.

    Gateways may run meanwhile; every node must have that key in its list before. To continue an interrupted run, run
    the command again. Exits 1 if a value is still encrypted with another key.
    """
    if data_keys and wrap_only:
        raise click.UsageError("Give --data-keys or --wrap-only, not both.")
    from gateway.cli.run_command import run_on_store

    async def work(store: "Store", config: "Config") -> int:
        if not yes:
            _remind_of_other_nodes()
        if wrap_only:
            return await _rewrap_data_keys(store, config, as_json=as_json)
        from gateway.cli.terminal import progress

        began_at = time.monotonic()
        with progress("encrypting") as step:
            result = await store.rotation.rotate(step, fresh=data_keys)
        return await _report(store, config, result, time.monotonic() - began_at, as_json=as_json)

    run_on_store(file, work, as_json=as_json)


def _remind_of_other_nodes() -> None:
    """Print a reminder that every node needs the key, which this command cannot check.

    On a terminal, the user must confirm. Raises Abort if the answer is no.
    """
    print(
        "Every running gateway must already have the first key of store.encryption_keys: add it on each node and send "
        "SIGHUP. A gateway without the key returns 503 once values are encrypted with it.",
        file=sys.stderr,
    )
    if sys.stdin.isatty() and not click.confirm("Do all of them have it?", err=True):
        raise click.Abort


async def _rewrap_data_keys(store: "Store", config: "Config", *, as_json: bool) -> int:

    count = await store.rotation.wrap_again()
    counts = await store.rotation.counts()
    if as_json:
        print(json.dumps({"wrapped": count, "status": status_json(config, counts)}, indent=2))
    else:
        print(f"{counted(count, 'data key')} encrypted again; no value was changed.")
        print(advice(key_uses(config.store, counts)))
    return 0


async def _report(store: "Store", config: "Config", result: "RotationResult", took_s: float, *, as_json: bool) -> int:

    counts = await store.rotation.counts()
    if as_json:
        report = {
            "encrypted_again": result.sealed,
            "sealed_anew": result.sealed,  # the former name of `encrypted_again`
            "new_data_keys": result.new_keys,
            "removed_data_keys": result.removed_keys,
            "kept_data_keys": result.kept_keys,
            "left": result.left,
            "damaged": result.damaged,
            "took_s": round(took_s, 2),
        }
        print(json.dumps({**report, "status": status_json(config, counts)}, indent=2))
    else:
        data_keys_text = f"data keys: {result.new_keys} made, {result.removed_keys} removed"
        count_text = counted(result.sealed, "value")
        print(
            f"{count_text} encrypted again in {took_s:.1f} s; {result.left:,} left with another data key; {data_keys_text}."
        )
        if not result.sealed and not result.new_keys:
            print(
                "Everything was already encrypted with the first encryption key. To encrypt it again, use --data-keys."
            )
        if result.kept_keys:
            subject, pronoun = ("key is", "it") if result.kept_keys == 1 else ("keys are", "them")
            print(
                f"{result.kept_keys} former data {subject} kept for refreshes that are in progress or that another machine may "
                f"still finish; a later rotation removes {pronoun}."
            )
        print(advice(key_uses(config.store, counts)))
    for value in result.damaged:
        print(f"gateway: {value} cannot be decrypted; it was not changed", file=sys.stderr)
    return 1 if result.left else 0
