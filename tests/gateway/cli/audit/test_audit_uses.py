"""``gateway audit uses``: calls by key and connection."""

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.config_file import ConfigFile


async def test_uses_of_an_unknown_key_are_empty(with_records: ConfigFile) -> None:
    done = await audit(with_records, "uses", "--since", "2h")
    assert done.code == 0, done.err
    assert "0 calls, 0 failed" in done.out
    assert (await audit(with_records, "uses", "--since", "1h", "--until", "2h")).code == 2
