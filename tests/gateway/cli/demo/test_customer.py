"""The demo connects through the real pages, and authorizes its connection again, or replaces it, when it does not
work."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_aiohttp.plugin import AiohttpServer

from gateway.cli.demo import DemoFailed, customer
from gateway.cli.demo.customer import Customer
from gateway.cli.demo.demo_folder import DemoFolder
from gateway.cli.demo.demo_run import NEW_AGENT_KEY
from gateway.cli.demo.demo_run import _connect_demo_user as connect_demo_user
from gateway.sandbox.accounts import ACME
from gateway.sandbox.app import running
from gateway.sandbox.state import SandboxClient
from gateway.secret import Secret
from tests.gateway.cli.demo.gateway_double import CLIENT, KEY, GatewayDouble


@pytest.fixture
async def gateway(aiohttp_server: AiohttpServer) -> AsyncIterator[GatewayDouble]:
    double = GatewayDouble()
    server = await aiohttp_server(double.app())
    double.url = str(server.make_url("")).rstrip("/")
    async with running([SandboxClient.register(*CLIENT, double.callback_url)]) as sandbox:
        double.sandbox_url = sandbox.issuer
        yield double


@pytest.fixture
async def caller(gateway: GatewayDouble) -> AsyncIterator[Customer]:
    async with customer.session() as http:
        yield Customer(http, gateway.url, Secret(KEY))


async def test_the_first_start_connects_and_the_next_uses_that_connection(
    gateway: GatewayDouble, caller: Customer
) -> None:
    made = await caller.connection()
    assert made.path == f"/ex/sandbox/{ACME}/rest/api/3/search?maxResults=2"
    gateway.log.clear()
    assert await caller.connection() == made
    assert not [line for line in gateway.log if "connect/" in line]


async def test_a_connection_whose_grant_has_ended_is_authorized_again(gateway: GatewayDouble, caller: Customer) -> None:
    old = await caller.connection()
    gateway.dead.add(old.connection_id)
    assert await caller.connection() == old
    assert list(gateway.tokens) == [old.connection_id]


async def test_a_lost_connection_is_replaced(gateway: GatewayDouble, caller: Customer) -> None:
    old = await caller.connection()
    gateway.lost.add(old.connection_id)
    new = await caller.connection()
    assert new.connection_id != old.connection_id
    assert list(gateway.tokens) == [new.connection_id]


async def test_printed_curl_command_works(gateway: GatewayDouble, caller: Customer) -> None:
    line = caller.curl(await caller.connection())
    assert line.startswith("curl ")
    assert "\n" not in line
    words = shlex.split(line)
    process = await asyncio.create_subprocess_exec(*words, "-s", stdout=asyncio.subprocess.PIPE)
    response, _ = await process.communicate()
    assert process.returncode == 0
    assert b'"ACME-57"' in response


async def test_the_key_of_the_demos_agent_is_kept_while_it_is_for_the_connection(
    gateway: GatewayDouble, caller: Customer
) -> None:
    connected = await caller.connection()
    first = await caller.agent_key(connected, Secret(""))
    assert await caller.agent_key(connected, first) == first
    line = caller.mcp_add(first)
    assert shlex.split(line)[-3:] == [f"{gateway.url}/mcp", "--header", "Authorization: Bearer gw_sk_agent1"]
    lost = await caller.agent_key(connected, Secret(""))
    assert lost.reveal() == "gw_sk_agent2"
    again = await caller.agent_key(replace(connected, connection_id="another"), lost)
    assert again.reveal() == "gw_sk_agent3"
    assert list(gateway.minted) == ["demo agent"], "each key replaces the previous key"


async def test_a_new_key_of_the_agent_is_reported(
    gateway: GatewayDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DemoFolder(tmp_path)
    with folder.lock():
        (tmp_path / "secret_key").write_text(KEY)
        for ended, reported in (("", False), ("", False), ("dead", False), ("lost", True), ("", False)):
            getattr(gateway, ended, set()).update(gateway.tokens)
            ready = await connect_demo_user(gateway.url, folder)
            assert folder.agent_key().reveal() in ready.mcp_add
            assert (NEW_AGENT_KEY in capsys.readouterr().err) == reported


async def test_a_wrong_key_is_reported_with_the_response(gateway: GatewayDouble) -> None:
    async with customer.session() as http:
        with pytest.raises(DemoFailed, match=r"GET /connections returned 401: .*unknown_account"):
            await Customer(http, gateway.url, Secret("another-key-0123456")).connection()


async def test_unreachable_gateway_is_reported() -> None:
    async with customer.session() as http:
        with pytest.raises(DemoFailed, match="GET /connections failed"):
            await Customer(http, "http://127.0.0.1:9", Secret(KEY)).connection()


async def test_a_flow_that_ends_elsewhere_is_reported_in_the_words_of_its_page(
    gateway: GatewayDouble, caller: Customer
) -> None:
    gateway.url += "/somewhere-else"
    with pytest.raises(DemoFailed, match=r"ended at http://.*/oauth/authorize with 400: .*not a redirect URI"):
        await caller.connection()
