"""``gateway audit verify``: what it proves, and what a checkpoint adds."""

from pathlib import Path

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.config_file import ConfigFile


async def test_verify_reports_what_is_proven_and_advises_external_checkpoints(with_records: ConfigFile) -> None:
    done = await audit(with_records, "verify")
    assert done.code == 0, done.err
    assert "2 records, 1 to 2: the chain is complete." in done.out
    assert "not proven by a checkpoint yet" in done.out
    assert "Pass checkpoints kept elsewhere with --checkpoint" in done.err


async def test_a_file_without_a_checkpoint_is_refused(with_records: ConfigFile, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("{}\n")
    done = await audit(with_records, "verify", "--checkpoint", str(tmp_path / "empty.jsonl"))
    assert (done.code, "has no checkpoint" in done.err) == (2, True)
