"""``gateway connections import``: imports from another gateway's API, a bundle, JSON Lines or CSV."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from gateway.cli import secret_inputs
from gateway.cli.options import as_json, config_file, environment
from gateway.cli.run_command import run, select_environment, table
from gateway.cli.secret_inputs import read_passphrase
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.moving.foreign_files import Kind
    from gateway.moving.import_one import ImportOptions
    from gateway.moving.importer import Importer
    from gateway.moving.preview import Preview
    from gateway.runtime import Runtime
    from gateway.secret import Secret

# ── The output of an import: the warning before the import, the result, and the preview.


def warn_about_test_refresh(runtime: "Runtime", environment: str) -> None:
    """Print a warning that a test refresh can invalidate the old system's copies of the tokens."""
    from gateway.moving.importer import rotating_integrations

    keys = rotating_integrations(runtime, environment)
    known_text = f" Integrations known to rotate them: {', '.join(keys)}." if keys else ""
    print(
        "gateway: --test-refresh refreshes every connection. If refresh tokens rotate, the old system's tokens stop working."
        f"{known_text}",
        file=sys.stderr,
    )


def print_import_result(importer: "Importer", *, as_json: bool) -> int:
    """Print the results of the import, and return the exit code."""
    tally, is_dry_run = importer.tally, importer.options.dry_run
    failed_integrations = [integration for integration in importer.integrations if integration.fault]
    code = 0 if tally.is_ok and not failed_integrations else 1
    if not importer.create_integrations and any(reason == "unknown_integration" for _, reason in tally.counts):
        print(
            "gateway: some integrations do not exist. Declare them, or add --create-integrations (for a bundle or another "
            "gateway).",
            file=sys.stderr,
        )
    if as_json:
        integrations_result = {
            "made": [integration.key for integration in importer.integrations if integration.created],
            "faults": {integration.key: integration.fault for integration in failed_integrations},
        }
        print(
            json.dumps(
                {"ok": code == 0, "dry_run": is_dry_run, **tally.as_json(), "integrations": integrations_result},
                indent=2,
            )
        )
        return code
    for integration in importer.integrations:
        created_text = "would be created" if is_dry_run else "created"
        print(
            f"integration {integration.key}: {f'not created: {integration.fault}' if integration.fault else created_text}"
        )
    result_prefix = "would be " if is_dry_run else ""
    rows = [
        (f"{result_prefix}{result}", reason, f"{count:,}", _example(importer, result, reason))
        for (result, reason), count in sorted(tally.counts.items())
    ]
    table(("RESULT", "REASON", "COUNT", "FOR EXAMPLE"), rows)
    for note, count in sorted(tally.notes.items()):
        print(f"{count:,}: {note}")
    for result, count in sorted(tally.renewed.items()):
        print(f"test refresh: {result}: {count:,}")
    if is_dry_run:
        print("Nothing was changed.", file=sys.stderr)
    return code


def _example(importer: "Importer", result: str, reason: str) -> str:
    example = importer.tally.examples[result, reason]
    connection_text = f"{example.integration_id}/{example.connection_id}".strip("/")
    return (
        f"{connection_text}: {example.detail}"
        if connection_text and example.detail
        else connection_text or example.detail
    )


def print_move_preview(preview: "Preview", *, as_json: bool) -> int:
    """Print the preview, and return the exit code: 0 if everything can be moved without changes, otherwise 1."""
    can_move_all = not preview.orphans and all(
        forecast.verdict in ("works", "register_callback") for forecast in preview.forecasts
    )
    if as_json:
        report = {
            "ok": can_move_all,
            "callback_url": preview.callback_url,
            "webhook_url": preview.webhook_url,
            "connections": preview.counts(),
            "integrations": [forecast.as_json() for forecast in preview.forecasts],
            "without_integration": dict(preview.orphans),
            "steps": list(preview.steps),
        }
        print(json.dumps(report, indent=2))
        return 0 if can_move_all else 1
    for forecast in preview.forecasts:
        name = forecast.key if forecast.key == forecast.local_key else f"{forecast.key} → {forecast.local_key}"
        print(f"{forecast.verdict:<17} {name} ({forecast.provider}): {counted(forecast.connections, 'connection')}")
        for line in forecast.todo:
            print(f"{'':<17} - {line}")
    for key, count in preview.orphans.items():
        reason = f"{counted(count, 'connection')} of an integration that the other gateway does not list"
        print(f"{'not_possible':<17} {key}: {reason}")
    print("\nConnections: " + ", ".join(f"{count:,} {name}" for name, count in preview.counts().items()))
    print("Out of scope: syncs, actions, records and functions. Move what they do into your application.")
    print("\nSteps, in this order:")
    for number, step in enumerate(preview.steps, 1):
        print(f"  {number}. {step}")
    return 0 if can_move_all else 1


# ── The sources of `import`, and the report. A source is opened, read to its end and closed.


def _stopped_error(importer: "Importer", fault: Exception) -> click.ClickException:
    """Return the error for a source that cannot be read to its end.

    The message says how many connections were imported before the error.
    """
    imported_text = _imported_text(importer)
    if not imported_text:
        return click.ClickException(str(fault))
    return click.ClickException(
        f"{fault} {imported_text} Correct this and run the command again: by default, connections that exist are skipped."
    )


def _imported_text(importer: "Importer") -> str:
    """Return a sentence that says how many connections were imported before the import stopped; empty if none."""
    by_result = importer.tally.as_json()
    imported_count = by_result["imported"] + by_result["replaced"]
    if not imported_count or importer.options.dry_run:
        return ""
    return f"Before that, {counted(imported_count, 'connection')} {'was' if imported_count == 1 else 'were'} imported."


@dataclass(frozen=True, slots=True)
class PeerSource:
    """The API of another gateway, from which connections are imported."""

    url: str
    key: "Secret" = field(repr=False)
    plain_http: bool
    only: tuple[str, ...]

    async def run(self, importer: "Importer") -> None:
        """Import all connections of the API. Raises ClickException if not all of them can be read."""
        from gateway.moving.moved_connection import SourceRefused
        from gateway.moving.peer import Peer, PeerCalls, session_for

        try:
            async with session_for(importer.at_once) as session:
                peer = Peer(PeerCalls(session, self.url, self.key, plain_http=self.plain_http))
                await importer.from_peer(peer, self.only)
        except SourceRefused as fault:
            raise _stopped_error(importer, fault) from None


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file, or ``-`` for stdin, from which connections are imported.

    `passphrase_inputs`: the names of the variable and of the file that can contain a bundle's passphrase.
    """

    source: str
    kind: "Kind | None"
    integration: str | None
    columns: Mapping[str, str]
    passphrase_inputs: tuple[str | None, Path | None]
    only: tuple[str, ...]

    async def run(self, importer: "Importer") -> None:
        """Import all connections of the file. Raises ClickException if the file cannot be read to its end.

        Nothing is imported from a damaged bundle.
        """
        from gateway.moving import bundle
        from gateway.moving.foreign_files import count_connections, kind_of, read_bundle, read_table
        from gateway.moving.moved_connection import SourceRefused

        with ExitStack() as stack:
            source = self._open_input(stack)
            reads_stdin = self.source == "-"
            kind = self.kind or ("jsonl" if reads_stdin else kind_of(Path(self.source), source))
            if kind == "bundle" and (reads_stdin or not source.seekable()):
                raise click.UsageError(
                    "A bundle is read twice, so that a damaged one is not imported. Give a file instead of stdin or a pipe."
                )
            if self.columns and kind != "csv":
                raise click.UsageError("--column works only with CSV.")
            try:
                if kind != "bundle":
                    if source.seekable() and not self.only:
                        importer.total = count_connections(source, kind)
                        source.seek(0)
                    await importer.from_lines(read_table(source, kind, self.integration, self.columns), self.only)
                    return
                passphrase = read_passphrase(*self.passphrase_inputs, new=False)
                importer.total = bundle.check_bundle(source, passphrase).connections
                source.seek(0)
                await importer.from_lines(read_bundle(source, passphrase), self.only)
            except SourceRefused as fault:
                raise _stopped_error(importer, fault) from None

    def _open_input(self, stack: ExitStack) -> IO[bytes]:
        if self.source == "-":
            return sys.stdin.buffer
        try:
            return stack.enter_context(Path(self.source).open("rb"))
        except OSError as fault:
            raise click.ClickException(f"{self.source} cannot be read: {fault.strerror}") from None


def reporting_importer(
    runtime: "Runtime", options: "ImportOptions", stack: ExitStack, report: Path | None, at_once: int
) -> "Importer":
    """Return an importer that shows its progress and writes a report.

    The report stays open until `stack` is closed. `report` None: no report is written.
    """
    from gateway.cli.terminal import progress
    from gateway.moving.importer import Importer
    from gateway.moving.parallel_work import Tally

    tally = Tally(stack.enter_context(_report(report)) if report is not None else None)
    step = stack.enter_context(progress("checking" if options.dry_run else "importing"))
    return Importer(runtime=runtime, options=options, tally=tally, at_once=at_once, step=step)


def _report(file: Path) -> IO[str]:
    """Create the report's file, which only its owner can read.

    The report lists which users are connected to which providers. An existing file is not replaced: it might be the
    report of another run.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "w", encoding="utf-8")
    except FileExistsError:
        raise click.UsageError(f"{file} already exists. Give another file for the report.") from None
    except OSError as fault:
        raise click.UsageError(f"{file} cannot be written: {fault.strerror}.") from None


# ── The preview of an import from another gateway: `import --preview`. `gateway doctor --from-peer` prints the same
# preview.


def print_preview_from(
    file: Path, url: str, key: "Secret | None", integration: str | None, *, plain_http: bool, as_json: bool
) -> NoReturn:
    """Print a preview of an import of all integrations at `url`, and exit.

    `integration`: preview only this integration; None: all. The exit code is 1 if something cannot be moved without
    changes.
    """
    if key is None:
        raise click.UsageError("Give the key of the other gateway with --key-env NAME or --key-file FILE.")
    peer = PeerSource(url, key, plain_http=plain_http, only=(integration,) if integration else ())

    async def work(runtime: "Runtime") -> int:
        from gateway.moving.import_one import ImportOptions

        if len(runtime.generation.config.environments) > 1:
            raise click.UsageError(
                "There are several environments. To name one, run `gateway connections import --from-peer URL --preview "
                "--environment NAME` instead."
            )
        return await print_preview(
            runtime, peer, ImportOptions(environment=select_environment(runtime, None)), as_json=as_json
        )

    run(file, work, as_json=as_json, may_create_store=True)
    raise AssertionError("run ends the command")


async def print_preview(runtime: "Runtime", peer: PeerSource, options: "ImportOptions", *, as_json: bool) -> int:
    """Print the preview, and return the exit code: 0 if everything can be moved without changes, otherwise 1."""
    from gateway.moving.moved_connection import SourceRefused
    from gateway.moving.peer import Peer, PeerCalls, session_for
    from gateway.moving.preview import preview

    try:
        async with session_for(4) as session:
            calls = PeerCalls(session, peer.url, peer.key, plain_http=peer.plain_http)
            preview_result = await preview(runtime, Peer(calls), options, peer.only)
    except SourceRefused as fault:
        raise click.ClickException(str(fault)) from None
    return print_move_preview(preview_result, as_json=as_json)


@click.command("import")
@click.argument("source", required=False, metavar="[FILE]")
@config_file
@environment
@click.option("--from-peer", "peer_url", metavar="URL", help="Import from the API of another gateway, not from FILE.")
@secret_inputs.key_env
@secret_inputs.key_file
@click.option("--plain-http", is_flag=True, help="Allow plain http in --from-peer, for a private network.")
@click.option("--only", multiple=True, metavar="KEY", help="Only this integration of the source; may be repeated.")
@click.option(
    "--integration",
    "key_pairs",
    multiple=True,
    metavar="THERE=HERE",
    help="An integration with another key in this gateway; may be repeated.",
)
@click.option(
    "--create-integrations", is_flag=True, help="Create missing integrations, with their client ID and client secret."
)
@click.option(
    "--format", "kind", type=click.Choice(["bundle", "jsonl", "csv"]), help="The format of FILE.  [default: detected]"
)
@click.option("--into", metavar="KEY", help="The integration for lines that name none.")
@click.option(
    "--column", "columns", multiple=True, metavar="THEIRS=OURS", help="The name here of a CSV column; may be repeated."
)
@secret_inputs.passphrase_env
@secret_inputs.passphrase_file
@click.option("--dry-run", is_flag=True, help="Report what would happen, and change nothing.")
@click.option(
    "--preview", is_flag=True, help="With --from-peer: show what works immediately and what to do, in which order."
)
@click.option(
    "--on-conflict",
    type=click.Choice(["skip", "replace", "fail"]),
    default="skip",
    show_default=True,
    help="What to do with a connection whose id exists here.",
)
@click.option("--verify", is_flag=True, help="Let each provider verify the credential before it is stored.")
@click.option(
    "--test-refresh",
    is_flag=True,
    help="Refresh each connection once. If refresh tokens rotate, the old system's tokens stop working.",
)
@click.option(
    "--refresh-rate",
    type=click.FloatRange(0.01, 1000),
    default=5.0,
    show_default=True,
    help="Test refreshes per second.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Connections that are imported in parallel.",
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="Write a line of JSON for each connection."
)
@as_json
def import_connections(
    source: str | None,
    file: Path,
    environment: str | None,
    peer_url: str | None,
    key_env: str | None,
    key_file: Path | None,
    plain_http: bool,
    only: tuple[str, ...],
    key_pairs: tuple[str, ...],
    create_integrations: bool,
    kind: "Kind | None",
    into: str | None,
    columns: tuple[str, ...],
    passphrase_env: str | None,
    passphrase_file: Path | None,
    dry_run: bool,
    preview: bool,
    on_conflict: Any,
    verify: bool,
    test_refresh: bool,
    refresh_rate: float,
    at_once: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Import connections: from FILE (a bundle of `gateway connections export`, JSON Lines or CSV; - is stdin), or from
    another gateway's API.

    To continue an interrupted run, run the command again: connections that exist are skipped. A gateway may run
    meanwhile. Exits 1 if a connection was not imported or its test refresh failed; --report lists which and why.
    """
    _check_options(source, peer_url, preview, test_refresh, dry_run)
    local_keys = _parse_pairs(key_pairs, "--integration")
    if peer_url is not None:
        import_source: PeerSource | FileSource = _peer_source(peer_url, key_env, key_file, plain_http, only)
    else:
        secret_inputs.read_secret("key", "--key", key_env, key_file)  # only to report a mistake in these options
        passphrase_inputs = (passphrase_env, passphrase_file)
        import_source = FileSource(str(source), kind, into, _parse_pairs(columns, "--column"), passphrase_inputs, only)

    async def work(runtime: "Runtime") -> int:
        from gateway.moving.import_one import ImportOptions

        environment_name = select_environment(runtime, environment)
        options = ImportOptions(
            environment=environment_name,
            integration_keys=local_keys,
            on_conflict=on_conflict,
            dry_run=dry_run,
            verify=verify,
        )
        if preview:
            assert isinstance(import_source, PeerSource)
            return await print_preview(runtime, import_source, options, as_json=as_json)
        with ExitStack() as stack:
            importer = reporting_importer(runtime, options, stack, report, at_once)
            importer.create_integrations, importer.test_refresh = create_integrations, test_refresh
            importer.refresh_rate = refresh_rate
            await _import_all(import_source, importer)
        return print_import_result(importer, as_json=as_json)

    run(file, work, as_json=as_json, may_create_store=True)


async def _import_all(source: PeerSource | FileSource, importer: "Importer") -> None:
    """Import the connections of `source`. After Ctrl-C, print how many are imported, and how to continue."""
    if importer.test_refresh:
        warn_about_test_refresh(importer.runtime, importer.options.environment)
    try:
        await source.run(importer)
    except asyncio.CancelledError:  # Ctrl-C
        imported_text = _imported_text(importer)
        if imported_text:
            continue_hint = "To continue, run the command again: by default, connections that exist are skipped."
            print(f"gateway: Interrupted. {imported_text} {continue_hint}", file=sys.stderr)
        raise


def _check_options(source: str | None, peer_url: str | None, preview: bool, test_refresh: bool, dry_run: bool) -> None:
    """Raise UsageError if the options cannot be used together."""
    if (source is None) == (peer_url is None):
        raise click.UsageError("Give FILE or --from-peer URL.")
    if preview and peer_url is None:
        raise click.UsageError("--preview needs --from-peer URL.")
    if test_refresh and dry_run:
        raise click.UsageError("--dry-run changes nothing, so it cannot be combined with --test-refresh.")


def _peer_source(
    peer_url: str, key_env: str | None, key_file: Path | None, plain_http: bool, integration_ids: tuple[str, ...]
) -> PeerSource:
    """Return the API to import from. Raises UsageError if the key is missing or cannot be read."""
    key = secret_inputs.read_secret("key", "--key", key_env, key_file)
    if key is None:
        raise click.UsageError("Give the key of the other gateway with --key-env NAME or --key-file FILE.")
    return PeerSource(peer_url, key, plain_http, integration_ids)


def _parse_pairs(arguments: tuple[str, ...], option: str) -> Mapping[str, str]:
    """Return the pairs ``there=here`` as a mapping. `option`: the option's name in errors. Raises UsageError."""
    pairs: dict[str, str] = {}
    for argument in arguments:
        source_key, sign, target_key = argument.partition("=")
        if not (source_key and sign and target_key):
            raise click.UsageError(
                f"{option} must be two names with an equals sign between them, not '{argument[:80]}'."
            )
        if source_key in pairs:
            raise click.UsageError(f"{option} has '{source_key}' twice.")
        pairs[source_key] = target_key
    return pairs
