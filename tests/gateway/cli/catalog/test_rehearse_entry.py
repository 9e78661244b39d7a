"""``gateway catalog test``: operators' own entries, tested against the sandbox."""

import json
from pathlib import Path

from tests.gateway.cli.catalog.test_show_catalog import catalog
from tests.gateway.cli.conftest import TRACKER


def test_an_entry_is_tried_against_the_sandbox(config_folder: Path) -> None:
    ran = catalog("test", "tracker", "-c", str(config_folder))
    assert ran.exit_code == 0, ran.output
    lines = ran.stdout.splitlines()
    assert lines[0].endswith("tracker.yaml): OAUTH2, with the sandbox as the provider")
    assert "  the sandbox serves https://auth.example.com at http://127.0.0.1:" in ran.stdout
    assert "refresh: ok" in lines
    assert any(line.startswith("  > POST /token") for line in lines)
    assert any(line.startswith("not shown: the real provider was not called") for line in lines)


def test_a_step_that_fails_names_the_line_of_the_entry(config_folder: Path) -> None:
    more = "connection_configuration: [team]\n"
    header = "  headers:\n    authorization: Bearer ${accessToken}\n    x-team: ${connectionConfig.team}\n"
    (config_folder.parent / "mine" / "tracker.yaml").write_text(TRACKER + header + more)
    ran = catalog("test", "tracker", "-c", str(config_folder))
    assert ran.exit_code == 1
    assert (
        f"tracker.yaml:{TRACKER.count(chr(10)) + 3}: field x-team is filled in: the rehearsal has no value for team"
        in ran.stdout
    )
    body = json.loads(catalog("test", "tracker", "-c", str(config_folder), "--json").stdout)
    assert body["ok"] is False
    failing = [check for step in body["steps"] for check in step["checks"] if not check["ok"]]
    assert {check["where"].rpartition(":")[2] for check in failing} == {str(TRACKER.count("\n") + 3)}
    assert catalog("test", "tracker", "-c", str(config_folder), "--set", "team=a").exit_code in {0, 1}


def test_a_header_from_the_request_may_be_empty(config_folder: Path) -> None:
    """The rehearsal's call has no query, so ${params} is empty."""
    header = "  headers:\n    authorization: Bearer ${accessToken}\n    x-params: ${params}\n    x-when: ${now}\n"
    (config_folder.parent / "mine" / "tracker.yaml").write_text(TRACKER + header)
    ran = catalog("test", "tracker", "-c", str(config_folder), "--json")
    checks = [check for step in json.loads(ran.stdout)["steps"] for check in step["checks"]]
    assert {"field x-params is filled in", "field x-when is filled in"} <= {check["what"] for check in checks}
    assert [check for check in checks if not check["ok"]] == []


def test_a_setting_that_needs_a_value_is_requested(config_folder: Path) -> None:
    form = "connection_config:\n  odd: {description: Odd., pattern: 'zq[0-9]{3}'}\n"
    (config_folder.parent / "mine" / "tracker.yaml").write_text(TRACKER + form)
    ran = catalog("test", "tracker", "-c", str(config_folder))
    assert ran.exit_code == 1
    assert f"tracker.yaml:{TRACKER.count(chr(10)) + 2}: odd: no sample value satisfies its rules" in ran.stderr
    assert catalog("test", "tracker", "-c", str(config_folder), "--set", "odd=zq123").exit_code == 0


def test_error_for_an_unknown_name_shows_the_closest_name(config_folder: Path) -> None:
    ran = catalog("test", "trackr", "-c", str(config_folder))
    assert ran.exit_code == 1
    assert "did you mean 'tracker'?" in ran.stderr
