"""The snippets of docs/client.md run unchanged with a gateway in front of the sandbox."""

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from inspect import signature
from pathlib import Path

import pytest
import yaml

from gateway import client, resources
from gateway.client.calls import Options
from gateway.sandbox.app import running
from gateway.sandbox.visitor import browser
from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, tracker_entry, write_entry
from tests.gateway.sandbox.conftest import CLIENT, SECRET, Application

PAGE = (Path(__file__).parents[3] / "docs" / "client.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
async def gateway_url(tmp_path: Path) -> AsyncIterator[str]:
    """A gateway whose connection `u1` was authorized at the sandbox."""
    async with running([CLIENT]) as sandbox, browser() as session:
        shipped = (resources.folder("catalog") / "sandbox.yaml").read_text()
        entry = yaml.safe_load(shipped.replace("http://127.0.0.1:3004", sandbox.issuer))
        write_entry(tmp_path, "sandbox", entry)
        write_entry(tmp_path, "tracker", tracker_entry(sandbox.issuer))
        integration = {"provider": "sandbox", "client_id": CLIENT.client_id, "client_secret": SECRET}
        gateway = RunningGateway(tmp_path, document(["127.0.0.0/8"], sandbox=integration))
        await gateway.start()
        tokens = await Application(sandbox.issuer, session).connect()
        credentials = {
            "type": "OAUTH2",
            **{name: tokens[name] for name in ("access_token", "refresh_token", "expires_in")},
        }
        body = {"provider_config_key": "sandbox", "connection_id": "u1", "credentials": credentials}
        await gateway.json("POST", "/connections", json=body, expect=201)
        yield gateway.url
        await gateway.stop()


def run(snippet: str, url: str) -> str:
    """Run the snippet with its placeholders filled in, and return what it prints."""
    for placeholder, value in (
        ("http://127.0.0.1:3003", url),
        ("<SECRET_KEY>", SECRET_KEY),
        ("<CONNECTION_ID>", "u1"),
    ):
        snippet = snippet.replace(placeholder, value)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet, "docs/client.md", "exec"), {"__name__": "snippet"})
    return printed.getvalue()


EXPECTED = [
    ("https://globex.sandbox.example", 2),
    ("https://globex.sandbox.example", 2),
    ('"number": 2', 3),
    ("250 Record 250", 250),
    ("130 True", 2),
    ("OAUTH2", 1),
    ("u1 active", 2),
    ("send user-7", 1),
    ("start again", 1),
    ("connect first:", 1),
]


@pytest.mark.parametrize("index", range(len(SNIPPETS)))
async def test_each_snippet_runs_unchanged(
    index: int, gateway_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    last, lines = EXPECTED[index]
    printed = (await asyncio.to_thread(run, SNIPPETS[index], gateway_url)).splitlines()
    assert len(printed) == lines
    assert last in printed[-1]
    if (tmp_path / "download").exists():
        assert (tmp_path / "download").stat().st_size == 300_000


def test_every_snippet_is_tested() -> None:
    assert len(SNIPPETS) == len(EXPECTED)


def test_page_documents_every_option_and_every_error() -> None:
    options = [*Options.__annotations__, *signature(client.AsyncClient.paginate).parameters]
    faults = [
        name for name in client.__all__ if isinstance(one := getattr(client, name), type) and issubclass(one, Exception)
    ]
    result = [name for name in (*options, *faults) if name not in ("self", "endpoint", "options")]
    assert [name for name in result if f"`{name}`" not in PAGE] == []


def test_page_documents_every_method() -> None:
    methods = [name for name in dir(client.AsyncClient) if not name.startswith("_") and name != "close"]
    assert [name for name in methods if f"`{name}" not in PAGE] == []


def test_both_clients_have_the_same_methods() -> None:
    assert {name for name in dir(client.AsyncClient) if not name.startswith("_")} == {
        name for name in dir(client.Client) if not name.startswith("_")
    }
