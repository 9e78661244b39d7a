"""``gateway audit show`` and ``export``: a table, JSON Lines, filters."""

import json

from tests.gateway.cli.audit.conftest import audit
from tests.gateway.cli.config_file import ConfigFile


async def test_rows_are_printed_newest_first(with_records: ConfigFile) -> None:
    shown = await audit(with_records, "show")
    assert shown.code == 0, shown.err
    head, first, second = shown.out.splitlines()
    assert head.split()[0] == "NUMBER"
    assert first.split()[3] == "credential.read"
    assert "a key of gateway.yaml" in first
    assert "tracker/c1" in second


async def test_filters_select_records_and_a_wrong_filter_is_reported(with_records: ConfigFile) -> None:
    for words, actions in (
        (("--action", "credential.read"), ["credential.read"]),
        (("--connection", "c1", "--limit", "1"), ["credential.read"]),
        (("--cursor", "2"), ["connection.imported"]),
        (("--environment", "dev", "--end-user", "anna"), ["credential.read", "connection.imported"]),
        (("--environment", "dev", "--end-user", "ben"), []),
        (("--since", "1h", "--until", "1m"), []),
    ):
        done = await audit(with_records, "show", "--json", *words)
        assert done.code == 0, (words, done.err)
        assert [load["action"] for load in json.loads(done.out)] == actions, words
    for words, fault in (
        (("--end-user", "anna"), "needs --environment"),
        (("--since", "soon"), "--since takes a span such as 30m, 2h or 3d, or a date in ISO 8601, not 'soon'."),
        (("--action", "nothing"), "Invalid value for '--action'"),
    ):
        refused = await audit(with_records, "show", *words)
        assert (refused.code, fault in refused.err) == (2, True), refused.err


async def test_export_continues_after_the_last_exported_record(with_records: ConfigFile) -> None:
    lines = [json.loads(line) for line in (await audit(with_records, "export")).out.splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2]
    assert (await audit(with_records, "export", "--after", "2")).out == ""
