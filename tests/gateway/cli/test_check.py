"""``gateway check``: what prevents a start, what only warns, and the callback URL to register."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main

HEAD = """\
store: {encryption_keys: [dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=]}
environments:
  dev:
    secret_keys: [a-secret-key-of-dev]
    integrations:
"""
GOOD = HEAD + "      github: {client_id: an-id, client_secret: a-client-secret}\n      openai: {}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def check(file: Path, text: str, *arguments: str) -> Result:
    file.write_text(text)
    return CliRunner().invoke(main, ["check", "-c", str(file), *arguments])


def test_configuration_written_by_init_passes(tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(main, ["init", "--dir", str(tmp_path)]).exit_code == 0
    result = runner.invoke(main, ["check", "-c", str(tmp_path / "gateway.yaml")])
    assert (result.exit_code, result.stderr) == (0, "")


def test_valid_configuration_is_summarized(file: Path) -> None:
    result = check(file, GOOD)
    assert result.exit_code == 0
    assert "http://127.0.0.1:3003/oauth/callback" in result.stdout
    assert f"sqlite:///{file.parent}/gateway.db" in result.stdout
    assert "dev: 1 secret key; github, openai" in result.stdout


def test_check_prints_no_secret(file: Path) -> None:
    for secret in ("a-secret-key", "a-client-secret", "dzpPopuI"):
        assert secret not in check(file, GOOD).output


def test_variable_without_braces_causes_a_warning_that_does_not_show_the_value(file: Path) -> None:
    result = check(
        file, HEAD + "      github:\n        client_id: $GITHUB_ID\n        client_secret: a-client-$ECRET\n"
    )
    assert result.exit_code == 0
    [line] = [line for line in result.stderr.splitlines() if "braces" in line]
    assert line.endswith(
        "gateway.yaml:7: warning: the value is not filled in from the environment: "
        "write the variable's name in braces, as in ${NAME}"
    )
    assert "GITHUB_ID" not in result.output


def test_unknown_key_is_reported_without_the_source_of_its_value(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ID", "an-id")
    result = check(file, HEAD + "      github: {clientId: '${GITHUB_ID}'}\n")
    assert "clientId: is not a known key; did you mean 'client_id'?\n" in result.stderr


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("h/d", True),
        ("h/d?sslmode=require", True),
        ("one,127.0.0.1/d", True),
        ("h/d?sslmode=verify-full", False),
        ("127.0.0.1:5433/d", False),
        ("/d?host=/run/postgresql", False),
    ],
)
def test_a_remote_database_whose_certificate_is_not_checked_causes_a_warning(
    file: Path, address: str, warned: bool
) -> None:
    result = check(file, GOOD.replace("store: {", f"store: {{url: 'postgresql://u:database-password@{address}', "))
    assert result.exit_code == 0
    assert ("add ?sslmode=verify-full" in result.stderr) == warned
    assert "database-password" not in result.output


def test_missing_folder_of_the_store_causes_a_warning(file: Path) -> None:
    folder = file.parent / "missing"
    result = check(file, GOOD.replace("store: {", f"store: {{url: 'sqlite:///{folder}/gateway.db', "))
    assert result.exit_code == 0
    assert result.stderr == (
        f"{file}:1: warning: {folder} is not a folder: create it, or set store.url to a file elsewhere. "
        "Until then, the gateway does not start on this machine.\n"
    )


def test_placeholder_in_place_of_a_client_causes_a_warning(file: Path) -> None:
    result = check(file, HEAD + "      github:\n        client_id: an-id\n        client_secret: change-me\n")
    assert result.exit_code == 0
    assert result.stderr == f"{file}:8: warning: client_secret of integration 'github' is a placeholder\n"


def test_check_creates_no_files(file: Path) -> None:
    check(file, GOOD)
    assert list(file.parent.iterdir()) == [file]


def test_an_unknown_provider_is_reported_with_its_line(file: Path) -> None:
    result = check(file, HEAD + "      tracker:\n        provider: jria\n")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"{file}:7: ")
    assert "'jria'" in result.stderr
    assert "did you mean 'jira'?" in result.stderr


def test_a_fault_in_an_added_catalog_folder_is_reported_with_that_file_and_line(file: Path) -> None:
    (file.parent / "mine").mkdir()
    (file.parent / "mine" / "tracker.yaml").write_text("display_name: Tracker\ncategoris: [x]\n")
    result = check(file, GOOD + "catalog: [mine]\n")
    assert result.exit_code == 1
    assert f"{file.parent}/mine/tracker.yaml:2: " in result.stderr


def test_an_empty_catalog_folder_is_accepted(file: Path) -> None:
    (file.parent / "mine").mkdir()
    assert check(file, GOOD + "catalog: [mine]\n").exit_code == 0


def test_several_scopes_in_one_list_item_are_reported(file: Path) -> None:
    text = "      jira: {client_id: a, client_secret: b, scopes: ['read:jira-work,offline_access']}\n"
    result = check(file, HEAD + text)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{file}:6: warning: ")
    assert "is read as one scope; write a list: [read:jira-work, offline_access]" in line


def test_urls_opened_by_browsers_need_no_egress_rule(file: Path) -> None:
    result = check(file, GOOD + "      sandbox: {client_id: a, client_secret: b}\n")
    assert "authorization_url" not in result.stderr


def test_faulty_client_secret_does_not_count_as_missing(file: Path) -> None:
    result = check(file, HEAD + "      jira: {client_id: a, client_secret: ' b', scopes: [offline_access]}\n")
    assert result.exit_code == 1
    assert "client_secret: contains a line break, a space at its beginning or end" in result.stderr
    assert "no client_secret" not in result.stderr


def test_a_warning_is_reported_and_passes(file: Path) -> None:
    result = check(file, HEAD + "      jira: {client_id: a, client_secret: b, scopes: ['read:jira-work']}\n")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"{file}:6: warning: ")
    assert "offline_access" in result.stderr
    assert result.stdout.startswith(f"{file} is valid, with 1 warning above\n")
    assert "is valid\n" not in result.stdout


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD.replace("[a-secret-key-of-dev]", "[]"), 3, "'dev' has no secret key, so every call to it is refused"),
        (HEAD.partition("environments")[0], 1, "no environment is declared"),
        (GOOD + "    webhook_url: http://10.0.0.1/\n", 8, "events cannot be sent to this URL"),
        (
            HEAD + "      jira: {client_id: a, client_secret: b}\n    webhook_url: https://app.example.com/\n",
            6,
            "webhooks of provider 'jira' are refused with 401: set webhook_secret, or forward_webhooks: false",
        ),
        (
            HEAD + "      github: {client_id: a, client_secret: b}\n    webhook_url: https://app.example.com/\n",
            6,
            "webhooks of provider 'github' are refused with 401",
        ),
        (
            HEAD + "      jira: {client_id: a, client_secret: b, allow_unsigned_webhooks: true}\n",
            6,
            "anybody who knows the webhook URL can forge events",
        ),
        (
            HEAD + "      jira: {client_id: a, client_secret: b, webhook_secret: c, allow_unsigned_webhooks: true}\n",
            6,
            "allow_unsigned_webhooks has no effect: a secret is set",
        ),
        (
            GOOD + "      sandbox: {client_id: a, client_secret: b}\n",
            8,
            "the token_url of provider 'sandbox' cannot be called",
        ),
        (
            GOOD.replace("openai: {}", "openai: {allowed_origins: ['http://api.example.com']}"),
            7,
            "http://api.example.com:80 cannot be called",
        ),
        (
            HEAD + "      gitea: {client_id: a, client_secret: b}\n",
            6,
            "'gitea': client secret is withheld where end users choose the host (setting 'hostname' of token_url): add allowed_",
        ),
        (
            HEAD + "      greenhouse-harvest: {}\n",
            6,
            "provider 'greenhouse-harvest' sunset on 2026-08-31: Greenhouse has removed versions 1 and 2",
        ),
        (
            HEAD + "      slack: {client_id: a, client_secret: b, allowed_hosts: [slack.com]}\n",
            6,
            "allowed_hosts has no effect: provider 'slack' names its hosts itself",
        ),
        (
            HEAD + "      jira: {client_id: a, client_secret: ''}\n",
            6,
            "client_secret is empty: token requests are sent with an empty secret, which few providers accept",
        ),
        (
            GOOD + "server: {notice_s: 30, drain_s: 30}\n",
            8,
            "server.notice_s is not less than server.drain_s: requests that begin during the notice can be cut",
        ),
        (GOOD + "egress: {allow: [0.0.0.0/0]}\n", 8, "0.0.0.0/0 lets providers direct calls to any private address"),
    ],
)
def test_valid_but_probably_unintended_setting_causes_a_warning(file: Path, text: str, line: int, message: str) -> None:
    result = check(file, text)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"{file}:{line}: warning: ")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://example.com/hook", True),
        ("https://example.com/hook", False),
        ("http://app:8000/hook", False),
        ("http://app.shop.internal/hook", False),
        ("http://localhost/hook", False),
        ("http://127.0.0.1/hook", False),
    ],
)
def test_webhook_url_with_plain_http_is_warned_of(file: Path, url: str, warned: bool) -> None:
    result = check(file, f"{GOOD}    webhook_url: {url}\negress: {{allow: [127.0.0.1/32]}}\n")
    warning = f"{file}:8: warning: events to http://example.com are refused unless its IP address is in egress.allow"
    assert (result.exit_code, warning in result.stderr) == (0, warned)
    assert warned or "events " not in result.stderr.replace("forge events", "")


def test_json_has_file_and_line_of_each_fault(file: Path) -> None:
    result = check(file, "live: {ttl_s: never}\n", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["ok"] is False
    assert {
        "where": f"{file}:1",
        "file": str(file),
        "line": 1,
        "message": "live.ttl_s: must be a number of seconds, not 'never'",
    } in report["faults"]


def test_json_summarizes_a_valid_configuration(file: Path) -> None:
    report = json.loads(check(file, GOOD, "--json").stdout)
    assert (report["ok"], report["faults"], report["warnings"]) == (True, [], [])
    assert report["callback_url"] == "http://127.0.0.1:3003/oauth/callback"
    assert report["environments"] == {"dev": ["github", "openai"]}


def test_metrics_open_to_the_network_cause_a_warning_unless_admin_host_is_set(file: Path) -> None:
    public = "server: {host: 0.0.0.0, public_url: 'https://gw.example.com', admin_port: 9100}\n"
    result = check(file, public + GOOD)
    assert result.exit_code == 0
    assert f"{file}:1: warning: everybody who can connect to 0.0.0.0 can read the metrics" in result.stderr
    assert "server.admin_host: 127.0.0.1" in result.stderr
    for host in ("127.0.0.1", "0.0.0.0"):
        assert "metrics" not in check(file, public.replace("9100", f"9100, admin_host: {host}") + GOOD).stderr


def test_a_guessable_encryption_key_is_warned_of_and_not_shown(file: Path) -> None:
    result = check(file, GOOD.replace("dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=", "A" * 43 + "="))
    assert result.exit_code == 0
    assert f"{file}:1: warning: encryption key 1 is one byte repeated" in result.stderr
    assert "gateway keys rotate" in result.stderr
    assert "AAAA" not in result.output


@pytest.mark.parametrize("former", ["request_log: {keep_days: 2, max_rows: 1000}", "request_log:"])
def test_former_name_of_the_call_log_section_causes_a_warning_with_its_line(file: Path, former: str) -> None:
    result = check(file, f"{GOOD}{former}\n")
    renamed = "request_log is renamed to call_log, and max_rows is replaced by max_bytes; the old settings still work"
    assert (result.exit_code, result.stderr) == (0, f"{file}:8: warning: {renamed}\n")
    assert check(file, f"{GOOD}call_log: {{keep_days: 2}}\n").stderr == ""
