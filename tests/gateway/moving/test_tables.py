"""Import from JSON Lines and CSV."""

import asyncio
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.moving import foreign_files
from gateway.moving.foreign_files import count_connections, json_lines
from gateway.moving.moved_connection import UnusableConnection
from tests.fakes.gateways import RunningGateway
from tests.gateway.moving.conftest import SITE, GatewayFolder, oauth


def lines(folder: Path, *rows: Any) -> str:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return str(file)


async def test_nested_and_flat_lines_are_read_and_faults_reported_with_their_line(
    gateway_folder: GatewayFolder, tmp_path: Path, running: RunningGateway
) -> None:
    nested = {"connection_id": "c1", "credentials": oauth(1), "connection_config": SITE, "tags": {"Team": "x"}}
    flat = {"provider_config_key": "tracker", "connection_id": "c2", "access_token": "at", "connection_config": SITE}
    wrong = {"connection_id": "c3", "credentials": {"access_token": "a", "refresh_tokn": "b"}}
    file = lines(tmp_path, nested, "", flat, wrong, "{half", {"connection_id": "c 4 "})
    report = tmp_path / "report"
    ran = await gateway_folder.run_command("import", file, "--into", "tracker", "--report", str(report), code=1)
    assert (ran.report["imported"], ran.report["refused"]) == (2, 3)
    details = [json.loads(line).get("detail", "") for line in report.read_text().splitlines()]
    assert any("refresh_tokn" in detail for detail in details)
    assert any(detail.startswith("line 5:") for detail in details)
    assert any(detail.startswith("line 6:") for detail in details)
    connection = await running.json("GET", "/connections/c1?provider_config_key=tracker", expect=200)
    assert (connection["tags"], connection["credentials"]["access_token"]) == ({"team": "x"}, "at-1")


async def test_a_line_of_an_unknown_kind_is_reported(gateway_folder: GatewayFolder, tmp_path: Path) -> None:
    connection = {"connection_id": "c1", "credentials": oauth(1), "connection_config": SITE}
    file = lines(tmp_path, {"kind": "bundle", "version": 1}, {"kind": "oauth2", **connection}, {"kind": "end"})
    ran = await gateway_folder.run_command("import", file, "--into", "tracker", code=1)
    assert (ran.report["imported"], ran.report["refused"]) == (0, 1)
    assert ran.report["reasons"][0]["example"]["detail"].startswith("line 2: 'kind' must be")


async def test_a_host_outside_of_the_allowed_hosts_is_refused(
    tmp_path: Path, make_gateway_folder: Callable[..., GatewayFolder]
) -> None:
    client = {"client_id": "client", "client_secret": "s" * 20}
    gateway_folder = make_gateway_folder(gitea={**client, "allowed_hosts": ["git.example.com"]})
    past = {"created_at": "2026-01-01T00:00:00.000Z"}  # a line that this gateway exported
    rows = [
        {"connection_id": f"c{number}", "credentials": oauth(number), "connection_config": {"hostname": host}, **own}
        for number, (host, own) in enumerate(
            [
                ("git.example.com", {}),
                ("evil.example.net", {}),
                ("git.example.com", {"kind": "connection", "past": past}),
                ("evil.example.net", {"kind": "connection", "past": past}),
            ]
        )
    ]
    file = lines(tmp_path, *rows)
    for words in (["--dry-run"], []):
        report = tmp_path / f"report{len(words)}"
        ran = await gateway_folder.run_command(
            "import", file, "--into", "gitea", "--report", str(report), *words, code=1
        )
        assert (ran.report["imported"], ran.report["refused"]) == (2, 2)
        refused = [
            splitline
            for splitline in map(json.loads, report.read_text().splitlines())
            if splitline["result"] == "refused"
        ]
        assert [item["connection_id"] for item in refused] == ["c1", "c3"]
        assert all("evil.example.net" in item["detail"] for item in refused)


HEAD = {"kind": "bundle", "version": 1}
TRACKER = {"kind": "integration", "unique_key": "tracker", "provider": "tracker"}


def connection(number: int) -> dict[str, Any]:
    return {
        "kind": "connection",
        "provider_config_key": "tracker",
        "connection_id": f"c{number}",
        "credentials": oauth(number),
        "connection_config": SITE,
    }


@pytest.mark.parametrize(
    ("rows", "incomplete"),
    [
        ([HEAD, TRACKER, connection(1), {"kind": "end", "integrations": 1, "connections": 1}], []),
        ([HEAD, TRACKER, connection(1), {"kind": "end"}], []),
        ([TRACKER, connection(1)], []),  # selected by hand
        ([HEAD, TRACKER, connection(1)], [3]),
        ([HEAD, TRACKER, connection(1), {"kind": "end", "integrations": 1, "connections": 2}], [4]),
        ([HEAD, connection(1), HEAD, connection(2), {"kind": "end", "integrations": 0, "connections": 1}], [3]),
    ],
)
def test_incomplete_plain_export_is_reported(rows: list[Any], incomplete: list[int]) -> None:
    source = io.BytesIO("\n".join(map(json.dumps, rows)).encode())
    found = [line.outcome for line in json_lines(source, None) if isinstance(line, UnusableConnection)]
    assert [item.reason for item in found] == ["incomplete"] * len(incomplete)
    assert [item.detail.partition(":")[0] for item in found] == [f"line {number}" for number in incomplete]


async def test_a_plain_export_of_a_later_version_is_refused(gateway_folder: GatewayFolder, tmp_path: Path) -> None:
    file = lines(tmp_path, {**HEAD, "version": 2}, connection(1))
    assert (
        "has version 2, and this gateway reads 1" in (await gateway_folder.run_command("import", file, code=1)).output
    )
    assert await gateway_folder.list_connections() == []


@pytest.mark.parametrize("change", [{"provider": None}, {"credentials": "x"}])
async def test_an_integration_that_cannot_be_read_does_not_stop_the_others(
    gateway_folder: GatewayFolder, tmp_path: Path, change: dict[str, Any]
) -> None:
    broken = {name: value for name, value in {**TRACKER, **change}.items() if value is not None}
    file = lines(tmp_path, broken, connection(1))
    ran = await gateway_folder.run_command("import", file, "--create-integrations", code=1)
    assert (ran.report["imported"], ran.report["refused"]) == (1, 1)
    assert ran.report["reasons"][0]["example"]["detail"].startswith("line 1: ")


async def test_an_interrupted_import_reports_its_progress_and_how_to_continue(
    gateway_folder: GatewayFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_files, "LINE_LIMIT_BYTES", 2000)
    file = lines(tmp_path, connection(1), connection(2), {**connection(3), "metadata": {"long": "x" * 3000}})
    ran = await gateway_folder.run_command("import", file, "--at-once", "1", code=1)
    assert "Line 3 is longer than" in ran.output
    assert "1 connection was imported. Correct this and run the command again" in ran.output
    assert [item["connection_id"] for item in await gateway_folder.list_connections()] == ["c1"]


async def test_a_row_without_a_credential_names_its_line_and_the_missing_field(
    gateway_folder: GatewayFolder, tmp_path: Path
) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("connection_id,access_token\nc1,\n,at\n")
    report = tmp_path / "report"
    await gateway_folder.run_command("import", str(table), "--into", "tracker", "--report", str(report), code=1)
    first, second = [json.loads(line) for line in report.read_text().splitlines()]
    assert (first["connection_id"], first["reason"]) == ("c1", "invalid_body")
    assert first["detail"].startswith("line 2: 'access_token' is missing")
    assert second["detail"].startswith("line 3: "), "the row has no connection id, so its line number is reported"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("jsonl", '{"a": 1}\n\n{half\n{"kind":"bundle","version":1}\n{"kind":"connection"}\n{"b": 2}', 4),
        ("csv", 'integration,api_key\nk,"a\nb"\n,\nk,c\n', 2),
        ("csv", "", 0),
    ],
)
def test_number_of_connections_is_counted_before_the_import(kind: str, text: str, expected: int) -> None:
    source = io.BytesIO(text.encode())
    assert count_connections(source, kind) == expected
    assert not source.closed


async def test_progress_has_the_total_of_the_file(
    gateway_folder: GatewayFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int]] = []

    @contextmanager
    def progress(_what: str) -> Iterator[Any]:
        yield lambda done, total: steps.append((done, total))

    monkeypatch.setattr("gateway.cli.terminal.progress", progress)
    file = lines(
        tmp_path, *({"connection_id": f"c{n}", "credentials": oauth(n), "connection_config": SITE} for n in range(3))
    )
    await gateway_folder.run_command("import", file, "--into", "tracker")
    assert sorted(steps) == [(1, 3), (2, 3), (3, 3)]


async def test_standard_input_is_read(gateway_folder: GatewayFolder) -> None:
    row = {"provider_config_key": "tracker", "connection_id": "c1", "credentials": oauth(1), "connection_config": SITE}
    ran = await gateway_folder.run_command("import", "-", stdin=json.dumps(row))
    assert ran.report["imported"] == 1


async def test_named_pipe_is_read(gateway_folder: GatewayFolder, tmp_path: Path) -> None:
    """A shell gives a command the name of a pipe for ``<(zcat export.gz)``."""
    row = {"provider_config_key": "tracker", "connection_id": "c1", "credentials": oauth(1), "connection_config": SITE}
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, json.dumps(row)))
    ran = await gateway_folder.run_command("import", str(pipe))
    await writing
    assert ran.report["imported"] == 1


async def test_columns_are_paths_or_mapped_names(
    gateway_folder: GatewayFolder, tmp_path: Path, running: RunningGateway
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(
        "integration,customer,access_token,refresh_token,expires_at,connection_config.cloudId,metadata.plan,tags.team,"
        "end_user_id,end_user.organization.id\r\n"
        'tracker,c1,at-1,rt-1,1893456000,cloud-1,"pro, yearly",blue,u1,o1\r\n'
        "tracker,c2,at-2,,,cloud-1,,,,\r\n"
        "tracker,c3,at-3\r\n",
        encoding="utf-8-sig",
    )
    ran = await gateway_folder.run_command("import", str(file), "--column", "customer=connection_id", code=1)
    assert (ran.report["imported"], ran.report["refused"]) == (2, 1)
    assert "line 4" in ran.report["reasons"][0]["example"]["detail"]
    path = "/connections/c1?provider_config_key=tracker&refresh_token=true"
    connection = await running.json("GET", path, expect=200)
    assert (connection["credentials"]["refresh_token"], connection["credentials"]["expires_at"]) == (
        "rt-1",
        "2030-01-01T00:00:00.000Z",
    )
    assert (connection["metadata"], connection["tags"]["team"]) == ({"plan": "pro, yearly"}, "blue")
    assert (connection["end_user"]["id"], connection["end_user"]["organization"]["id"]) == ("u1", "o1")
    other = await running.json("GET", path.replace("c1", "c2"), expect=200)
    assert "refresh_token" not in other["credentials"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("connection_id,access_token\nc1,a\n", "--into"),
        ("integration,provider_config_key\n", "Two columns"),
        ("integration,connection_id\n\xff", "UTF-8"),
    ],
)
async def test_a_table_that_cannot_be_read_as_a_whole_is_refused(
    text: str, why: str, gateway_folder: GatewayFolder, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text, encoding="latin-1")
    assert why in (await gateway_folder.run_command("import", str(file), code=1)).output
    assert await gateway_folder.list_connections() == []
