"""The Django OAuth server works as the journeys expect: PKCE, rotation, revocation on reuse, 403 for expired tokens."""

import base64
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sandbox.visitor import browser
from tests.fakes.django_idp import DjangoIdp, serving, walk_consent

VERIFIER = "v" * 50


async def test_tokens_expire_rotate_and_are_revoked_on_reuse(tmp_path: Path) -> None:
    async with TestServer(_callback()) as callback, browser() as session:
        redirect_uri = str(callback.make_url("/oauth/callback"))
        async with serving(tmp_path, redirect_uri) as idp:
            page = await walk_consent(session, _authorize_url(idp, redirect_uri))
            assert page.status == 200
            returned = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
            assert returned["state"] == "abc"
            assert returned["iss"].startswith(idp.url)

            form = {"grant_type": "authorization_code", "code": returned["code"], "redirect_uri": redirect_uri}
            status, first = await _token(session, idp, form | {"code_verifier": VERIFIER})
            assert (status, first["expires_in"]) == (200, 3)
            headers = {"Authorization": f"Bearer {first['access_token']}"}
            async with session.get(f"{idp.url}/api/whoami", headers=headers) as response:
                assert (await response.json())["user"] == idp.username
            await idp.wait_until_dead(session, first["access_token"])

            renew = {"grant_type": "refresh_token"}
            status, second = await _token(session, idp, renew | {"refresh_token": first["refresh_token"]})
            assert status == 200
            for token in (first["refresh_token"], second["refresh_token"]):
                status, refusal = await _token(session, idp, renew | {"refresh_token": token})
                assert (status, refusal["error"]) == (400, "invalid_grant")
            assert await idp.token_requests(session) == {"authorization_code": 1, "refresh_token": 3}


async def test_a_user_who_refuses_consent_returns_with_access_denied(tmp_path: Path) -> None:
    async with TestServer(_callback()) as callback, browser() as session:
        redirect_uri = str(callback.make_url("/oauth/callback"))
        async with serving(tmp_path, redirect_uri) as idp:
            page = await walk_consent(session, _authorize_url(idp, redirect_uri), allow=False)
            assert parse_qs(urlsplit(page.url).query)["error"] == ["access_denied"]


def _callback() -> web.Application:
    async def callback(_request: web.Request) -> web.Response:
        return web.Response(text="back")

    app = web.Application()
    app.router.add_get("/oauth/callback", callback)
    return app


def _authorize_url(idp: DjangoIdp, redirect_uri: str) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": idp.client_id,
        "redirect_uri": redirect_uri,
        "scope": "read",
        "state": "abc",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{idp.url}/o/authorize/?{urlencode(query)}"


async def _token(session: aiohttp.ClientSession, idp: DjangoIdp, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    sent = {"client_id": idp.client_id, "client_secret": idp.client_secret, **form}
    async with session.post(f"{idp.url}/o/token/", data=sent) as response:
        return response.status, await response.json()
