"""``gateway demo``: the gateway with its built-in fake provider, and a connection that already works."""

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.terminal import program

if TYPE_CHECKING:
    from gateway.cli.demo.demo_run import DemoReady

PORT = click.IntRange(0, 65535)


@click.command(short_help="run the gateway with a fake provider and a ready connection")
@click.option("--port", type=PORT, default=3003, show_default=True, help="The gateway's port; 0 picks a free port.")
@click.option(
    "--sandbox-port", type=PORT, default=3004, show_default=True, help="The fake provider's port; 0 picks a free port."
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".gateway"),
    show_default=True,
    help="Folder for configuration, keys, database and logs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON once ready.")
def demo(port: int, sandbox_port: int, state: Path, as_json: bool) -> None:
    """Start the gateway together with a fake Jira, create a connection through a full OAuth flow, and print a curl command
    that uses it. Runs in the foreground; Ctrl-C stops both.
    """
    import asyncio

    from gateway.cli.demo import DemoFailed
    from gateway.cli.demo.demo_folder import DemoFolder
    from gateway.cli.demo.demo_run import run

    def announce(demo: "DemoReady") -> None:
        text = json.dumps(dataclasses.asdict(demo)) if as_json else banner(demo, state)
        print(text, flush=True)

    if not as_json:
        print("Starting the gateway and the sandbox …", file=sys.stderr, flush=True)
    try:
        asyncio.run(run(DemoFolder(state.absolute()), port=port, sandbox_port=sandbox_port, announce=announce))
    except DemoFailed as failed:
        raise click.ClickException(str(failed)) from failed


def banner(demo: "DemoReady", state: Path) -> str:
    """Return the text for the terminal. Each command and each link has its own line, which makes copying easy."""
    config_option = f" -c {shlex.quote(str(state / 'gateway.yaml'))}"
    try_option = "" if state == Path(".gateway") else config_option  # `try` finds the default folder by itself
    console_command = f"{program()} console{config_option}"
    console_text = f"""Open the console (the link works once, within ten minutes; for a new one, run `{console_command}`):

{demo.console_link}

"""
    return f"""
The gateway runs on {demo.url}, in front of a fake Jira.
A demo user has connected through OAuth. Read two of her issues through the gateway:

{demo.curl}

Show such a call in full, also as Python and Node. In another terminal, in this folder: {program()} try{try_option}

Connect another account in a browser (log in as demo@example.com, password demo; the link is valid for 30 minutes):

{demo.connect_link}

Give an agent her issues as MCP tools (this command is for Claude Code; other clients: docs/agents.md):

{demo.mcp_add}

{console_text if demo.console_link else ""}Keys, database and logs are in {state}/. Ctrl-C stops both.
"""
