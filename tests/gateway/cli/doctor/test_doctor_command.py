"""``gateway doctor``: it finds each possible problem, names the place to change, and shows no secret."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.doctor.doctor_command import _lines
from gateway.cli.doctor.findings import DoctorFinding
from tests.fakes.gateways import ENCRYPTION_KEY, SECRET_KEY, RunningGateway, tracker_entry, write_entry
from tests.fakes.postgres import PostgresServer
from tests.fakes.tracker import Tracker
from tests.gateway.cli.config_file import ConfigFile, responding


async def test_a_healthy_gateway_passes_all_checks(config_file: ConfigFile, running: RunningGateway) -> None:
    (running.folder / "gateway.db").chmod(0o600)
    result = await config_file.report()
    assert [finding for finding in result.findings if finding["level"] == "fail"] == []
    assert result.code == 0
    for check in (
        "files",
        "disk",
        "store",
        "encryption key",
        "journal",
        "gateway",
        "public URL",
        "clock",
        "redirect",
        "client",
        "provider",
    ):
        assert result.levels(check) == {"ok"}, check
    (redirect,) = result.of("redirect")
    assert redirect["message"].endswith(f": {running.url}/oauth/callback")
    assert redirect["integration"] == "dev/tracker"
    secret = config_file.integration["client_secret"]
    assert all(hidden not in result.text for hidden in (SECRET_KEY, ENCRYPTION_KEY, secret))


@pytest.mark.parametrize("declared", [{"renamed": {}}, {"tracker": {"provider": "other"}}])
async def test_connections_whose_integration_was_removed_or_has_another_provider_are_reported(
    config_file: ConfigFile, running: RunningGateway, tracker: Tracker, declared: dict[str, Any]
) -> None:
    await running.import_connection(tracker.grant())
    assert (await config_file.report("--offline")).of("connections") == []
    write_entry(config_file.file.parent, "other", tracker_entry("https://other.example.com"))
    integrations = config_file.document["environments"]["dev"]["integrations"]
    client = {"provider": "tracker"} | integrations.pop("tracker")
    integrations.update({name: client | changed for name, changed in declared.items()})
    (found,) = (await config_file.report("--offline")).of("connections")
    assert (found["level"], found["integration"]) == ("warn", "dev/tracker")
    assert found["message"].startswith("1 connection of provider 'tracker' cannot be used: integration 'tracker' ")
    assert "'tracker' again" in found["fix"]


async def test_doctor_reports_a_journal_that_it_cannot_write(
    config_only: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_permission(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gateway.cli.doctor.machine_checks.Segment", refuse_permission)
    (warning,) = (await config_only.report("--offline")).of("journal")
    assert (warning["level"], warning["line"]) == ("warn", config_only.line("url: sqlite"))
    assert "Permission denied" in warning["message"]


async def test_doctor_prints_text_for_people_without_json(config_file: ConfigFile) -> None:
    config_file.write()
    ran = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", "-c", str(config_file.file)])
    assert "\nok    public URL      " in ran.stdout
    assert "/oauth/callback" in ran.stdout


async def test_wrong_encryption_key_is_found(config_file: ConfigFile) -> None:
    config_file.document["store"]["encryption_keys"] = ["dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE="]
    result = await config_file.report()
    (fault,) = result.of("store")
    assert (result.code, fault["level"], fault["line"]) == (1, "fail", config_file.line("encryption_keys"))


async def test_database_with_pending_migrations_is_reported(
    config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.doctor.machine_checks.REVISIONS", ("0001", "9999"))
    (warning,) = (await config_file.report()).of("store")
    assert (warning["level"], warning["line"]) == ("warn", config_file.line("url: sqlite"))
    assert "9999" in warning["message"]
    assert "back it up" in warning["fix"]


@pytest.mark.parametrize("place", ["header", "pages"])
async def test_a_damaged_database_is_found_and_restore_advised(
    config_file: ConfigFile, running: RunningGateway, tracker: Tracker, place: str
) -> None:
    await running.import_connection(tracker.grant())
    await running.stop()
    path = running.folder / "gateway.db"
    content = bytearray(path.read_bytes())
    start, end = (0, 16) if place == "header" else (4096, len(content))
    content[start:end] = b"\x55" * (end - start)
    path.write_bytes(content)
    result = await config_file.report("--offline")
    (fault,) = result.of("store")
    assert (result.code, fault["level"], fault["line"]) == (1, "fail", config_file.line("url: sqlite"))
    assert "damaged" in fault["message"]
    assert f"restore BACKUP -c {config_file.file}" in fault["fix"]


async def test_a_check_for_damage_that_takes_long_is_ended(
    config_file: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.doctor.machine_checks.DAMAGE_CHECK_TIMEOUT_S", -1.0)
    result = await config_file.report("--offline")
    assert result.levels("store") == {"ok"}
    assert any("the check for damage stopped" in item["message"] for item in result.of("store"))


async def test_doctor_checks_a_postgresql_database(
    config_only: ConfigFile, database: str, postgres_server: PostgresServer
) -> None:
    config_only.document["store"]["url"] = database
    result = await config_only.report("--offline")
    assert result.levels("store") == {"ok"}
    await asyncio.to_thread(postgres_server.stop)
    try:
        (fault,) = (await config_only.report("--offline")).of("store")
    finally:
        postgres_server.launch()
        await postgres_server.responses()
    assert fault["level"] == "fail"
    assert "cannot be reached" in fault["message"]
    assert fault["fix"] == "start PostgreSQL, or correct store.url"
    assert database.rpartition("@")[0].rpartition(":")[2] not in str(fault), "the password is not printed"


MISTAKES = {
    "quotes": ("client_secret", "'0a1b2c3d4e5f'", "quotes"),
    "a placeholder": ("client_id", "<your client id>", "space"),
    "another": ("client_id", "YOUR-CLIENT-ID", "placeholder"),
    "its own name": ("client_secret", "client_secret", "placeholder"),
    "masked": ("client_secret", "abcd********", "masked"),
    "shortened": ("client_secret", "abcd...wxyz", "shortened"),
    "a space": ("client_id", "0a1b 2c3d", "space"),
    "a URL": ("client_id", "https://console.example.com/app", "URL"),
}


@pytest.mark.parametrize(("key", "value", "word"), MISTAKES.values(), ids=MISTAKES)
async def test_wrongly_copied_client_is_found(config_only: ConfigFile, key: str, value: str, word: str) -> None:
    config_only.integration[key] = value
    result = await config_only.report("--offline")
    (fault,) = result.of("client", "fail")
    assert (result.code, fault["line"], fault["integration"]) == (1, config_only.line(f"{key}:"), "dev/tracker")
    assert word in fault["message"]
    assert key == value or value not in fault["message"]


@pytest.mark.parametrize(
    "value", ["0oa1b2c3d4", "Iv1.8a61f9b3a7aba766", "GOCSPX-aB3_x", "123-abc.apps.googleusercontent.com", "my-app"]
)
async def test_client_in_a_usual_format_is_not_reported(config_only: ConfigFile, value: str) -> None:
    config_only.integration["client_id"] = value
    assert (await config_only.report("--offline")).levels("client") == {"ok"}


async def test_a_client_secret_that_is_the_client_id_is_found(config_only: ConfigFile) -> None:
    config_only.integration["client_secret"] = config_only.integration["client_id"] = "0a1b2c3d4e5f"
    (fault,) = (await config_only.report("--offline")).of("client", "fail")
    assert "same" in fault["message"]


async def test_a_file_without_a_secret_may_be_read_by_anybody(config_only: ConfigFile) -> None:
    """For example the demo's `port` and `sandbox_port`."""
    for name, text in (("port", "3003"), ("sandbox_port", "9")):
        (config_only.file.parent / name).write_text(text)
        (config_only.file.parent / name).chmod(0o644)
    config_only.document["server"]["port"] = "${file:port}"
    config_only.document["egress"]["allow"] = ["127.0.0.1/32:${file:sandbox_port}"]
    assert (await config_only.report("--offline")).levels("files") == {"ok"}


@pytest.mark.parametrize(("variable", "colored"), [("", True), ("1", False)])
def test_no_color_variable_turns_colors_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, colored: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    (line, *_) = _lines([DoctorFinding("ok", "disk", "there is room")])
    assert line.startswith("\x1b[") is colored


async def test_files_that_others_may_read_are_reported_with_the_command_that_helps(config_only: ConfigFile) -> None:
    key = config_only.file.parent / "key"
    key.write_text(ENCRYPTION_KEY)
    key.chmod(0o644)
    config_only.document["store"]["encryption_keys"] = ["${file:key}"]
    config_only.write()
    result = await config_only.report("--offline")
    warnings = {item["where"]: item for item in result.of("files", "warn")}
    assert "everybody" in warnings[str(key)]["message"]
    assert warnings[str(key)]["fix"] == f"chmod 600 {key}"


async def test_a_disk_that_is_nearly_full_is_found(config_only: ConfigFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.doctor.machine_checks.FAIL_BELOW_BYTES", 1 << 62)
    monkeypatch.setattr("gateway.cli.doctor.machine_checks.WARN_BELOW_BYTES", 1 << 63)
    (fault,) = (await config_only.report("--offline")).of("disk")
    assert (fault["level"], fault["line"]) == ("fail", config_only.line("url: sqlite"))


async def test_a_folder_that_this_user_may_not_write_to_is_found(
    config_only: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and access(path, mode))
    (fault,) = (await config_only.report("--offline")).of("store")
    assert "is not writable for this user" in fault["message"]
    assert (
        fault["fix"]
        == "give the gateway's user write permission for that folder, or set store.url to a file in another folder"
    )


async def test_a_store_on_a_read_only_file_system_is_found(
    config_only: ConfigFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a container with a read-only root file system and without a volume."""
    access, statvfs = os.access, os.statvfs
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and access(path, mode))

    def read_only(path: Any) -> os.statvfs_result:
        values = list(statvfs(path))
        values[8] |= os.ST_RDONLY
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "statvfs", read_only)
    (fault,) = (await config_only.report("--offline")).of("store")
    assert " is on a read-only file system, and SQLite writes there: mount it writable" in fault["message"]
    assert fault["fix"] == "mount it writable, in a container as a volume, or set store.url to a file in another folder"


async def test_doctor_checks_only_the_given_integration(config_only: ConfigFile) -> None:
    others = config_only.document["environments"]["dev"]["integrations"]
    others["openai"] = {"provider": "openai"}
    result = await config_only.report("tracker", "--offline")
    assert {finding["integration"] for finding in result.findings if "integration" in finding} == {"dev/tracker"}


async def test_an_integration_that_is_not_declared_is_reported_with_the_nearest(config_only: ConfigFile) -> None:
    result = await config_only.report("trackr", "--offline")
    (fault,) = result.of("configuration", "fail")
    assert (result.code, "did you mean 'tracker'?" in fault["message"]) == (1, True)


async def test_every_fault_of_the_configuration_is_reported(config_only: ConfigFile) -> None:
    config_only.document["server"]["port"] = "nonsense"
    config_only.document["environments"]["dev"]["integrations"]["other"] = {"provider": "githbu"}
    result = await config_only.report()
    lines = {item["line"] for item in result.of("configuration", "fail")}
    assert (result.code, lines) == (1, {config_only.line("nonsense"), config_only.line("githbu")})


async def test_a_configuration_that_is_not_there_is_reported_without_a_line_to_correct(tmp_path: Path) -> None:
    missing = tmp_path / "gateway.yaml"
    ran = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", "-c", str(missing)])
    assert ran.exit_code == 1
    assert ran.output.splitlines()[-1] == "1 error, 0 warnings"
    assert "`gateway init` writes one" in ran.output
    assert "correct the line" not in ran.output


async def test_a_missing_offline_scope_is_reported(config_only: ConfigFile) -> None:
    config_only.integration["scopes"] = ["read"]
    (warning,) = (await config_only.report("--offline")).of("configuration", "warn")
    assert (warning["line"], "offline_access" in warning["message"]) == (config_only.line("scopes:"), True)


async def test_a_withheld_client_secret_is_reported_with_its_line(config_only: ConfigFile) -> None:
    forge = {"provider": "gitea", "client_id": "a-client", "client_secret": "a-secret-of-it"}
    config_only.document["environments"]["dev"]["integrations"]["forge"] = forge
    (warning,) = (await config_only.report("--offline")).of("configuration", "warn")
    assert (warning["line"], "add allowed_hosts" in warning["message"]) == (config_only.line("a-secret-of-it"), True)
    forge["allowed_hosts"] = ["git.example.com"]
    assert (await config_only.report("--offline")).of("configuration", "warn") == []


METRICS = """
gateway_stored_secrets_unreadable_total{{environment="dev",table="connections"}} {unreadable}
gateway_rejected_credentials_total{{environment="dev",integration="made-by-api",state="degraded"}} 7
gateway_rejected_credentials_total{{environment="dev",integration="made-by-api",state="needs_reauth"}} {rejected}
"""


@pytest.mark.parametrize(("unreadable", "rejected"), [(0, 0), (3, 0), (0, 1)])
async def test_doctor_reads_the_metrics_of_a_running_gateway(
    config_file: ConfigFile, unreadable: int, rejected: int
) -> None:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=METRICS.format(unreadable=unreadable, rejected=rejected))

    async with responding(metrics) as admin:
        config_file.document["server"] |= {"admin_port": admin.port}
        result = await config_file.report()
    assert (result.of("store", "fail") != []) == bool(unreadable)
    assert (result.of("credentials", "warn") != []) == bool(rejected)
    if rejected:
        (warning,) = result.of("credentials", "warn")
        assert "rejected 1 credential on" in warning["message"]
        assert warning["integration"] == "dev/made-by-api"
    if unreadable:
        (fault,) = result.of("store", "fail")
        assert "gateway restore" in fault["fix"]


async def test_doctor_reports_a_running_gateway_that_cannot_write_its_journal(
    config_file: ConfigFile, running: RunningGateway
) -> None:
    running.runtime.journals.of(running.folder).fault = "no space left"
    (warning,) = (await config_file.report()).of("journal", "warn")
    assert "the running gateway" in warning["message"]
    assert "refresh_journal_unwritable" in warning["fix"]


@pytest.mark.parametrize("replaced", [False, True])
async def test_database_that_the_running_gateway_has_lost_is_a_failure(
    config_file: ConfigFile, running: RunningGateway, replaced: bool
) -> None:
    path = running.folder / "gateway.db"
    path.rename(running.folder / "moved.db")
    if replaced:
        path.touch(0o600)
    result = await config_file.report()
    (fault,) = result.of("store")
    assert (result.code, fault["level"], fault["line"]) == (1, "fail", config_file.line("url: sqlite"))
    assert f"the running gateway has lost its database: {path} was " in fault["message"]
    assert ("restart" if replaced else "put it back") in fault["fix"]


async def test_files_without_secrets_may_be_readable_by_others(config_only: ConfigFile) -> None:
    port = config_only.file.parent / "port"
    port.write_text("0")
    port.chmod(0o644)
    config_only.document["server"]["port"] = "${file:port}"
    assert "port" not in str((await config_only.report("--offline")).of("files"))
