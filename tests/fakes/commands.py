"""`gateway …` in this process, on a thread and a loop of its own: what a command says, without a second for its start."""

import asyncio
from typing import NamedTuple

from click.testing import CliRunner

from gateway.cli import main


class CommandOutput(NamedTuple):
    code: int
    out: str
    err: str


async def command_output(*words: str, stdin: str | None = None) -> CommandOutput:
    """Exit code, stdout and stderr. An exception that would be a traceback is raised."""
    done = await asyncio.to_thread(CliRunner().invoke, main, words, input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CommandOutput(done.exit_code, done.stdout, done.stderr)
