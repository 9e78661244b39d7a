"""``gateway connections export``: writes complete connections to a file that another gateway can import.

The file is encrypted, except with `--plain`.
"""

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from gateway.cli.options import as_json, config_file, environment
from gateway.cli.run_command import check_integration, each_connection, run, select_environment
from gateway.cli.secret_inputs import passphrase_env, passphrase_file, read_passphrase
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.moving.bundle import Counts
    from gateway.records.connection import Connection
    from gateway.runtime import Runtime
    from gateway.secret import Secret


RECORDS_PER_WRITE: Final = 100


@click.command("export")
@click.option(
    "-o", "--output", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE"
)
@config_file
@environment
@click.option(
    "--integration", "integration_ids", multiple=True, metavar="ID", help="Only this integration; may be repeated."
)
@passphrase_env
@passphrase_file
@click.option("--plain", is_flag=True, help="Do not encrypt FILE: it then has every token in plain text.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@as_json
def export(
    target: Path,
    file: Path,
    environment: str | None,
    integration_ids: tuple[str, ...],
    passphrase_env: str | None,
    passphrase_file: Path | None,
    plain: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write connections and their integrations to FILE: credentials, settings, metadata, tags, end users, states,
    dates.

    FILE is encrypted with a passphrase and readable only by its owner; import it elsewhere with `gateway connections
    import FILE`. Nothing changes here, and a gateway may run meanwhile. If both gateways keep running, the first to
    refresh a rotating refresh token invalidates the other's copy: stop this gateway before the other starts.
    """
    if plain and (passphrase_env or passphrase_file):
        raise click.UsageError("--plain does not encrypt, so it takes no passphrase.")
    passphrase = None if plain else read_passphrase(passphrase_env, passphrase_file, new=True)
    if target.exists() and not force:
        raise click.UsageError(f"{target} already exists. Give another file, or add --force.")

    async def work(runtime: "Runtime") -> int:
        environment_name = select_environment(runtime, environment)
        for integration in integration_ids:
            await check_integration(runtime, environment_name, integration)
        with _complete_file(target) as bundle:
            counts = await _write_bundle(runtime, bundle, environment_name, integration_ids, passphrase)
        _print_counts(target, counts, plain=plain, as_json=as_json)
        return 0

    run(file, work, as_json=as_json)


async def _write_bundle(
    runtime: "Runtime",
    bundle: IO[bytes],
    environment: str,
    integration_ids: tuple[str, ...],
    passphrase: "Secret | None",
) -> "Counts":
    from gateway import clock
    from gateway.cli.terminal import progress
    from gateway.moving.bundle import write_lines
    from gateway.moving.sealed_stream import SealedWriter
    from gateway.vault import VaultError

    integrations = [
        integration
        for integration in runtime.generation.integrations.list_in(environment)
        if not integration_ids or integration.integration_id in integration_ids
    ]
    writer = SealedWriter(bundle, passphrase) if passphrase is not None else None
    with progress("exporting") as step:
        try:
            counts = await write_lines(
                runtime,
                writer or bundle,
                integrations,
                _connections(runtime, environment, integration_ids),
                environment=environment,
                now=clock.now(),
                step=lambda done: step(done, 0),
            )
        except VaultError as fault:
            raise click.ClickException(f"a credential cannot be decrypted, so nothing was written: {fault}") from None
    if writer is not None:
        writer.close()
    return counts


async def _connections(
    runtime: "Runtime", environment: str, integration_ids: tuple[str, ...]
) -> "AsyncIterator[Connection]":
    from gateway import clock
    from gateway.records.audit import AuditAction

    batch: list[Connection] = []

    async def record_exports() -> None:
        """Record the exports before the credentials are written.

        If recording fails, nothing is exported: every exported credential has an audit record.
        """
        await runtime.store.connections.record_read(batch, AuditAction.CONNECTION_EXPORTED, now=clock.now())

    async for connection in each_connection(runtime, environment, integration_ids=integration_ids):
        batch.append(connection)
        if len(batch) == RECORDS_PER_WRITE:
            await record_exports()
            for exported in batch:
                yield exported
            batch = []
    await record_exports()
    for exported in batch:
        yield exported


@contextmanager
def _complete_file(target: Path) -> Iterator[IO[bytes]]:
    """Yield a file that only its owner can read.

    The file gets the name `target` as soon as the file is complete and synced to disk. After an error, no file remains.
    """
    partial_file = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        new_file = os.fdopen(os.open(partial_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except OSError as fault:
        raise click.ClickException(f"{target} cannot be written: {fault.strerror}") from None
    try:
        with new_file:
            yield new_file
            new_file.flush()
            os.fsync(new_file.fileno())
        partial_file.replace(target)
    except OSError as fault:
        raise click.ClickException(f"{target} cannot be written: {fault.strerror}") from None
    finally:
        partial_file.unlink(missing_ok=True)


def _print_counts(target: Path, counts: "Counts", *, plain: bool, as_json: bool) -> None:
    if as_json:
        report = {"file": str(target), "integrations": counts.integrations, "connections": counts.connections}
        print(json.dumps({"ok": True, **report, "sealed": not plain}))
    else:
        print(f"{target}: {counted(counts.connections, 'connection')} of {counted(counts.integrations, 'integration')}")
    if plain:
        print(
            f"{target} contains every token and client secret in plain text: anybody who reads it can act as your users. "
            "Delete it after use.",
            file=sys.stderr,
        )
    elif not as_json:
        print(
            "The file is encrypted. A lost passphrase cannot be recovered: store it separately from the file.",
            file=sys.stderr,
        )
