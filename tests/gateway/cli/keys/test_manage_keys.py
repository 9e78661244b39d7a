"""``gateway keys``: creates, lists and revokes keys in the store, whether or not a gateway is running."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.access.key_forms import key_kind
from gateway.cli import main
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "gateway.yaml"
    made.write_text(
        "store: {encryption_keys: [dzpPopuI4/KNx+qnj3WNpMLS2v0Vek+qyopYqciI7cE=]}\n"
        "environments: {dev: {secret_keys: [a-secret-key-of-dev], integrations: {openai: {}}}}\n"
    )
    return made


def keys(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", arguments[0], "-c", str(file), *arguments[1:]])


def printed_json(file: Path, *arguments: str) -> Any:
    result = keys(file, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_key_is_made_listed_replaced_and_revoked(file: Path) -> None:
    made = printed_json(
        file,
        "create",
        "agent",
        "--connection",
        "openai/u1",
        "--allow",
        "GET /v1/models",
        "--rate",
        "60",
        "--expires",
        "30d",
    )
    assert key_kind(made["secret"]) == "key"
    assert made["scopes"] == ["environment:proxy"]
    assert made["limits"] == [{"connections": ["openai/u1"], "rules": ["GET /v1/models"]}]
    assert made["created_by"] == "gateway keys create"
    second = printed_json(file, "create", "agent", "--replaces", str(made["id"]), "--overlap", "0s")
    listed = printed_json(file, "list")["keys"]
    assert [row["id"] for row in listed] == [second["id"]]
    assert "secret" not in listed[0]
    assert printed_json(file, "revoke", str(second["id"])) == {
        "keys": [{"id": second["id"], "revoked": 1}],
        "not_found": [],
    }
    assert printed_json(file, "list") == {"keys": []}
    assert len(printed_json(file, "list", "--all")["keys"]) == 2


def test_stdout_is_only_the_key(file: Path) -> None:
    result = keys(file, "create", "back end")
    assert result.exit_code == 0
    assert key_kind(result.stdout.strip()) == "key"
    assert "not shown again" in result.stderr
    url = keys(file, "create", "cap", "--capability", "--connection", "openai/u1").stdout.strip()
    assert url.startswith("http://127.0.0.1:3003/c/gw_cap_")
    table = keys(file, "list").stdout
    assert result.stdout.strip() not in table
    assert result.stdout.strip()[-4:] in table
    assert "connections: openai/u1" in table


def test_the_summary_lists_every_limit_in_words(file: Path) -> None:
    limits = ["--integration", "openai", "--tag", "Team=red", "--rate", "60", "--budget", "5000"]
    told_after = keys(file, "create", "agent", *limits).stderr
    for line in (
        "integrations openai",
        "tags         team=red",
        "rate         60 per minute",
        "budget       5,000 calls in total",
    ):
        assert f"  {line}\n" in told_after
    assert "warning" not in told_after
    assert "tags: team=red; rate: 60 per minute; budget: 0 of 5,000 calls spent" in keys(file, "list").stdout


def test_an_integration_that_is_not_there_is_reported_with_the_nearest(file: Path) -> None:
    result = keys(file, "create", "agent", "--integration", "opnai", "--connection", "opnai/u1")
    assert result.exit_code == 0
    assert "environment 'dev' has no integration 'opnai'; did you mean 'openai'?" in result.stderr
    assert result.stderr.count("warning") == 1
    assert "its integrations: openai" in printed_json(file, "create", "other", "--integration", "jira")["warnings"][0]


def test_a_connection_that_is_not_there_is_reported(file: Path) -> None:
    result = keys(file, "create", "agent", "--connection", "openai/u1", "--connection", "*/u1")
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "warning" in line] == [
        f"gateway: warning: there is no connection '{limit}' in environment 'dev'. The key cannot use it until it exists; "
        "`gateway connections list` shows the connections"
        for limit in ("openai/u1", "*/u1")
    ]
    source = file.with_name("source.jsonl")
    connection = {
        "provider_config_key": "openai",
        "connection_id": "u1",
        "credentials": {"type": "API_KEY", "apiKey": "k"},
    }
    source.write_text(json.dumps(connection))
    assert CliRunner().invoke(main, ["connections", "import", str(source), "-c", str(file)]).exit_code == 0
    assert "warnings" not in printed_json(file, "create", "third", "--connection", "openai/u1", "--connection", "*/u1")


@pytest.fixture
def shop_file(file: Path) -> Path:
    """A configuration with the integration `shop`, whose base URL has the path /v1."""
    folder = file.parent / "catalog"
    folder.mkdir()
    entry = ("display_name: Shop", "categories: [commerce]", "auth_mode: API_KEY", "proxy:")
    proxy = ("  base_url: https://shop.example.com/v1/", '  headers: {x-api-key: "${apiKey}"}')
    (folder / "shop.yaml").write_text("\n".join((*entry, *proxy)))
    integrations = "{shop: {}, wide: {provider: shop, allowed_origins: [https://x.com]}, mcp: {provider: mcp-generic}}"
    file.write_text(f"catalog: [catalog]\n{file.read_text().replace('{openai: {}}', integrations)}")
    return file


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ("GET /items*", "GET /v1/items*"),
        ("POST /graphql with query issues as ask", "POST /v1/graphql with query issues as ask"),
        ("* /v2/**", "* /v1/v2/**"),
        ("GET /v1x", "GET /v1/v1x"),
    ],
)
def test_a_rule_that_is_not_below_the_base_url_is_made_with_a_warning(shop_file: Path, rule: str, written: str) -> None:
    for option, limit in (("--connection", "shop/u1"), ("--integration", "shop")):
        result = keys(shop_file, "create", limit, option, limit, "--allow", rule)
        assert result.exit_code == 0
        (warning,) = (line for line in result.stderr.splitlines() if "warning: rule" in line)
        assert warning == (
            f"gateway: warning: rule '{rule}' allows no call below the base URL of integration 'shop', which has the path "
            f"'/v1'. A rule includes this path: '{written}'"
        )


@pytest.mark.parametrize("rule", ["GET /v1/x", "GET /v1/*", "GET /*/x", "GET /**", "GET /v*/x", "* /v1/**"])
def test_a_rule_that_may_be_below_the_base_url_has_no_warning(shop_file: Path, rule: str) -> None:
    assert "warning: rule" not in keys(shop_file, "create", "agent", "--connection", "shop/u1", "--allow", rule).stderr


@pytest.mark.parametrize("limit", ["--connection=*/u1", "--connection=wide/u1", "--connection=mcp/u1", "--rate=9"])
def test_no_rule_is_compared_with_the_base_url_if_calls_may_use_another(shop_file: Path, limit: str) -> None:
    """Any integration may be used, the integration may send to other origins, or its base URL is a setting."""
    result = keys(shop_file, "create", "agent", limit, "--allow", "GET /items")
    assert result.exit_code == 0
    assert "warning: rule" not in result.stderr


@pytest.mark.parametrize(
    ("rule", "expected_text"),
    [
        ("GET /ex/{cloudId}/issue/{key}", "the characters '{cloudId}'. For any value, write *: 'GET /ex/*/issue/*'"),
        ("GET /items/{id", "the characters '{id'. For any value, write *: 'GET /items/*'"),
        ("GET /items/{id/notes", "write *: 'GET /items/*/notes'"),
        ("GET /items/id}/notes", "write *: 'GET /items/*/notes'"),
        ("GET /items/<id", "write *: 'GET /items/*'"),
        ("GET /items/<id>", "write *: 'GET /items/*'"),
        ("GET /items/:id/notes", "write *: 'GET /items/*/notes'"),
        ("POST /${site}/graphql with query issues", "write *: 'POST /*/graphql with query issues'"),
        ("GTE /x", "the method 'GTE', which is not a registered HTTP method; did you mean 'GET'?"),
        ("GET,FROBNICATE /x", "the method 'FROBNICATE', which is not a registered HTTP method\n"),
    ],
)
def test_a_rule_that_probably_matches_nothing_is_made_with_a_warning(file: Path, rule: str, expected_text: str) -> None:
    result = keys(file, "create", "agent", "--allow", rule)
    assert result.exit_code == 0
    assert result.stderr.count("warning") == 1
    assert expected_text in result.stderr


@pytest.mark.parametrize(
    "rule",
    [
        "GET /issue/{key} as get_issue",
        "GET /v1/files/*:export",
        "GET,PROPFIND,QUERY,WEBSOCKET /x",
        "* /x/**",
        "operations jira read",
    ],
)
def test_rules_that_can_match_have_no_warning(file: Path, rule: str) -> None:
    result = keys(file, "create", "agent", "--allow", rule)
    assert (result.exit_code, "warning" in result.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (["create", "x", "--scope", "environment:proxi"], "is not a scope; did you mean 'environment:proxy'?"),
        (
            ["create", "x", "--scope", "connections:raed"],
            "is not a scope; did you mean 'environment:connections:read'?",
        ),
        (["create", "x", "--scope", "environment:foo"], "'environment:foo' is not a scope; docs/keys.md lists them."),
        (["create", "x", "--allow", "/v1"], "'/v1' has no method: write METHOD /path"),
        (["create", "x", "--capability"], "one connection"),
        (["create", "x", "--expires", "soon"], "30d"),
        (["create", "x", "--tag", "red"], "NAME=VALUE"),
        (["revoke", "7"], "there is no key 7"),
        (
            ["revoke", "agent"],
            "'agent' must be a whole number, 1 or more, of at most 18 digits; `gateway keys list` shows",
        ),
        (["create", "x", "--replaces", "agent"], "`gateway keys list` shows the ids"),
        (["revoke", "99999999999999999999"], "must be a whole number, 1 or more, of at most 18 digits"),
        (["create", "x", "--replaces", "99999999999999999999"], "of at most 18 digits"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(file: Path, arguments: list[str], expected_text: str) -> None:
    assert keys(file, "create", "first").exit_code == 0
    result = keys(file, *arguments)
    assert result.exit_code != 0
    assert expected_text in result.stderr
    assert "Traceback" not in result.output


def test_shortened_list_is_reported(file: Path) -> None:
    for name in ("a", "b"):
        keys(file, "create", name)
    cut = keys(file, "list", "--limit", "1")
    assert "There are more than 1 key: raise --limit to see the others." in cut.stderr
    assert "raise --limit" not in keys(file, "list", "--limit", "2").stderr


def create_key_with_output(output: str, file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Create a key; the shell's redirection `output` takes stdout."""
    command = [sys.executable, "-m", "gateway", "keys", "create", *arguments, "-c", str(file)]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {output}', "sh", *command],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("output", "why", "form"),
    [(">/dev/full", "No space left on device", ()), (">&-", "stdout is closed", ("--json",))],
    ids=["full disk", "closed"],
)
def test_key_that_cannot_be_printed_is_revoked(file: Path, output: str, why: str, form: tuple[str, ...]) -> None:
    assert keys(file, "create", "first").exit_code == 0
    done = create_key_with_output(output, file, "agent", *form)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: the key could not be printed ({why}), so it is revoked: send the output to another place, and create a "
        "key again\n"
    )
    assert [key["display_name"] for key in printed_json(file, "list")["keys"]] == ["first"]
    assert len(printed_json(file, "list", "--all")["keys"]) == 2
    assert keys(file, "create", "agent").exit_code == 0, "the name is free again"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_key_stays_if_its_replacement_cannot_be_printed(file: Path) -> None:
    old = printed_json(file, "create", "agent", "--expires", "30d")
    done = create_key_with_output(">/dev/full", file, "agent", "--replaces", str(old["id"]), "--overlap", "0s")
    assert done.returncode == 1
    assert f"so it is revoked, and key {old['id']} is not replaced: " in done.stderr
    (listed,) = printed_json(file, "list")["keys"]
    assert (listed["id"], listed["expires_at"]) == (old["id"], old["expires_at"])
