"""`gateway try` with a running gateway: what it sends, prints and returns."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from gateway.cli.demo.demo_folder import DemoFolder
from gateway.cli.try_.try_output import MAX_LINES
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import KEY, PagedGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import ROOT
from tests.gateway.cli.config_file import responding
from tests.gateway.cli.try_.conftest import Try


async def test_a_call_shows_request_response_timing_and_snippets(
    running_target: PagedGateway, try_command: Try
) -> None:
    result = await try_command("tracker", "c1", "/a?x=1", "-q", "y=a b", "-H", "X-Mine: me")
    assert result.exit_code == 0, result.output
    shown = result.stdout
    assert f"GET {running_target.lists.url}/v1/a?x=1&y=a%20b" in shown
    assert "x-api-key: ***" in shown
    assert KEY not in shown
    assert "The response  200 OK" in shown
    assert '"mine": "me"' in shown
    for word in ("gateway  ", "provider ", "total  ", "█"):
        assert word in shown
    for label in ("# curl", "# Python, gateway.client", "# Python, requests", "# Node, fetch", "# Node, @nangohq/node"):
        assert label in shown
    assert f"{running_target.gateway.url}/proxy/a?x=1&y=a%20b" in shown


async def test_default_is_the_newest_connection_and_the_entrys_verification_call(
    running_target: PagedGateway, try_command: Try
) -> None:
    result = await try_command("--snippet", "none", "--json")
    body = json.loads(result.stdout)
    assert body["body"]["target"] == "/v1/whoami"
    assert (body["status"], body["complete"]) == (200, True)
    assert body["request"]["url"] == f"{running_target.lists.url}/v1/whoami"
    assert set(body["timing_ms"]) == {"gateway", "token", "upstream", "transfer", "total"}
    unknown = await try_command("trackr")
    assert "has no integration 'trackr'" in unknown.stderr
    assert "Calling" not in unknown.stderr, "there is no connection to call"
    again = await try_command("tracker", "--snippet", "curl")
    assert "-H 'Connection-Id: c2'" in again.stdout
    assert "GET /whoami" in again.stderr


async def test_json_output_is_never_shortened(running_target: PagedGateway, try_command: Try) -> None:
    body = json.loads((await try_command("tracker", "c1", "/long", "--json")).stdout)
    assert len(body["body"]) == 100
    assert set(body["snippets"]) == {"curl", "python", "requests", "node", "nango"}
    binary = json.loads((await try_command("tracker", "c1", "/binary", "--json")).stdout)
    assert binary["body"] == {"base64": base64.b64encode(b"\x89PNG\xff\x00").decode()}


async def test_a_long_response_is_cut_with_a_hint_how_to_see_it(running_target: PagedGateway, try_command: Try) -> None:
    short = (await try_command("tracker", "c1", "/long", "--snippet", "none")).stdout
    assert f"… {302 - MAX_LINES} more lines; --all shows everything" in short
    assert '"n": 99' not in short
    whole = (await try_command("tracker", "c1", "/long", "--snippet", "none", "--all")).stdout
    assert '"n": 99' in whole
    assert "more lines" not in whole


async def test_binary_response_is_reported_and_not_printed(running_target: PagedGateway, try_command: Try) -> None:
    assert "6 bytes of image/png, not shown" in (await try_command("tracker", "c1", "/binary")).stdout
    assert "\x1b[2J" not in (await try_command("tracker", "c1", "/sly")).stdout
    assert "data: 1\n\ndata: 2" in (await try_command("tracker", "c1", "/events")).stdout
    assert "data: a\N{REPLACEMENT CHARACTER}[2Jb\n\n" in (await try_command("tracker", "c1", "/sly-events")).stdout


@pytest.mark.parametrize(
    ("arguments", "method", "body", "kind"),
    [
        (["-d", '{"a": 1}'], "POST", '{"a": 1}', "application/json"),
        (["-d", "a=1&b=2"], "POST", "a=1&b=2", "application/x-www-form-urlencoded"),
        (["-d", "some text", "-X", "put"], "PUT", "some text", "text/plain; charset=utf-8"),
        (["-d", "@file", "-H", "content-type: text/csv"], "POST", "x,y", "text/csv"),
        (["-d", "@-"], "POST", "from stdin", "text/plain; charset=utf-8"),
        (["-X", "DELETE"], "DELETE", "", None),
    ],
)
async def test_body_is_sent_as_curl_does(
    running_target: PagedGateway,
    try_command: Try,
    tmp_path: Path,
    arguments: list[str],
    method: str,
    body: str,
    kind: str | None,
) -> None:
    (tmp_path / "file").write_text("x,y")
    response = json.loads((await try_command("tracker", "c1", "/x", *arguments, "--json", stdin="from stdin")).stdout)
    assert (response["body"]["method"], response["body"]["body"], response["body"]["type"]) == (method, body, kind)
    assert response["request"]["method"] == method


async def test_a_dry_run_sends_nothing(running_target: PagedGateway, try_command: Try) -> None:
    before = len(running_target.lists.seen)
    result = await try_command("tracker", "c1", "/x", "--dry-run", "-d", "a=b")
    assert result.exit_code == 0
    assert "The request as it would be sent" in result.stdout
    assert "a body of 3 bytes" in result.stdout
    assert "The response" not in result.stdout
    assert (
        json.loads((await try_command("tracker", "c1", "/x", "--dry-run", "--json")).stdout)["request"]["method"]
        == "GET"
    )
    assert len(running_target.lists.seen) == before


async def test_error_of_the_provider_is_exit_code_3(running_target: PagedGateway, try_command: Try) -> None:
    result = await try_command("tracker", "c1", "/gone", "--snippet", "none")
    assert result.exit_code == 3
    assert "410 Gone" in result.stdout
    assert '"why": "gone"' in result.stdout


async def test_an_unknown_integration_is_reported_with_the_existing_ones(
    running_target: PagedGateway, try_command: Try
) -> None:
    result = await try_command("trakcer", "c1", "/x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "unknown_provider_config" in result.stderr
    assert "'tracker'" in result.stderr
    assert "integrations:\n  tracker" in result.stderr
    body = json.loads((await try_command("trakcer", "c1", "/x", "--json")).stdout)["error"]
    assert (body["code"], body["did_you_mean"], body["known"]) == ("unknown_provider_config", "tracker", ["tracker"])
    assert "unknown_provider_config" in (await try_command("trakcer")).stderr


async def test_an_unknown_connection_is_reported_with_the_nearest_and_the_newest(
    running_target: PagedGateway, try_command: Try
) -> None:
    result = await try_command("tracker", "c11", "/x")
    assert result.exit_code == 1
    assert "unknown_connection" in result.stderr
    assert "did you mean 'c1'?" in result.stderr
    assert "  c2\n  c1" in result.stderr


async def test_an_integration_without_a_connection_gets_a_link_to_make_one(
    running_target: PagedGateway, try_command: Try
) -> None:
    for item in ("c1", "c2"):
        await running_target.gateway.json("DELETE", f"/connections/{item}?provider_config_key=tracker")
    result = await try_command("tracker")
    assert result.exit_code == 1
    assert "has no connection yet" in result.stderr
    assert f"{running_target.gateway.url}/connect?session_token=" in result.stderr


async def test_placeholder_in_the_path_is_filled_with_a_setting_of_the_connection(
    running_target: PagedGateway, try_command: Try
) -> None:
    body = {"provider_config_key": "tracker", "connection_id": "c3", "connection_config": {"site": "s-1"}}
    await running_target.gateway.json(
        "POST", "/connections", json={**body, "credentials": {"type": "API_KEY", "apiKey": KEY}}, expect=201
    )
    for path in ("/{site}/x", "/${connectionConfig.site}/x"):
        response = json.loads((await try_command("tracker", "c3", path, "--json")).stdout)
        assert response["body"]["target"] == "/v1/s-1/x"
    assert "has no setting 'place'" in (await try_command("tracker", "c3", "/{place}")).stderr


async def test_a_url_below_the_base_url_is_used_as_its_path(running_target: PagedGateway, try_command: Try) -> None:
    body = json.loads((await try_command("tracker", "c1", f"{running_target.lists.url}/v1/a?x=1", "--json")).stdout)
    assert body["body"]["target"] == "/v1/a?x=1"
    result = await try_command("tracker", "c1", "https://api.example.com/a")
    assert result.exit_code == 1
    assert f"base URL, which is {running_target.lists.url}/v1 for 'tracker'" in result.stderr
    assert "Base-Url-Override" in result.stderr


async def test_error_for_a_wrong_key_names_its_source(running_target: PagedGateway, try_command: Try) -> None:
    result = await try_command("tracker", "c1", "/x", "--key", "not-the-key-0123456789")
    assert result.exit_code == 1
    assert "unknown_account" in result.stderr
    assert "--key or GATEWAY_SECRET_KEY" in result.stderr
    assert "not-the-key" not in result.output


async def test_contradictory_options_are_wrong_usage(running_target: PagedGateway, try_command: Try) -> None:
    for words in (["-X", "GE T"], ["-H", "no colon"], ["-q", "noequals"], ["-d", "@nothing-here"]):
        assert (await try_command("tracker", "c1", "/x", *words)).exit_code == 2


async def test_demo_folder_and_its_current_url_are_found(
    running_target: PagedGateway, try_command: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = DemoFolder(tmp_path / "elsewhere" / ".gateway")
    with demo.lock():
        (demo.path / "secret_key").write_text(f"{SECRET_KEY}\n")
        demo.write_url(running_target.gateway.url)
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = await try_command("tracker", "c1", "/x", "--snippet", "curl")
    assert result.exit_code == 0, result.output
    assert 'export GATEWAY_SECRET_KEY="$(cat .gateway/secret_key)"' in result.stdout


async def test_error_without_a_running_gateway_says_how_to_start_one(
    try_command: Try, tmp_path: Path, unused_tcp_port: int
) -> None:
    result = await try_command()
    assert result.exit_code == 1
    assert "no gateway found" in result.stderr
    assert "demo" in result.stderr
    demo = DemoFolder(tmp_path / ".gateway")
    with demo.lock():
        demo.write_url(f"http://127.0.0.1:{unused_tcp_port}")
    result = await try_command("--json")
    assert result.exit_code == 1
    assert f"no gateway responds at http://127.0.0.1:{unused_tcp_port}" in result.stderr
    assert "start it with: " in result.stderr
    assert "demo" in json.loads(result.stdout)["error"]["hints"][0]
    assert (await try_command("--url", "nonsense", "--key", "k")).exit_code == 1


async def test_variables_of_another_terminal_are_not_needed(
    running_target: PagedGateway, try_command: Try, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        file.read_text().replace("provider: tracker", "provider: tracker\n        client_id: ${UNSET_HERE}", 1)
    )
    assert (await try_command("tracker", "c1", "/x", "--snippet", "none")).exit_code == 0
    file.write_text(file.read_text().replace(SECRET_KEY, "${UNSET_HERE}"))
    result = await try_command("tracker", "c1", "/x")
    assert result.exit_code == 1
    assert "GATEWAY_SECRET_KEY" in result.stderr
    assert (await try_command("tracker", "c1", "/x", "-c", str(file), "--key", SECRET_KEY)).exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("tracker", "c1", "/x"), ("tracker", "c1", "/x", "--dry-run")])
async def test_other_server_is_reported_as_not_a_gateway(try_command: Try, arguments: tuple[str, ...]) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Welcome</html>", content_type="text/html", status=404 if not arguments else 200)

    async with responding(page) as server:
        url = f"http://127.0.0.1:{server.port}"
        result = await try_command(*arguments, "--url", url, "--key", "k" * 16)
    assert result.exit_code == 1
    assert f"the server at {url} is not a gateway" in result.stderr
    assert "--url" in result.stderr
    assert "html" not in result.output


@pytest.mark.parametrize("url", ["127.0.0.1:3003", "http://127.0.0.1:99999", "ftp://gw"])
async def test_invalid_gateway_url_is_reported(try_command: Try, url: str) -> None:
    result = await try_command("--url", url, "--key", "k" * 16)
    assert (result.exit_code, f"'{url}' is not the URL of a gateway" in result.stderr) == (1, True)


async def test_secret_key_with_a_line_break_is_reported(try_command: Try) -> None:
    result = await try_command("--url", "http://127.0.0.1:9", "--key", "sk-0123456789abcdef\n")
    assert (result.exit_code, "secret_key ends with a line break" in result.stderr) == (1, True)


def test_in_a_pipe_the_json_comes_before_the_lines_on_stderr(unused_tcp_port: int) -> None:
    command = [sys.executable, "-m", "gateway", "try", "--url", f"http://127.0.0.1:{unused_tcp_port}", "--key", "k"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run(
        [*command, "--json", "jira", "c1", "/x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**environ, "PYTHONPATH": str(ROOT)},
    )
    _, end = json.JSONDecoder().raw_decode(ran.stdout)
    assert ran.stdout[end:].startswith("\ngateway: no gateway responds at ")
