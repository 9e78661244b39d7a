"""``gateway connections delete``: deletes connections and revokes their tokens at the provider.

`--report` lists the result for each token.
"""

import csv
import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from gateway.cli.options import (
    all_connections,
    as_json,
    check_named,
    config_file,
    connection_ids,
    environment,
    integration,
)
from gateway.cli.run_command import check_integration, connection_refs, run, run_for_each, select_environment, table
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.connections.delete import ConnectionDeletion
    from gateway.records.connection import ConnectionRef
    from gateway.runtime import Runtime

COLUMNS: Final = ("environment", "integration", "connection_id", "deleted", "token", "outcome", "detail")


@click.command()
@config_file
@environment
@integration
@all_connections
@connection_ids
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="Write a CSV file with a line for each token."
)
@click.option("--keep-tokens", is_flag=True, help="Delete only here, and do not revoke the tokens at the provider.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json
def delete(
    file: Path,
    environment: str | None,
    integration: str,
    selects_all: bool,
    connection_ids: tuple[str, ...],
    report: Path | None,
    keep_tokens: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete each CONNECTION and revoke its tokens at the provider.

    A connection is deleted even if its provider refuses to revoke the tokens. Exits 1 if a connection does not exist,
    or if a token may still work; --report lists these. To continue an interrupted run, run the command again.
    """
    check_named(connection_ids, selects_all)

    async def work(runtime: "Runtime") -> int:
        from gateway.records.connection import ConnectionRef

        environment_name = select_environment(runtime, environment)
        await check_integration(runtime, environment_name, integration)
        refs = [ConnectionRef(environment_name, integration, connection_id) for connection_id in connection_ids]
        refs = refs or await connection_refs(runtime, environment_name, integration)
        if not refs:
            print(f"gateway: integration '{integration}' has no connections", file=sys.stderr)
            return 0
        if not yes:
            _confirm(len(refs), integration, environment_name, keep_tokens=keep_tokens)
        deletion_report = DeletionReport(report)
        try:

            async def delete(ref: "ConnectionRef") -> None:
                deletion_report.add(ref, await runtime.deleter.delete(ref, at_provider=not keep_tokens))

            await run_for_each(refs, delete, "deleting")
        finally:
            deletion_report.close()
        return deletion_report.print_result(as_json=as_json)

    run(file, work, as_json=as_json)


class DeletionReport:
    """The results for each connection and token.

    Each result is written to the report immediately, so an interruption loses only the results of deletions in
    progress.
    """

    def __init__(self, report: Path | None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.missing_count = 0
        self.deleted = 0
        self.still_valid_count = 0
        self._csv_file: IO[str] | None = None
        if report is not None:
            try:
                # Only the owner can read the report, because it lists which users were connected to which providers.
                descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                self._csv_file = os.fdopen(descriptor, "w", encoding="utf-8", newline="")
            except FileExistsError:
                raise click.UsageError(f"{report} already exists. Give another file.") from None
            except OSError as fault:
                raise click.UsageError(f"{report} cannot be written: {fault.strerror}.") from None
            self._csv = csv.DictWriter(self._csv_file, COLUMNS)
            self._csv.writeheader()
            self._csv_file.flush()

    def add(self, ref: "ConnectionRef", deletion: "ConnectionDeletion | None") -> None:
        """Add a row for each token of a deleted connection.

        A connection without a token gets one row, and so does a connection that does not exist (`deletion` is None).
        """
        connection_members = {
            "environment": ref.environment,
            "integration": ref.integration_id,
            "connection_id": ref.connection_id,
        }
        if deletion is None:
            self.missing_count += 1
        else:
            self.deleted += 1
        outcomes = deletion.revocation if deletion else ()
        token_rows = [
            {"token": outcome.token, "outcome": outcome.outcome, "detail": outcome.detail} for outcome in outcomes
        ]
        self.still_valid_count += sum(outcome.may_still_work for outcome in outcomes)
        for row in token_rows or [{"token": None, "outcome": None, "detail": None}]:
            result_row = {**connection_members, "deleted": deletion is not None, **row}
            self.rows.append(result_row)
            if self._csv_file is not None:
                self._csv.writerow({**result_row, "deleted": "yes" if result_row["deleted"] else "no"})
                self._csv_file.flush()

    def close(self) -> None:
        if self._csv_file is not None:
            self._csv_file.close()

    def print_result(self, *, as_json: bool) -> int:
        """Print the results and return the exit code."""
        if as_json:
            counts = {
                "deleted": self.deleted,
                "not_found": self.missing_count,
                "tokens_that_may_live_on": self.still_valid_count,
            }
            print(json.dumps({**counts, "rows": self.rows}, indent=2))
        else:
            columns = ("connection_id", "deleted", "token", "outcome", "detail")
            cells = [tuple(_cell(row[name]) for name in columns) for row in self.rows]
            table([name.replace("_", " ").upper() for name in columns], cells)
            summary = f"{self.deleted} deleted"
            summary += f", {self.missing_count} not found" if self.missing_count else ""
            summary += (
                f"; {counted(self.still_valid_count, 'token')} may still work at the provider"
                if self.still_valid_count
                else ""
            )
            print(summary, file=sys.stderr)
        return 1 if self.missing_count or self.still_valid_count else 0


def _cell(value: Any) -> str:
    return {True: "yes", False: "no", None: ""}.get(value, str(value)) if isinstance(value, bool | None) else str(value)


def _confirm(count: int, integration: str, environment: str, *, keep_tokens: bool) -> None:
    """Ask the user to confirm. Raises Abort if the answer is no, and UsageError if stdin is not a terminal."""
    description = f"{counted(count, 'connection')} of '{integration}' in '{environment}'"
    token_action = "keep their tokens at the provider" if keep_tokens else "revoke their tokens at the provider"
    if not sys.stdin.isatty():
        raise click.UsageError(f"This would delete {description}. To do it, add --yes.")
    click.confirm(f"Delete {description} and {token_action}?", abort=True, err=True)
