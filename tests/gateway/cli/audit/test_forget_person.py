"""``gateway audit forget``: an end user's audit key is deleted, once."""

import json

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.config_file import ConfigFile


async def test_an_end_user_is_forgotten_once(with_records: ConfigFile) -> None:
    assert "Forgotten" in (await audit(with_records, "forget", "anna")).out
    again = await audit(with_records, "forget", "anna")
    assert (again.code, "already forgotten" in again.err) == (1, True)
    assert (
        json.loads((await audit(with_records, "show", "--json", "--environment", "dev", "--end-user", "anna")).out)
        == []
    )
    assert (await audit(with_records, "verify")).code == 0
