"""`console.port`: the console is served only on its own listener, and the public listener does not serve it."""

from pathlib import Path
from typing import Any

import aiohttp

from tests.fakes.commands import command_output
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.processes import Files, serving


async def fetch(http: aiohttp.ClientSession, url: str, method: str = "GET", **options: Any) -> tuple[int, str, str]:
    """Return status, text and redirect target."""
    async with http.request(method, url, allow_redirects=False, **options) as response:
        return response.status, await response.text(), response.headers.get("Location", "")


async def test_the_console_responds_on_its_own_port_and_nothing_else_does(tmp_path: Path) -> None:
    files = Files(tmp_path, 9, workers=2)
    files.document["console"] = {"enabled": True, "port": 0}
    files.write()
    async with serving(files) as gateway, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        url = (await gateway.logged("ready"))[0]["console"].removesuffix("/console")
        public = f"http://127.0.0.1:{gateway.port}"
        assert url != public
        printed = await command_output("console", "-c", str(files.path))
        link = printed.out.strip().partition("link=")[2]

        for path in ("/console", "/console/sign-in", "/console/dev", "/console/assets/console.css"):
            status, text, _ = await fetch(http, f"{public}{path}")
            assert (status, "No such endpoint" in text) == (404, True), path
        status, _, _ = await fetch(http, f"{public}/console/sign-in", "POST", data={"link": link})
        assert status == 404

        authorization = {"Authorization": f"Bearer {SECRET_KEY}", "Provider-Config-Key": "up", "Connection-Id": "c1"}
        for path in (
            "/health",
            "/connections",
            "/proxy/x",
            "/connect",
            "/docs",
            "/consolex",
            "/console/../connections",
        ):
            status, text, _ = await fetch(http, f"{url}{path}", headers=authorization)
            assert status == 404, path
        status, text, _ = await fetch(http, f"{url}/connections", "POST", headers=authorization, json={})
        assert (status, "This port serves only the console" in text) == (404, True)

        assert await fetch(http, f"{url}/") == (303, "", "console")
        status, _, place = await fetch(
            http, f"{url}/console/sign-in", "POST", data={"link": link}, headers={"Origin": url}
        )
        assert (status, place) == (303, f"{url}/console")
        status, text, _ = await fetch(http, f"{url}/console/dev/calls")
        assert status == 200
        assert f"{url}/console/assets/console.css" in text
        assert public not in text
        status, text, _ = await fetch(http, f"{url}/console/logos/up.svg")
        assert (status, "<svg" in text) == (200, True)
        status, text, _ = await fetch(http, f"{public}/", headers={"Accept": "text/html"})
        assert f'href="{url}/console"' in text
