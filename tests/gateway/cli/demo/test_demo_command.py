"""The output of `gateway demo`, and its error messages."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.demo.demo_command import banner, demo
from gateway.cli.demo.demo_run import DemoReady

READY = DemoReady(
    url="http://127.0.0.1:3003",
    secret_key="gw_sk_x",
    provider_config_key="sandbox",
    connection_id="c-1",
    connect_link="http://127.0.0.1:3003/connect?session_token=" + "t" * 300,
    curl="curl -H 'Authorization: Bearer gw_sk_x' " + "x" * 300,
    console_link="http://127.0.0.1:3003/console/sign-in?link=" + "l" * 43,
    mcp_add="claude mcp add " + "y" * 300,
)


def test_curl_command_and_link_are_printed_on_their_own_lines() -> None:
    lines = banner(READY, Path(".gateway")).splitlines()
    assert READY.curl in lines
    assert READY.connect_link in lines
    assert READY.console_link in lines
    assert "Open the console" not in banner(replace(READY, console_link=""), Path(".gateway"))
    assert READY.mcp_add in lines


@pytest.mark.parametrize(("state", "file"), [(".gateway", ".gateway/gateway.yaml"), ("a b", "'a b/gateway.yaml'")])
def test_the_printed_console_command_names_the_configuration_of_the_demo(state: str, file: str) -> None:
    assert f"console -c {file}`" in banner(READY, Path(state))


def test_a_busy_port_is_one_line_that_names_the_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        for flag, other in (("--port", "--sandbox-port"), ("--sandbox-port", "--port")):
            arguments = [flag, port, other, "0", "--state", str(tmp_path / "state"), "--json"]
            result = CliRunner().invoke(demo, arguments)
            assert result.exit_code == 1
            assert result.stderr.splitlines() == [
                f"Error: port {port} is in use; choose another port with {flag} (0 picks a free port)"
            ]
            assert result.stdout == ""


def test_one_port_cannot_serve_both(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo, ["--port", "4444", "--sandbox-port", "4444", "--state", str(tmp_path)])
    assert result.exit_code == 1
    assert "must differ" in result.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_an_invalid_port_is_a_usage_error(port: str) -> None:
    assert CliRunner().invoke(demo, ["--port", port]).exit_code == 2


def test_help_is_printed_without_heavy_imports() -> None:
    result = CliRunner().invoke(demo, ["--help"])
    assert result.exit_code == 0
    for option in ("--port", "--sandbox-port", "--state", "--json"):
        assert option in result.output


def test_the_json_line_has_the_promised_names() -> None:
    import dataclasses

    assert list(json.loads(json.dumps(dataclasses.asdict(READY)))) == [
        "url",
        "secret_key",
        "provider_config_key",
        "connection_id",
        "connect_link",
        "curl",
        "console_link",
        "mcp_add",
    ]
