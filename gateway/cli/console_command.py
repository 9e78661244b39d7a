"""``gateway console``: prints a link with which a person signs in to the console. The link works once."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file
from gateway.cli.run_command import run_on_store
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.records.console import ConsoleSession
    from gateway.store import Store


@click.command()
@config_file
@click.option(
    "--name",
    default="operator",
    metavar="NAME",
    help="The person's name in logs and the audit trail.  [default: operator]",
)
@click.option("--viewer", is_flag=True, help="The person may see everything and change nothing.")
@click.option("--sign-out-all", is_flag=True, help="End all sessions and unused links; print no link.")
@as_json
def console(file: Path, name: str, viewer: bool, sign_out_all: bool, as_json: bool) -> None:
    """Print a link that signs in to the console. It works once, within ten minutes.

    Anybody who opens the link acts as NAME: send it only to that person.
    """
    if not (1 <= len(name) <= 64 and name.isprintable()):
        raise click.UsageError("--name takes 1 to 64 printable characters.")

    async def work(store: "Store", config: "Config") -> int:
        if sign_out_all:
            ended_count = await store.console_sessions.end_all()
            print(
                json.dumps({"ended": ended_count})
                if as_json
                else f"{counted(ended_count, 'session or link', 'sessions and links')} ended"
            )
            return 0
        return await _print_link(store, config, name, viewer=viewer, as_json=as_json)

    run_on_store(file, work, as_json=as_json)


async def _print_link(store: "Store", config: "Config", name: str, *, viewer: bool, as_json: bool) -> int:
    if not config.console.enabled:
        location = config.file_and_line("console", "enabled")
        print(f"gateway: the console is off; set console.enabled: true ({location})", file=sys.stderr)
        return 1
    url, link = await sign_in_link(store, config, name, viewer=viewer)
    if as_json:
        print(json.dumps({"url": url, "name": link.name, "role": link.role, "expires_at": link.expires_at.isoformat()}))
        return 0
    print(url)
    print(f"\nSigns in once, until {link.expires_at:%H:%M} UTC, as {link.name} ({link.role}).", file=sys.stderr)
    return 0


async def sign_in_link(
    store: "Store", config: "Config", name: str, *, viewer: bool = False
) -> "tuple[str, ConsoleSession]":
    """Create a sign-in link, and return its URL, which contains a secret, and the stored session."""
    from gateway.store.console_sessions import new_link

    token, link = await new_link(store.console_sessions, name, "viewer" if viewer else "operator")
    return f"{config.console_url}/console/sign-in?link={token.reveal()}", link
