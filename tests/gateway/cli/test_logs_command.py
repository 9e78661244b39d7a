"""``gateway logs`` on the store of a running gateway: as a table, as JSON, and following new entries."""

import asyncio
import json
import signal
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

from gateway import clock
from gateway.cli import logs_command, main
from gateway.cli.logs_command import COLUMNS
from gateway.records.operation import Operation, OperationFilter, OperationPage
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT
from tests.gateway.cli.config_file import ConfigFile


def operation(number: int, **fields: object) -> Operation:
    plain = Operation(
        "call", datetime.now(UTC), f"r{number}", "dev", "tracker", f"c{number}", "GET", path=f"/items/{number}"
    )
    return plain._replace(**{"status": 200, **fields})  # type: ignore[arg-type]


@pytest.fixture
async def with_records(running: RunningGateway, config_file: ConfigFile) -> ConfigFile:
    config_file.write()
    rows = [
        operation(1),
        operation(2, status=502, error_code="upstream_timeout"),
        operation(3, kind="refresh", path=""),
    ]
    await running.runtime.store.call_log.add_many(rows)
    return config_file


async def logs(config_file: ConfigFile, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["logs", "-c", str(config_file.file), *arguments])


async def test_rows_are_printed_newest_first(with_records: ConfigFile) -> None:
    shown = await logs(with_records)
    assert shown.exit_code == 0, shown.stderr
    head, *lines = shown.stdout.splitlines()
    assert head.split()[:4] == ["AT", "(UTC)", "KIND", "CONNECTION"]
    assert [line.split()[2:4] for line in lines] == [
        ["refresh", "tracker/c3"],
        ["call", "tracker/c2"],
        ["call", "tracker/c1"],
    ]


async def test_every_column_of_a_row_has_a_value(running: RunningGateway, with_records: ConfigFile) -> None:
    delivery = operation(4, kind="delivery", method="", path="", detail={"what": "connection.created"})
    environment_event = delivery._replace(integration_id="", connection_id="", request_id="")
    await running.runtime.store.call_log.add_many([delivery, environment_event])
    _, *lines = (await logs(with_records)).stdout.splitlines()
    columns = len(COLUMNS) + 1  # the time has a space
    assert [len(line.split()) for line in lines] == [columns] * 5
    assert lines[0].split()[2:] == ["delivery", "-", "-", "-", "connection.created", "200", "0", "-", "-"]


async def test_a_dry_run_is_marked_as_such(running: RunningGateway, with_records: ConfigFile) -> None:
    await running.runtime.store.call_log.add_many([operation(4, detail={"dry_run": True}, attempts=0)])
    _, dry, *others = (await logs(with_records)).stdout.splitlines()
    assert " 200 dry run " in dry
    assert not any("dry run" in line for line in others)


async def test_each_filter_selects_its_records_also_as_json(with_records: ConfigFile) -> None:
    for words, ids in (
        (("--failed",), ["r2"]),
        (("--status", "5xx"), ["r2"]),
        (("--code", "upstream_timeout"), ["r2"]),
        (("--kind", "refresh"), ["r3"]),
        (("--connection", "c1"), ["r1"]),
        (("--request", "r1"), ["r1"]),
        (("--text", "ITEMS/2"), ["r2"]),
        (("--since", "1h", "--limit", "2"), ["r3", "r2"]),
        (("--until", "1h"), []),
    ):
        parsed = await logs(with_records, "--json", *words)
        assert parsed.exit_code == 0, parsed.stderr
        assert [item["request_id"] for item in json.loads(parsed.stdout)["data"]] == ids, words


async def test_output_says_how_to_see_further_entries(with_records: ConfigFile) -> None:
    shown = await logs(with_records, "--limit", "2")
    cursor = shown.stderr.rpartition("--cursor ")[2].strip()
    rest = await logs(with_records, "--cursor", cursor, "--json")
    assert [item["request_id"] for item in json.loads(rest.stdout)["data"]] == ["r1"]


@pytest.mark.parametrize("filter_option", [("--status", "abc"), ("--since", "yesterday"), ("--until", "soon")])
async def test_error_names_wrong_filters(with_records: ConfigFile, filter_option: tuple[str, str]) -> None:
    refused = await logs(with_records, *filter_option)
    assert refused.exit_code == 2
    assert filter_option[0] in refused.stderr
    assert f"not '{filter_option[1]}'." in refused.stderr


async def test_new_entries_are_followed_until_ctrl_c(running: RunningGateway, with_records: ConfigFile) -> None:
    command = (sys.executable, "-m", "gateway", "logs", "-c", str(with_records.file), "--follow", "--json")
    pipe = asyncio.subprocess.PIPE
    following = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=ROOT)
    assert following.stdout is not None
    seen = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            for number in range(1, 6):
                if number > 3:
                    await running.runtime.store.call_log.add_many([operation(number)])
                seen.append(json.loads(await following.stdout.readline())["request_id"])
            following.send_signal(signal.SIGINT)
            rest = await following.communicate()
    finally:
        if following.returncode is None:
            following.kill()
            await following.wait()
    assert seen == ["r1", "r2", "r3", "r4", "r5"]
    assert (following.returncode, *rest) == (0, b"", b"")


async def test_follow_reads_only_new_rows_once_per_second(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = running.runtime.store.call_log
    await log.add_many([operation(number) for number in range(1000)])
    newest = (await log.find(OperationFilter("dev", limit=1))).operations[0].id
    done: list[OperationFilter | float] = []
    find, sleep, own = log.find, clock.sleep, asyncio.current_task()

    async def record_search(wanted: OperationFilter) -> OperationPage:
        done.append(wanted)
        return await find(wanted)

    async def record_sleep(seconds: float) -> None:
        if asyncio.current_task() is not own:
            await sleep(seconds)
            return
        done.append(seconds)
        if len(done) == 8:
            raise EOFError

    monkeypatch.setattr(log, "find", record_search)
    monkeypatch.setattr(clock, "sleep", record_sleep)
    with pytest.raises(EOFError):
        await logs_command.follow_log(running.runtime, OperationFilter("dev", limit=10), as_json=True)
    assert done[1::2] == [1.0] * 4
    later = [item.after for item in done[2::2] if isinstance(item, OperationFilter)]
    assert later == [newest - 10] * 3
    printed = [json.loads(line)["request_id"] for line in capsys.readouterr().out.splitlines()]
    assert printed == [f"r{number}" for number in range(990, 1000)], "older rows are not printed after the newest"
