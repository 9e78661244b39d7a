"""``gateway audit show`` and ``export``: print records as a table or as JSON Lines."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.audit.audit_filters import build_filter, filters
from gateway.cli.options import RowId, as_json, config_file
from gateway.cli.run_command import run_on_store, table

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.records.audit import ChainedRecord
    from gateway.store import Store

COLUMNS: Final = ("NUMBER", "AT (UTC)", "ACTION", "BY", "FROM", "OF", "OUTCOME", "DETAIL")
MAX_LIMIT: Final = 10_000
MAX_DETAIL_CHARS: Final = 80


@click.command()
@config_file
@filters
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), default=100, show_default=True, help="Maximum number of records."
)
@click.option("--cursor", type=RowId(), metavar="NUMBER", help="Only records before the record with this number.")
@as_json
def show(file: Path, limit: int, cursor: int | None, as_json: bool, **options: Any) -> None:
    """Print records, newest first."""
    audit_filter = build_filter(options, limit=limit, before=cursor)

    async def work(store: "Store", _config: "Config") -> int:
        await store.audit.append_to_chain()
        records = await store.audit.find(audit_filter)
        if as_json:
            print(json.dumps([record.as_json() for record in records], indent=2))
        else:
            table(COLUMNS, [_row(record) for record in records])
        return 0

    run_on_store(file, work, as_json=as_json)


@click.command()
@config_file
@filters
@click.option(
    "--after",
    type=RowId(0),
    metavar="NUMBER",
    help="Only records after this one, for example the last of the previous export.",
)
def export(file: Path, after: int | None, **options: Any) -> None:
    """Print all records as JSON Lines, oldest first.

    Each line is one record with its sequence number and hash. Without filters, the output is the complete chain.
    """
    audit_filter = build_filter(options, after=after)

    async def work(store: "Store", _config: "Config") -> int:
        await store.audit.append_to_chain()
        async for page in store.audit.pages(audit_filter):
            sys.stdout.write("".join(json.dumps(record.as_json(), separators=(",", ":")) + "\n" for record in page))
        sys.stdout.flush()
        return 0

    run_on_store(file, work)


def _row(record: "ChainedRecord") -> tuple[str, ...]:
    members = record.as_json()
    target = members.get("object", {})
    target_name = "/".join(target[name] for name in ("integration", "connection") if name in target)
    key = f"key {target['key_id']}" if "key_id" in target else ""
    detail = " ".join(f"{name}={value}" for name, value in members.get("detail", {}).items())
    return (
        str(record.sequence),
        f"{record.columns.at:%Y-%m-%d %H:%M:%S}",
        record.columns.action,
        actor_text(members.get("actor", {})),
        members.get("address", ""),
        target_name or key or members.get("end_user", ""),
        members.get("outcome", ""),
        detail[:MAX_DETAIL_CHARS],
    )


def actor_text(actor: Mapping[str, Any]) -> str:
    """Return the actor as a short text for a table cell."""
    kind = actor.get("kind", "")
    if kind == "key":
        return f"key {actor.get('key_id')} ({actor.get('name', '')})"
    if kind == "operator":
        return f"{actor.get('name', '')}: {actor.get('command', '')}"
    if kind == "session":
        return f"session {actor.get('session', '')}"
    return {"configured_key": "a key of gateway.yaml"}.get(kind, str(kind))
