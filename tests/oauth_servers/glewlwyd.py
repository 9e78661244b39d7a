"""Debian `glewlwyd`: JWT access tokens, one-time refresh tokens, replays end the chain, and refusals have no body.

Its pages are scripts, so the end user's steps are played as the requests that those scripts make.
"""

import asyncio
import gzip
import os
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, urlsplit

import aiohttp
import pytest
from yarl import URL

from gateway.sandbox.visitor import VisitedPage
from tests.fakes import installed
from tests.fakes.ports import free_port
from tests.oauth_servers.pages import open_page
from tests.oauth_servers.server import CLIENT_ID, CLIENT_SECRET, PASSWORD, USER, running_process

# With libraries that a Debian system rarely has. apt takes the release's version of them.
PACKAGES = (
    "glewlwyd=2.7.5-3+deb12u1",
    "glewlwyd-common=2.7.5-3+deb12u1",
    *("libcbor0.8", "libconfig9", "libhoel1.4", "libiddawc1.1", "libjansson4", "libldap-2.5-0", "libmariadb3"),
    *("libmicrohttpd12", "liboath0", "liborcania2.3", "libpq5", "librhonabwy1.1", "libulfius2.7", "libyder2.0"),
)
ADMIN = {"username": "admin", "password": "password"}  # of the package's initial database
SCOPE = "openid"
CONFIGURATION = """
port={port}
bind_address="127.0.0.1"
external_url="http://127.0.0.1:{port}"
login_url="login.html"
api_prefix="api"
static_files_path="{root}/usr/share/glewlwyd/webapp/"
log_mode="console"
log_level="WARNING"
cookie_domain="127.0.0.1"
cookie_secure=0
session_key="GLEWLWYD2_SESSION_ID"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="{root}/usr/lib/glewlwyd/user"
user_middleware_module_path="{folder}/none"
client_module_path="{root}/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="{root}/usr/lib/glewlwyd/scheme"
plugin_module_path="{root}/usr/lib/glewlwyd/plugin"
use_secure_connection=false
secure_connection_key_file="none"
secure_connection_pem_file="none"
hash_algorithm="SHA512"
database = {{ type = "sqlite3" path = "{folder}/glewlwyd.db"; }};
"""


@dataclass
class Glewlwyd:
    url: str
    name: ClassVar = "glewlwyd"
    refresh: ClassVar = "rotates, reuse ends the grant"
    refresh_outlives_access: ClassVar = True
    refusal_names_reason: ClassVar = False

    @property
    def api(self) -> str:
        return f"{self.url}/api"

    @property
    def token_url(self) -> str:
        return f"{self.api}/oidc/token"

    def entry(self) -> Mapping[str, Any]:
        return {
            "authorization_url": f"{self.api}/oidc/auth",
            "token_request_auth_method": "body",  # glewlwyd does not decode Basic credentials
            "refresh": {"rotating": True},
        }

    def integration(self) -> Mapping[str, Any]:
        return {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scopes": [SCOPE]}

    async def authorize(self, browser: aiohttp.ClientSession, url: str) -> VisitedPage:
        page = await open_page(browser, url)
        assert urlsplit(page.url).path == "/login.html", page.url
        (callback,) = parse_qs(urlsplit(page.url).query)["callback_url"]
        await _sent(browser, "POST", f"{self.api}/auth/", {"username": USER, "password": PASSWORD})
        await _sent(browser, "PUT", f"{self.api}/auth/grant/{quote(CLIENT_ID)}", {"scope": SCOPE})
        return await open_page(browser, f"{callback}&g_continue")

    async def user_of(self, http: aiohttp.ClientSession, access_token: str) -> str | None:
        headers = {"Authorization": aiohttp.encode_basic_auth(CLIENT_ID, CLIENT_SECRET)}
        form = {"token": access_token}
        async with http.post(f"{self.api}/oidc/introspect", data=form, headers=headers) as response:
            assert response.status == 200, await response.text()
            found = await response.json()
            return str(found["username"]) if found["active"] else None

    async def withdraw(self, browser: aiohttp.ClientSession, refresh_token: str | None) -> None:
        """Do what the script of the profile page does: disable the refresh tokens. Access tokens stay valid until they
        expire.
        """
        async with browser.get(f"{self.api}/oidc/token/") as response:
            tokens = await response.json()
        for token in tokens:
            if token["enabled"]:
                await _sent(browser, "DELETE", f"{self.api}/oidc/token/{quote(token['token_hash'], safe='')}")


async def _sent(http: aiohttp.ClientSession, method: str, url: str, body: Mapping[str, Any] | None = None) -> None:
    async with http.request(method, URL(url, encoded=True), json=body) as response:
        assert response.status == 200, (url, response.status, await response.text())


async def _configure(url: str, redirect_uri: str, ttl_s: int) -> None:
    """Create an OpenID plugin, a user and a client, as an administrator does."""
    plugin = {
        "module": "oidc",
        "name": "oidc",
        "display_name": "OIDC",
        "parameters": {
            "iss": f"{url}/api/oidc",
            "jwt-type": "sha",
            "jwt-key-size": "256",
            "key": "only-for-tests-" + "x" * 40,
            "access-token-duration": ttl_s,
            "refresh-token-duration": 3600,
            "code-duration": 600,
            "refresh-token-rolling": True,
            "refresh-token-one-use": "always",
            "auth-type-code-enabled": True,
            "auth-type-code-revoke-replayed": True,
            "auth-type-refresh-enabled": True,
            **{f"auth-type-{name}-enabled": False for name in ("token", "none", "password", "client", "device")},
            "pkce-allowed": True,
            "pkce-method-plain-allowed": False,
            "pkce-required": True,
            "introspection-revocation-allowed": True,
            "introspection-revocation-allow-target-client": True,
        },
    }
    user = {
        "username": USER,
        "password": PASSWORD,
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "scope": ["g_profile", SCOPE],
        "enabled": True,
    }
    client = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "name": "The gateway under test",
        "redirect_uri": [redirect_uri],
        "authorization_type": ["code", "refresh_token"],
        "token_endpoint_auth_method": ["client_secret_basic", "client_secret_post"],
        "confidential": True,
        "scope": [SCOPE],
        "enabled": True,
    }
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        await _sent(http, "POST", f"{url}/api/auth/", ADMIN)
        for path, body in (("mod/plugin/", plugin), ("user/", user), ("client/", client)):
            await _sent(http, "POST", f"{url}/api/{path}", body)


@asynccontextmanager
async def start(folder: Path, redirect_uri: str, ttl_s: int) -> AsyncIterator[Glewlwyd]:
    root = await asyncio.to_thread(installed.debian, "glewlwyd", PACKAGES)
    schema = gzip.decompress((root / "usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz").read_bytes()).decode()
    with closing(sqlite3.connect(folder / "glewlwyd.db")) as database:
        database.executescript(schema)
    (folder / "none").mkdir()
    (folder / "glewlwyd.conf").write_text(CONFIGURATION.format(port=(port := free_port()), root=root, folder=folder))
    environ = {"LD_LIBRARY_PATH": ":".join(str(path) for path in (root / "usr/lib").glob("*-linux-gnu*"))}
    program = root / "usr/bin/glewlwyd"
    missing = await _missing_libraries(program, environ)
    if missing:
        pytest.skip(f"glewlwyd cannot run here, these libraries are missing: {missing}")
    url = f"http://127.0.0.1:{port}"
    async with running_process([program, f"--config-file={folder}/glewlwyd.conf"], folder, environ) as child:
        await child.wait_until_ready(f"{url}/login.html")
        await _configure(url, redirect_uri, ttl_s)
        yield Glewlwyd(url)


async def _missing_libraries(program: Path, environ: Mapping[str, str]) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        "ldd", str(program), stdout=asyncio.subprocess.PIPE, env={"PATH": os.environ["PATH"], **environ}
    )
    output, _ = await process.communicate()
    return [line.split()[0] for line in output.decode().splitlines() if "not found" in line]
