"""``gateway audit forget``: an end user's audit key is deleted, once."""

import json

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.examined import Examined


async def test_an_end_user_is_forgotten_once(filled: Examined) -> None:
    assert "Forgotten" in (await audit(filled, "forget", "anna")).out
    again = await audit(filled, "forget", "anna")
    assert (again.code, "already forgotten" in again.err) == (1, True)
    assert json.loads((await audit(filled, "show", "--json", "--environment", "dev", "--end-user", "anna")).out) == []
    assert (await audit(filled, "verify")).code == 0
