"""Runs a command with the opened store, or with the gateway's runtime, without serving requests."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.cli.terminal import exit_on_errors, one_line

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.records.connection import Connection, ConnectionRef
    from gateway.runtime import Runtime
    from gateway.store import Store

# ── Commands that need only the store, and no catalog. A gateway can use the same store at the same time.


def run_on_store(file: Path, work: "Callable[[Store, Config], Awaitable[int]]", *, as_json: bool = False) -> None:
    """Open the store of the configuration `file`, run `work`, close the store, and exit.

    The exit code is the result of `work`. A fault is printed in one line, with exit code 1. An empty store is refused,
    because the configuration then probably names the wrong store. An unset variable of an integration is only a
    warning.
    """
    with exit_on_errors(as_json, file):
        code = asyncio.run(run_on_opened_store(file, work))
    sys.exit(code)


def _load_and_check(
    file: Path, *, may_create_store: bool = False, needs_integrations: bool = False
) -> "tuple[Config, frozenset[tuple[str, ...]]]":
    """Load the configuration and check its store before heavy imports, to report a wrong key quickly.

    Return the configuration, and the places of the values that are left out. `may_create_store`: the store may be
    empty, because this command may be the first that writes to the store. `needs_integrations`: as in `run`. Raises
    Faults and StoreRefused. Blocks.
    """
    from gateway.store.preflight import POSTGRES, check_database, database_name
    from gateway.store.preflight_checks import StoreRefused

    config, left_out = load_configuration(file, needs_integrations=needs_integrations)
    if check_database(config.store) is None and not may_create_store:
        place = database_name(config.store)
        if not config.store.url.startswith(POSTGRES) and not Path(place).exists():
            raise StoreRefused(
                f"{place} does not exist. Correct store.url, or move the file back. To start a new gateway, run "
                "`gateway serve`."
            )
        raise StoreRefused(
            f"{place} contains no gateway data. Correct store.url, restore a backup, or start a new gateway with "
            "`gateway serve`."
        )
    return config, left_out


def load_configuration(file: Path, *, needs_integrations: bool = False) -> "tuple[Config, frozenset[tuple[str, ...]]]":
    """Load the configuration; return it, and the places of the values that are left out. Raises Faults.

    `needs_integrations`: as in `run`. Values that are left out are printed as warnings.
    """
    from gateway.config import Faults, load

    try:
        return load(file), frozenset()
    except Faults as faults:
        if needs_integrations or faults.readable is None or not faults.readable.lacks_only_integration_values:
            raise
        for fault in faults.faults:
            print(f"gateway: {fault} (this command works without it)", file=sys.stderr)
        return faults.readable.config, faults.readable.left_out


async def run_on_opened_store(file: Path, work: "Callable[[Store, Config], Awaitable[int]]") -> int:
    """Open the store of the configuration `file`, run `work`, and return its result.

    For a command that has its own event loop. Raises Faults, StartRefused and GatewayError.
    """
    # The check runs in a thread, because the check of PostgreSQL has its own event loop.
    config, _ = await asyncio.to_thread(_load_and_check, file)
    import os

    from gateway.startup.imports import skip_unused_modules

    skip_unused_modules()
    from gateway.observe import logs
    from gateway.store import open_store
    from gateway.vault import Keyring

    logs.setup(os.environ.get(logs.LEVEL_VARIABLE) or "warning")
    _set_operator()
    keyring = Keyring(config.store.encryption_keys)
    store = await open_store(config.store.url, keyring, environments=(), pool=config.store.pool)
    try:
        return await work(store, config)
    finally:
        await store.close()


T = TypeVar("T")


def run_as_operator(work: Callable[[], T]) -> T:
    """Run `work` and return its result. The audit trail records the operator as the actor of all changes."""

    def set_operator_and_work() -> T:
        _set_operator()
        return work()

    return copy_context().run(set_operator_and_work)


def _set_operator() -> None:
    """Set the audit trail's actor for the current context: the operating system's user and the command."""
    import getpass
    import os

    import click

    from gateway.records.audit import AuditActor, current_actor

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user id has no name, as in some containers
        user = str(os.getuid())
    if sudo_user := os.environ.get("SUDO_USER"):
        user = f"{user} (sudo by {sudo_user})"
    context = click.get_current_context(silent=True)
    current_actor.set(
        AuditActor("operator", name=user[:100], command="" if context is None else context.command_path[:100])
    )


PAGE_SIZE: Final = 500
MAX_PARALLEL: Final = 8

Item = TypeVar("Item")


def run(
    file: Path,
    work: "Callable[[Runtime], Awaitable[int]]",
    *,
    as_json: bool = False,
    may_create_store: bool = False,
    needs_integrations: bool = True,
) -> None:
    """Open the runtime of the configuration `file`, run `work`, close the runtime, and exit.

    The exit code is the result of `work`. A fault is printed in one line, with exit code 1.
    `may_create_store`: the store may be empty, because this command may be the first that writes to the store.
    Otherwise an empty store is refused. `needs_integrations`: whether the command needs the integrations' secrets, for
    example because it calls a provider. Otherwise an unset variable of an integration is only a warning.
    """
    with exit_on_errors(as_json, file):
        code = asyncio.run(
            _on_runtime(file, work, may_create_store=may_create_store, needs_integrations=needs_integrations)
        )
    sys.exit(code)


async def _on_runtime(file: Path, work: "Callable[[Runtime], Awaitable[int]]", **options: bool) -> int:
    import os

    from gateway.startup.imports import skip_unused_modules

    skip_unused_modules()
    from gateway.app.generations import check_configuration
    from gateway.app.lifetime import open_runtime
    from gateway.integrations.declared import examine_catalog
    from gateway.observe import logs

    logs.setup(os.environ.get(logs.LEVEL_VARIABLE) or "warning")
    _set_operator()
    config, left_out = await asyncio.to_thread(partial(_load_and_check, file, **options))
    checked_configuration = check_configuration(config, examine_catalog(config, left_out))
    async with open_runtime(checked_configuration) as runtime:
        return await work(runtime)


def select_environment(runtime: "Runtime", name: str | None) -> str:
    """Return `name` if an environment has this name. If `name` is None, return the only environment.

    Raises UsageError if no environment has this name, or if `name` is None and there is more than one environment.
    """
    import click

    names = list(runtime.generation.config.environments)
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        unknown_text = "" if name is None else f"There is no environment '{name}'. "
        choice = "|".join(names) or "(gateway.yaml has none)"
        raise click.UsageError(f"{unknown_text}Name the environment: --environment {choice}.")
    return name


async def check_integration(runtime: "Runtime", environment: str, integration: str) -> None:
    """Raise ClickException if the integration does not exist and has no connection.

    The message names the integration with the most similar key.
    """
    import click

    from gateway.store import ListFilter
    from gateway.text import did_you_mean

    if runtime.generation.integrations.has(environment, integration):
        return
    if await runtime.store.connections.list(environment, ListFilter(integration_ids=(integration,), limit=1)):
        return
    known_ids = [integration.integration_id for integration in runtime.generation.integrations.list_in(environment)]
    hint = did_you_mean(integration, known_ids) or f"; its integrations: {', '.join(known_ids) or 'none'}"
    raise click.ClickException(f"environment '{environment}' has no integration '{integration}'{hint}")


async def connection_refs(runtime: "Runtime", environment: str, integration: str) -> "list[ConnectionRef]":
    """Return references to all connections of an integration, newest first."""
    return [
        connection.ref async for connection in each_connection(runtime, environment, integration_ids=(integration,))
    ]


async def each_connection(runtime: "Runtime", environment: str, **filters: Any) -> "AsyncIterator[Connection]":
    """Yield every connection that matches `filters`. The store is read in pages of `PAGE_SIZE`."""
    from gateway.store import ListFilter, cursor_after

    cursor: str | None = None
    while True:
        list_filter = ListFilter(**filters, limit=PAGE_SIZE, cursor=cursor)
        connections = await runtime.store.connections.list(environment, list_filter)
        for connection in connections:
            yield connection
        if len(connections) < PAGE_SIZE:
            return
        cursor = cursor_after(connections[-1])


async def run_for_each(items: Sequence[Item], action: Callable[[Item], Awaitable[None]], label: str) -> None:
    """Run `action` for all `items`, at most `MAX_PARALLEL` at the same time.

    A progress bar is shown if stderr is a terminal. The first exception cancels the other actions and is raised.
    """
    from rich.console import Console
    from rich.progress import Progress

    from gateway.moving.parallel_work import run_bounded

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal or len(items) < 2, transient=True) as progress:
        bar = progress.add_task(label, total=len(items))

        async def run_action(item: Item) -> None:
            await action(item)
            progress.advance(bar)

        # There is no task for each item, because 100,000 items are possible.
        await run_bounded(items, run_action, at_once=MAX_PARALLEL)


def table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout, as wide as the terminal. Without a terminal, the table is 400 columns wide."""
    from rich.console import Console
    from rich.table import Table

    rich_table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        rich_table.add_row(*map(one_line, row))
    Console(width=None if sys.stdout.isatty() else 400, markup=False).print(rich_table)
