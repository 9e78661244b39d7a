"""Vendors' own SDKs through the gateway, configured as docs/sdks.md says. Nothing of the gateway reaches the vendors.

`make sdks` runs all of them. The suite runs those of SHORT, since each is a process and some start slowly.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from gateway.app.routes import ROUTES
from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, write_entry
from tests.fakes.vendors import VENDORS, Vendor
from tests.fakes.vendors.jira import CLOUD
from tests.sdks import environments
from tests.sdks.snippets import NAMES, WAYS, snippet

ALL = os.environ.get("GATEWAY_SDKS") == "all"
SHORT = {"httpx", "requests", "slack-python"}
SHORT_PINS = ("httpx", "requests", "slack_sdk")
CAPABILITIES = any(path.startswith("/c/") for _, path, _ in ROUTES)
DUMMY = "unused"
LIMIT_S = 60
EXERCISES = Path(__file__).parent / "exercises"
# The vendor of an SDK, if its name does not say so.
VENDOR = {"pygithub": "github", "octokit": "github", "atlassian": "jira", "httpx": "github", "requests": "github"}
OUR_HEADERS = re.compile(
    r"(?im)^(provider-config-key|connection-id|base-url-override|decompress|retries|retry-on|nango-|gateway-)"
)


@dataclass
class SdkGateway:
    """A gateway with a connection ``u1`` to each vendor."""

    gateway: RunningGateway
    vendors: Mapping[str, Vendor]

    async def capability(self, integration: str) -> str:
        """Return a capability for the connection of `integration`."""
        body = {"display_name": "sdks", "kind": "capability", "limits": {"connections": [f"{integration}/u1"]}}
        response = await self.gateway.json("POST", "/environment/api-keys", json=body, expect=200)
        return str(response["data"]["secret"])


@pytest.fixture
async def sdk_gateway(tmp_path: Path) -> AsyncIterator[SdkGateway]:
    async with AsyncExitStack() as stack:
        vendors = {kind.name: kind() for kind in VENDORS}
        for vendor in vendors.values():
            await vendor.start()
            stack.push_async_callback(vendor.stop)
            write_entry(tmp_path, vendor.name, {"alias": vendor.name, "proxy": {"base_url": vendor.base_url}})
        granted = {"client_id": "client", "client_secret": "client-secret-0123456789"}
        integrations = {
            name: {"provider": name, **(granted if vendor.credentials["type"] == "OAUTH2" else {})}
            for name, vendor in vendors.items()
        }
        configuration = document(["127.0.0.0/8"])
        configuration["environments"]["dev"] |= {"integrations": integrations, "connect_links_in_errors": True}
        gateway = RunningGateway(tmp_path, configuration)
        await gateway.start()
        stack.push_async_callback(gateway.stop)
        for name, vendor in vendors.items():
            body = {"provider_config_key": name, "connection_id": "u1", "credentials": dict(vendor.credentials)}
            await gateway.json("POST", "/connections", json=body, expect=201)
            vendor.seen.clear()
        yield SdkGateway(gateway, vendors)


def cases() -> Iterator[ParameterSet]:
    for name in NAMES:
        for access in WAYS:
            marks = []
            if access == "capability" and not CAPABILITIES:
                marks.append(pytest.mark.skip("this gateway has no capability URLs yet"))
            elif not ALL and name not in SHORT:
                marks.append(pytest.mark.skip("too slow for every run; `make sdks` runs it"))
            yield pytest.param(name, access, id=f"{name}-{access}", marks=marks)


@pytest.mark.parametrize(("name", "way"), list(cases()))
async def test_an_sdk_works_as_the_page_says_and_sends_no_gateway_key_or_header_to_the_provider(
    sdk_gateway: SdkGateway, tmp_path: Path, name: str, way: str
) -> None:
    vendor = sdk_gateway.vendors[VENDOR.get(name, name.partition("-")[0])]
    capability = await sdk_gateway.capability(vendor.name) if way == "capability" else ""
    language, text = snippet(name, way)
    filled = text.replace("http://127.0.0.1:3003", sdk_gateway.gateway.url).replace("<CAPABILITY>", capability)
    filled = filled.replace("<CONNECTION_ID>", "u1").replace("<CLOUD_ID>", CLOUD)
    for real in ("https://api.github.com", "https://api.atlassian.com"):
        filled = filled.replace(real, vendor.origin)
    assert SECRET_KEY not in filled
    await (run_python if language == "python" else run_node)(filled, name, tmp_path)
    assert_nothing_leaked(sdk_gateway.vendors, [SECRET_KEY, *([capability] if capability else [])])
    assert len(vendor.seen) >= 3


async def run_python(text: str, name: str, folder: Path) -> None:
    exercise = (EXERCISES / f"{name.replace('-', '_')}.py").read_text()
    (folder / "sdk_main.py").write_text(f"{text}\n{exercise}\nprint('done')\n")
    interpreter = await asyncio.to_thread(environments.python, None if ALL else SHORT_PINS)
    await run([str(interpreter), "-W", "error::DeprecationWarning:sdk_main", "sdk_main.py"], folder)


async def run_node(text: str, name: str, folder: Path) -> None:
    exercise = (EXERCISES / f"{name.replace('-', '_')}.mjs").read_text()
    imports = 'import assert from "node:assert/strict";'
    (folder / "main.mjs").write_text(f"{imports}\n{text}\n{exercise}\nconsole.log('done');\n")
    (folder / "node_modules").symlink_to(await asyncio.to_thread(environments.node_modules))
    await run(["node", "main.mjs"], folder)


async def run(command: list[str], folder: Path) -> None:
    """Run the command to its end and check that it succeeds. The SDKs get no keys and no proxies of this machine."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**environ, "GATEWAY_SECRET_KEY": SECRET_KEY, "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    printed = output.decode(errors="replace")
    assert (process.returncode, printed.splitlines()[-1:]) == (0, ["done"]), printed


def assert_nothing_leaked(vendors: Mapping[str, Vendor], secrets: list[str]) -> None:
    """Assert that the right credential arrived in its one place, and none of the gateway's own headers and keys."""
    for vendor in vendors.values():
        for seen in vendor.seen:
            presigned = vendor.presigned is not None and seen.target.startswith(vendor.presigned)
            for secret in secrets:
                assert secret not in seen.text, f"{vendor.name} received the gateway's key: {seen.method} {seen.target}"
            assert OUR_HEADERS.search(seen.text.partition("\n\n")[0]) is None, seen.text
            if not presigned:  # an SDK may send its dummy credential to other URLs
                assert seen.all(vendor.slot[0]) == [vendor.slot[1]], f"{vendor.name}: {seen.method} {seen.target}"
                credentials = [*seen.all("authorization"), *seen.all("x-api-key")]
                assert credentials == [vendor.slot[1]], f"{vendor.name}: {credentials}"
                assert DUMMY not in seen.text.casefold(), seen.text


def test_the_leak_check_finds_each_leak() -> None:
    from tests.fakes.vendors.openai import OpenAI
    from tests.fakes.vendors.vendor import SeenRequest

    right = OpenAI.slot
    leaks = [
        (("x", "y"), right, ("X-Copy", SECRET_KEY)),
        (right, ("Connection-Id", "u1")),
        (right, ("Nango-Proxy-X", "1")),
        (right, right),
        (right, ("X-Api-Key", DUMMY)),
        (("authorization", f"Bearer {DUMMY}"),),
        (),
    ]
    for headers in leaks:
        vendor = OpenAI()
        vendor.seen = [SeenRequest("GET", "/v1/models", headers, b"")]
        with pytest.raises(AssertionError):
            assert_nothing_leaked({"openai": vendor}, [SECRET_KEY])
    for target, body in (("/v1/models?key=" + SECRET_KEY, b""), ("/v1/models", SECRET_KEY.encode())):
        vendor = OpenAI()
        vendor.seen = [SeenRequest("POST", target, (right,), body)]
        with pytest.raises(AssertionError, match="received the gateway's key"):
            assert_nothing_leaked({"openai": vendor}, [SECRET_KEY])
    vendor = OpenAI()
    vendor.seen = [SeenRequest("POST", "/v1/models", (right,), b"{}")]
    assert_nothing_leaked({"openai": vendor}, [SECRET_KEY])


def test_every_sdk_of_the_page_has_an_exercise_through_proxy_and_capability() -> None:
    assert {path.stem for path in EXERCISES.iterdir() if path.suffix in (".py", ".mjs")} == {
        name.replace("-", "_") for name in NAMES
    }
    for name in NAMES:
        for access, mark in zip(WAYS, ("/proxy", "/c/<CAPABILITY>"), strict=True):
            text = snippet(name, access)[1]
            assert mark in text
            assert ("GATEWAY_SECRET_KEY" in text) is (access == "headers")
            assert ("Connection-Id" in text) is (access == "headers")
