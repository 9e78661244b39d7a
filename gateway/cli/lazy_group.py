"""A command group that knows the name and one line of help of each command, and imports a command when it is called."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, NamedTuple

import click

from gateway.text import did_you_mean


class Command(NamedTuple):
    """The location of a command, as ``package.module:attribute``, and its one-line help."""

    location: str
    short_help: str


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, so ``gateway --help`` imports no aiohttp or pydantic."""

    def __init__(self, *args: Any, table: Mapping[str, Command], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None:
            return super().make_context(info_name, args, parent, **extra)
        with _usage_error_as_json(args):
            context = super().make_context(info_name, list(args), **extra)
        context.meta[_ARGUMENTS] = args
        return context

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.parent is not None:
            return super().invoke(ctx)
        with _usage_error_as_json(ctx.meta[_ARGUMENTS]):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.location.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and (hint := did_you_mean(name, self.table)):
            ctx.fail(f"No such command '{name}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self.table.items()])


_ARGUMENTS: Final = "gateway.arguments"  # where the context keeps the arguments of the command line


@contextmanager
def _usage_error_as_json(arguments: Sequence[str]) -> Iterator[None]:
    """If `arguments` have ``--json`` and the block raises a UsageError, print it to stdout as JSON too, like any fault.

    The arguments are searched here, because click can refuse them before it has read ``--json``.
    """
    try:
        yield
    except click.UsageError as error:
        if "--json" in takewhile(lambda argument: argument != "--", arguments):
            from gateway.cli.terminal import print_fault_as_json

            print_fault_as_json(error.format_message())
        raise
