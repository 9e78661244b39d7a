"""``gateway catalog``: the providers as a person, a pipe and a program see them."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.gateway.cli.conftest import TRACKER


def catalog(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["catalog", *arguments])


def test_list_prints_each_provider_in_one_line() -> None:
    lines = catalog("list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "DISPLAY", "NAME", "AUTH", "MODE", "CATEGORIES"]
    names = [line.split()[0] for line in lines[1:]]
    assert names == sorted(names)
    assert {"jira", "openai", "sandbox"} <= set(names)


def test_evidence_lists_unconfirmed_fields_and_the_page_to_check() -> None:
    result = catalog("evidence", "hubspot")
    assert "hubspot\trefresh.rotating" not in result.stdout
    assert "hubspot\twebhooks\tunconfirmed\thttps://developers.hubspot.com" in result.stdout
    rows = json.loads(catalog("evidence", "--level", "assumed", "--json").stdout)["data"]
    assert {row["level"] for row in rows} == {"assumed"}
    assert {row["group"] for row in rows} == {"client"}
    wrong = catalog("evidence", "hubspott")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "did you mean 'hubspot'?" in wrong.stderr


@pytest.mark.parametrize(
    ("option", "value", "reported"),
    [
        ("--category", "crmm", "did you mean 'crm'?"),
        ("--category", "zzz", "choose one of "),
        ("--auth-mode", "oauth3", "did you mean 'OAUTH1'?"),
        ("--auth-mode", "magic", "API_KEY"),
    ],
)
def test_list_with_an_unknown_filter_value_is_wrong_usage(option: str, value: str, reported: str) -> None:
    result = catalog("list", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr
    assert reported in result.stderr


def test_list_without_a_match_says_what_to_do() -> None:
    result = catalog("list", "hubspott")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "gateway: no provider matches 'hubspott'; did you mean 'hubspot'?\n",
    )
    result = catalog("list", "--category", "crm", "--auth-mode", "OAUTH1")
    assert (result.stdout, result.stderr) == (
        "",
        "gateway: no provider has this category and this auth mode. Leave out one of the options.\n",
    )
    result = catalog("list", "zzzzzz", "--category", "crm")
    assert result.stderr == (
        "gateway: no provider matches 'zzzzzz'. Search with other words, or write your own entry (docs/catalog.md).\n"
    )
    assert catalog("list", "jira").stderr == ""


def test_list_includes_the_catalog_folders_of_a_configuration(config_folder: Path) -> None:
    assert "tracker" not in catalog("list").stdout
    assert "tracker" in catalog("list", "-c", str(config_folder)).stdout


def test_list_as_json_has_the_shape_of_the_api() -> None:
    entries = json.loads(catalog("list", "--json").stdout)["data"]
    assert all(
        {"name", "display_name", "logo_url", "categories", "auth_mode", "proxy", "docs"} <= set(entry)
        for entry in entries
    )


def test_show_prints_an_entry_with_the_file_it_comes_from(config_folder: Path) -> None:
    text = catalog("show", "tracker", "-c", str(config_folder)).stdout
    assert text.startswith("# ")
    assert "tracker.yaml" in text.splitlines()[0]
    assert yaml.safe_load(text)["logo_url"].startswith("https://gw.example.com/")


def test_show_as_json_is_what_the_api_returns() -> None:
    assert json.loads(catalog("show", "jira", "--json").stdout)["data"]["name"] == "jira"


def test_show_of_an_unknown_provider_suggests_the_closest_name() -> None:
    result = catalog("show", "jria")
    assert result.exit_code == 1
    assert result.stderr == "Error: the catalog has no provider 'jria'; did you mean 'jira'?\n"


@pytest.mark.parametrize(("value", "name"), [("gmail", "google-mail"), ("Google Calender", "google-calendar")])
def test_show_of_a_display_name_suggests_the_name(value: str, name: str) -> None:
    assert f"did you mean '{name}'?" in catalog("show", value).stderr


def test_words_after_the_list_command_are_a_search() -> None:
    assert catalog("list", "jira").stdout == catalog("list", "--search", "jira").stdout
    names = [line.split()[0] for line in catalog("list", "google", "calendar").stdout.splitlines()[1:]]
    assert "google-calendar" in names
    assert "google-mail" not in names


def test_show_of_an_unknown_provider_names_the_option_for_the_configuration_here(
    config_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config_folder.parent)
    unknown = "Error: the catalog has no provider 'gh'"
    result = catalog("show", "gh")
    assert result.stderr == (
        f"{unknown}; -c gateway.yaml adds your own catalog folders; to list all, run `gateway catalog list`\n"
    )
    result = catalog("show", "gh", "-c", "gateway.yaml")
    assert result.stderr == f"{unknown}; to list all, run `gateway catalog list`\n"


def test_lint_passes_the_shipped_catalog() -> None:
    result = catalog("lint")
    assert result.exit_code == 0
    assert result.stdout.startswith("no faults")


def test_lint_reports_each_fault_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "tracker.yaml").write_text(TRACKER.replace("token_url", "token_uri"))
    result = catalog("lint", str(tmp_path))
    assert result.exit_code == 1
    assert f"{tmp_path}/tracker.yaml:6: " in result.stderr
    report = json.loads(catalog("lint", "--json", str(tmp_path)).stdout)
    assert report["ok"] is False
    assert any(row["level"] == "fault" and row["where"].endswith("tracker.yaml:6") for row in report["data"])


def test_lint_of_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    assert catalog("lint", str(tmp_path / "nowhere")).exit_code == 2


def test_schema_describes_an_entry() -> None:
    schema = json.loads(catalog("schema").stdout)
    assert {"display_name", "auth_mode", "proxy"} <= set(schema["properties"])


@pytest.mark.parametrize("command", ["list", "show"])
def test_a_faulty_configuration_is_reported_line_by_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text("live: []\n")
    result = catalog(command, *(["jira"] if command == "show" else []), "-c", str(tmp_path / "gateway.yaml"))
    assert result.exit_code == 1
    assert "gateway.yaml:1: live: must be a mapping" in result.stderr


def test_list_can_be_filtered() -> None:
    lines = catalog(
        "list", "--category", "crm", "--auth-mode", "oauth2", "--search", "sales force"
    ).stdout.splitlines()[1:]
    assert "salesforce" in [line.split()[0] for line in lines]
    assert all("OAUTH2" in line and "crm" in line for line in lines)


def test_lint_reports_equal_warnings_in_one_line(tmp_path: Path) -> None:
    entry = "display_name: X\ncategories: [other]\nauth_mode: API_KEY\n"
    entry += "proxy: {base_url: 'https://x.example.com', headers: {k: '${apiKey}'}}\n"
    for number in range(30):
        (tmp_path / f"x{number:02}.yaml").write_text(entry + "sources: [provider-docs]\n")
    result = catalog("lint", str(tmp_path))
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert "in 30 places, listed by --all" in line
    assert f"{tmp_path}/x00.yaml:4, " in line
    assert len(catalog("lint", str(tmp_path), "--all").stderr.splitlines()) == 30
    assert len(json.loads(catalog("lint", str(tmp_path), "--json").stdout)["data"]) == 30


def test_operations_are_listed_by_words_and_risk() -> None:
    lines = catalog("operations", "jira", "issue", "--risk", "read", "--starter").stdout.splitlines()
    assert lines[0].split() == ["ID", "METHOD", "PATH", "RISK", "SCOPES", "SUMMARY"]
    assert [line.split()[0] for line in lines[1:]] == [
        "get_issue",
        "list_comments",
        "list_transitions",
        "search_issues",
    ]
    printed = json.loads(catalog("operations", "github-pat", "--json").stdout)
    assert len(printed["data"]) == 460
    assert printed["source"]["licence"] == "MIT"
    assert printed["data"][0].keys() >= {"id", "method", "path", "risk", "body"}


def test_the_scopes_of_operations_are_compared_with_those_granted() -> None:
    lines = catalog("operations", "jira", "comment", "--starter", "--scopes", "--granted", "write:jira-work x").stdout
    assert lines.splitlines() == [
        "needed     read:jira-work",
        "needed     write:jira-work",
        "missing    read:jira-work",
        "not needed x",
    ]


def test_error_names_the_provider_without_operations() -> None:
    result = catalog("operations", "sandbox-none")
    assert (result.exit_code, "no provider 'sandbox-none'" in result.stderr) == (1, True)
    result = catalog("operations", "workday")
    assert (result.exit_code, "no operations of 'workday'" in result.stderr) == (1, True)
    assert "choose one of admin, delete, read, write" in catalog("operations", "jira", "--risk", "high").stderr
