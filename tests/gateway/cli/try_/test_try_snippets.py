"""The snippets, pasted unchanged, make the same call as the command. They read the key from the environment."""

import ast
import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from gateway.cli.try_.try_snippets import ALL, SentCall, TypedBody
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import PagedGateway
from tests.fakes.patience import PATIENCE_S

# requests and @nangohq/node are not dependencies: tests/sdks installs them and runs their snippets.
COMMANDS = {
    "curl": ("bash", "-c"),
    "python": (sys.executable, "-c"),
    "node": ("node", "--input-type=module", "-e"),
}
BODY = """{"it's": "\\"quoted\\"", "$HOME": "`x`", "ü": "{}"}"""


def sent_call(url: str, **changes: object) -> SentCall:
    usual: dict[str, object] = {"method": "GET", "target": "/a%2Fb?x=%271&y=%20", "headers": {}, "body": None}
    return SentCall(url=url, integration="tracker", connection="c1", **{**usual, **changes})  # type: ignore[arg-type]


async def run(name: str, snippet: str, folder: Path) -> str:
    command = COMMANDS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        *command,
        snippet,
        cwd=folder,
        env={**os.environ, "GATEWAY_SECRET_KEY": SECRET_KEY},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, fault = await process.communicate()
    assert process.returncode == 0, fault.decode()
    return out.decode()


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_snippet_makes_the_same_call(running_target: PagedGateway, tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").write_text(BODY)
    for body in (None, TypedBody(BODY.encode()), TypedBody(BODY.encode(), "a file")):
        method = "GET" if body is None else "PATCH"
        headers = {"X-Mine": "a 'b' \"c\" $d"} | ({} if body is None else {"Content-Type": "application/json"})
        call = sent_call(running_target.gateway.url, method=method, headers=headers, body=body)
        snippet = ALL[name][1](call)
        assert SECRET_KEY not in snippet
        printed = await run(name, snippet, tmp_path)
        response = json.loads(printed[printed.index("{") :])
        arrived = response["body"].encode("latin-1").decode()
        assert (response["method"], response["target"]) == (method, "/v1/a%2Fb?x=%271&y=%20")
        assert (response["mine"], arrived) == (headers["X-Mine"], BODY if body else "")


@pytest.mark.parametrize("name", ALL)
def test_no_snippet_contains_the_key(name: str) -> None:
    for method in ("GET", "HEAD", "REPORT"):
        written = ALL[name][1](sent_call("http://gw", method=method))
        assert "GATEWAY_SECRET_KEY" in written
        assert method in written or method.lower() in written or name == "curl"


@pytest.mark.parametrize("name", ["python", "requests"])
def test_python_snippets_are_valid_and_contain_the_exact_target(name: str) -> None:
    for body in (None, TypedBody(b"\xff\x00"), TypedBody(b"x", 'a "file"')):
        for target in ("/x", "/'\"\\"):
            tree = ast.parse(ALL[name][1](sent_call("http://gw", target=target, body=body)))
            compile(tree, name, "exec")
            texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
            assert texts & {target, f"http://gw/proxy{target}"}, texts
