"""``gateway audit verify``: checks the hash chain, also against checkpoints kept outside the store."""

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
    from gateway.store import Store
    from gateway.store.audit.audit_chain import ChainVerdict, Checkpoint


@click.command()
@config_file
@click.option(
    "--checkpoint",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with checkpoints kept outside the database: audit.checkpoint_file, or a log of the gateway. May be repeated.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    metavar="BASE64",
    help="A key that may have signed checkpoints; `gateway audit key` prints it. May be repeated.  [default: the present key]",
)
@as_json
def verify(file: Path, files: tuple[Path, ...], public_keys: tuple[str, ...], as_json: bool) -> None:
    """Check that no record was changed, removed, added or moved.

    Without --checkpoint, an attacker who recomputes the hashes is not detected. Exits 1 if a check fails.
    """
    from gateway.store.audit.audit_chain import checkpoints_in

    all_checkpoints: list[Checkpoint] = []
    for path in files:
        checkpoints = checkpoints_in(path.read_text(errors="replace"))
        if not checkpoints:
            raise click.UsageError(
                f"{path} has no checkpoint. Give the file of audit.checkpoint_file, or a log of the gateway."
            )
        all_checkpoints += checkpoints

    async def work(store: "Store", _config: "Config") -> int:
        from gateway import clock
        from gateway.store.audit.audit_check import verify_chain
        from gateway.vault import VaultError

        await store.audit.append_to_chain()
        trusted_keys = list(public_keys)
        if not trusted_keys:
            try:
                trusted_keys = [await store.audit.public_key(now=clock.now())]
            except VaultError as fault:
                raise click.ClickException(
                    f"The key that signs checkpoints cannot be decrypted: {fault} Give --public-key."
                ) from None
        verdict = await verify_chain(store.audit, all_checkpoints, trusted_keys)
        if as_json:
            print(json.dumps(_report(verdict), indent=2))
        else:
            _print(verdict, given_checkpoint_count=len(all_checkpoints))
        return 0 if verdict.ok else 1

    run_on_store(file, work, as_json=as_json)


def _report(verdict: "ChainVerdict") -> dict[str, object]:
    return {
        "ok": verdict.ok,
        "records": verdict.records,
        "first": verdict.first,
        "last": verdict.last,
        "last_hash": verdict.last_hash,
        "checkpoints": verdict.checkpoints,
        "proven_to": verdict.proven_to,
        "unproven": verdict.unproven,
        "faults": [
            {"sequence": fault.sequence, "kind": fault.kind, "message": fault.message} for fault in verdict.faults
        ],
    }


def _print(verdict: "ChainVerdict", *, given_checkpoint_count: int) -> None:
    for fault in verdict.faults:
        print(f"gateway: {fault.message}", file=sys.stderr)
    if not verdict.ok:
        print(f"The audit trail was tampered with or damaged, first at record {verdict.faults[0].sequence}.")
        return
    print(f"{counted(verdict.records, 'record')}, {verdict.first} to {verdict.last}: the chain is complete.")
    if verdict.proven_to:
        print(f"Records up to {verdict.proven_to} are proven by {counted(verdict.checkpoints, 'checkpoint')}.")
    if verdict.unproven:
        print(f"{counted(verdict.unproven, 'record')} at the end: not proven by a checkpoint yet.")
    if not given_checkpoint_count:
        print(
            "These checkpoints are stored in the database itself. Pass checkpoints kept elsewhere with --checkpoint: only they "
            "prove that no records were removed from the end.",
            file=sys.stderr,
        )
