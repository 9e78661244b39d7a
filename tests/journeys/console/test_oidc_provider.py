"""Console sign-in with npm `oidc-provider`, including the login and consent pages of this provider."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.config.model import ConsoleConfig, ConsoleOidcConfig
from gateway.secret import Secret
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.tracker import Tracker
from tests.oauth_servers import oidc_provider
from tests.oauth_servers.server import CLIENT_ID, CLIENT_SECRET, USER


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    found = RunningGateway(tmp_path, document(["127.0.0.1/32"]))
    await found.start()
    yield found
    await found.stop()


@pytest.mark.parametrize(
    ("operators", "viewers", "status"), [("platform", "x", 200), ("x", "platform", 200), ("x", "y", 403)]
)
async def test_an_operator_signs_in_by_a_certified_provider(
    running: RunningGateway, tmp_path: Path, operators: str, viewers: str, status: int
) -> None:
    folder = tmp_path / "provider"
    folder.mkdir()
    async with oidc_provider.start(folder, f"{running.url}/console/callback", 60) as provider:
        oidc = ConsoleOidcConfig(provider.url, CLIENT_ID, Secret(CLIENT_SECRET), ("openid", "groups"))
        running.configure(console=ConsoleConfig(True, 12, (operators,), (viewers,), oidc))
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            page = await provider.authorize(browser, f"{running.url}/console/sign-in/oidc")
            assert page.url.startswith(f"{running.url}/console/")
            async with browser.get(f"{running.url}/console/dev") as response:
                text = await response.text()
                assert response.status == (200 if status == 200 else 401)
            if status == 200:
                assert USER in text
                assert ("(viewer)" in text) == (viewers == "platform")
