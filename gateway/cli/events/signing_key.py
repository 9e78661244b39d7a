"""``gateway events key``: prints the key that signs events, or makes a new key."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file, environment
from gateway.cli.run_command import run, select_environment

if TYPE_CHECKING:
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@click.option("--rotate", is_flag=True, help="Make a new key; the former key also signs for another day.")
@as_json
def key(file: Path, environment: str | None, rotate: bool, as_json: bool) -> None:
    """Print the key with which receivers verify that events come from this gateway."""

    async def work(runtime: "Runtime") -> int:
        from gateway.events import signatures
        from gateway.events.signatures import standard_form

        environment_name = select_environment(runtime, environment)
        if rotate:
            _, retires_at = await signatures.rotate(runtime.generation.config, runtime.store, environment_name)
            print(f"the former key also signs until {retires_at:%Y-%m-%d %H:%M} UTC", file=sys.stderr)
        key = (await signatures.signing_keys(runtime.generation.config, runtime.store, environment_name))[0]
        key_text, standard = key.reveal(), standard_form(key).reveal()
        if as_json:
            report = {"webhook_signing_key": key_text, "standard_webhooks_key": standard}
            print(json.dumps({"environment": environment_name, **report}))
            return 0
        print(key_text)
        if standard != key_text:
            print(f"for Standard Webhooks libraries: {standard}", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)
