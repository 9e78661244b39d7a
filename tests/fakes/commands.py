"""Runs a `gateway …` command in this process, in a thread with its own event loop. This saves the second that a new
process needs.
"""

import asyncio
from typing import NamedTuple

from click.testing import CliRunner

from gateway.cli import main


class CommandOutput(NamedTuple):
    code: int
    out: str
    err: str


async def command_output(*arguments: str, stdin: str | None = None) -> CommandOutput:
    """Run a command. Return its exit code, stdout and stderr. Raise the exception that the command would print as a
    traceback.
    """
    done = await asyncio.to_thread(CliRunner().invoke, main, arguments, input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CommandOutput(done.exit_code, done.stdout, done.stderr)
