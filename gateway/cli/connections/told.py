"""How an import ends on a terminal, and what is told before it begins."""

import json
import sys
from typing import TYPE_CHECKING

from gateway.cli.connections.work import table
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.moving.intake import Intake
    from gateway.moving.preview import Preview
    from gateway.services import Services


def tell_ahead(services: "Services", environment: str) -> None:
    """What a test refresh does to the system that the tokens come from."""
    from gateway.moving.intake import rotating

    keys = rotating(services, environment)
    which = f" That is known of {', '.join(keys)}." if keys else ""
    print(
        "gateway: --test-refresh renews every connection. Where refresh tokens rotate, the old system's copy is dead from "
        f"then on.{which}",
        file=sys.stderr,
    )


def tell(intake: "Intake", *, as_json: bool) -> int:
    """Print what became of all; the exit code."""
    tally, dry = intake.tally, intake.wish.dry_run
    faults = [one for one in intake.made if one.fault]
    code = 0 if tally.well and not faults else 1
    if as_json:
        made = {"made": [one.key for one in intake.made if one.made], "faults": {one.key: one.fault for one in faults}}
        print(json.dumps({"ok": code == 0, "dry_run": dry, **tally.as_json(), "integrations": made}, indent=2))
        return code
    for one in intake.made:
        word = "would be made" if dry else "made"
        print(f"integration {one.key}: {f'not made: {one.fault}' if one.fault else word}")
    ahead = "would be " if dry else ""
    rows = [
        (f"{ahead}{result}", reason, f"{count:,}", _example(intake, result, reason))
        for (result, reason), count in sorted(tally.counts.items())
    ]
    table(("RESULT", "REASON", "COUNT", "FOR EXAMPLE"), rows)
    for note, count in sorted(tally.notes.items()):
        print(f"{count:,}: {note}")
    for came, count in sorted(tally.renewed.items()):
        print(f"test refresh: {came}: {count:,}")
    if dry:
        print("Nothing was changed.", file=sys.stderr)
    return code


def _example(intake: "Intake", result: str, reason: str) -> str:
    one = intake.tally.examples[result, reason]
    place = f"{one.integration_id}/{one.connection_id}".strip("/")
    return f"{place}: {one.detail}" if place and one.detail else place or one.detail


def tell_preview(seen: "Preview", *, as_json: bool) -> int:
    """Print it; 1 where something cannot be moved as it is."""
    well = not seen.orphans and all(one.verdict in ("works", "register_callback") for one in seen.forecasts)
    if as_json:
        told = {
            "ok": well,
            "callback_url": seen.callback_url,
            "webhook_url": seen.webhook_url,
            "connections": seen.counts(),
            "integrations": [one.as_json() for one in seen.forecasts],
            "without_integration": dict(seen.orphans),
            "steps": list(seen.steps),
        }
        print(json.dumps(told, indent=2))
        return 0 if well else 1
    for one in seen.forecasts:
        name = one.key if one.key == one.here else f"{one.key} → {one.here}"
        print(f"{one.verdict:<17} {name} ({one.provider}): {counted(one.connections, 'connection')}")
        for line in one.todo:
            print(f"{'':<17} - {line}")
    for key, count in seen.orphans.items():
        print(f"{'not_possible':<17} {key}: {counted(count, 'connection')} of an integration that is not listed there")
    print("\nConnections: " + ", ".join(f"{count:,} {name}" for name, count in seen.counts().items()))
    print("Out of scope: syncs, actions, records and functions stay there; move what they do into your application.")
    print("\nIn this order:")
    for number, step in enumerate(seen.steps, 1):
        print(f"  {number}. {step}")
    return 0 if well else 1
