"""``gateway audit key``: shows the public key, and creates a new one."""

import json

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.config_file import ConfigFile


async def test_the_public_key_stays_until_a_new_one_is_requested(with_records: ConfigFile) -> None:
    first = (await audit(with_records, "key")).out
    assert (await audit(with_records, "key")).out == first
    newer = (await audit(with_records, "key", "--new")).out
    assert newer != first
    assert json.loads((await audit(with_records, "key", "--json")).out)["public_key"] == newer.strip()
    actions = [load["action"] for load in json.loads((await audit(with_records, "show", "--json")).out)]
    assert actions.count("audit_key.created") == 2
