"""What `import` reads from, opened, read to its end and closed; and where it reports to."""

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from gateway.cli.connections.secrets import passphrase_of

if TYPE_CHECKING:
    from gateway.moving.intake import Intake
    from gateway.moving.landing import Wish
    from gateway.moving.source import Kind
    from gateway.secret import Secret
    from gateway.services import Services


@dataclass(frozen=True, slots=True)
class Peering:
    """Another gateway's API."""

    address: str
    key: "Secret" = field(repr=False)
    plain_http: bool
    only: tuple[str, ...]

    async def into(self, intake: "Intake") -> None:
        """Raises ClickException where it cannot be read as a whole."""
        from gateway.moving.moved import SourceRefused
        from gateway.moving.peer import Peer
        from gateway.moving.peer_calls import PeerCalls, session_for

        try:
            async with session_for(intake.at_once) as session:
                peer = Peer(PeerCalls(session, self.address, self.key, plain_http=self.plain_http))
                await intake.from_peer(peer, self.only)
        except SourceRefused as fault:
            raise click.ClickException(str(fault)) from None


@dataclass(frozen=True, slots=True)
class Reading:
    """A file, or ``-`` for stdin. `passphrase`: the variable and the file that hold a bundle's."""

    source: str
    kind: "Kind | None"
    integration: str | None
    columns: Mapping[str, str]
    passphrase: tuple[str | None, Path | None]
    only: tuple[str, ...]

    async def into(self, intake: "Intake") -> None:
        """Raises ClickException where it cannot be read as a whole; of a bundle then nothing is taken in."""
        from gateway.moving import bundle
        from gateway.moving.moved import SourceRefused
        from gateway.moving.source import kind_of, of_bundle, of_table
        from gateway.moving.tables import count

        with ExitStack() as stack:
            source = self._opened(stack)
            at_stdin = self.source == "-"
            kind = self.kind or ("jsonl" if at_stdin else kind_of(Path(self.source), source))
            if at_stdin and kind == "bundle":
                raise click.UsageError(
                    "A bundle is read twice, so that nothing of a broken one is imported: give a file."
                )
            if self.columns and kind != "csv":
                raise click.UsageError("--column is for CSV.")
            try:
                if kind != "bundle":
                    if source.seekable() and not self.only:
                        intake.total = count(source, kind)
                        source.seek(0)
                    await intake.from_lines(of_table(source, kind, self.integration, self.columns), self.only)
                    return
                passphrase = passphrase_of(*self.passphrase, new=False)
                intake.total = bundle.checked(source, passphrase).connections
                source.seek(0)
                await intake.from_lines(of_bundle(source, passphrase), self.only)
            except SourceRefused as fault:
                raise click.ClickException(str(fault)) from None

    def _opened(self, stack: ExitStack) -> IO[bytes]:
        if self.source == "-":
            return sys.stdin.buffer
        try:
            return stack.enter_context(Path(self.source).open("rb"))
        except OSError as fault:
            raise click.ClickException(f"{self.source} cannot be read: {fault.strerror}") from None


def intake_of(services: "Services", wish: "Wish", stack: ExitStack, report: Path | None, at_once: int) -> "Intake":
    """With its progress shown, and its report open until `stack` is left."""
    from gateway.cli.progress import progress
    from gateway.moving.intake import Intake
    from gateway.moving.work import Tally

    tally = Tally(stack.enter_context(_report(report)) if report is not None else None)
    step = stack.enter_context(progress("looking" if wish.dry_run else "importing"))
    return Intake(services=services, wish=wish, tally=tally, at_once=at_once, step=step)


def _report(file: Path) -> IO[str]:
    """Of its owner alone: it tells who is connected to what. One that is there is another run's, and is not touched."""
    try:
        return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w")
    except FileExistsError:
        raise click.UsageError(f"{file} is there already; name another file for the report.") from None
    except OSError as fault:
        raise click.UsageError(f"{file} cannot be written: {fault.strerror}.") from None
