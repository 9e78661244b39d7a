"""OAUTH2_CC: the end user enters a client of their own, and the gateway exchanges it for tokens (RFC 6749 §4.4)."""

import base64
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.journeys.modes.conftest import FakeProvider, import_connection, read

CLIENT = {"type": "OAUTH2_CC", "client_id": "its client", "client_secret": "its:secret"}


class Issuer:
    """Issues numbered tokens to an authenticated client. The API accepts only the newest token."""

    def __init__(self, fake_provider: FakeProvider, ttl_s: int | None = 3600) -> None:
        self.asked: list[dict[str, str]] = []
        self.ttl_s = ttl_s
        self.proofs: list[str] = []
        fake_provider.on("/token", self.token)
        fake_provider.on("/api", self.api)

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(text) for name, text in (await request.post()).items()}
        self.asked.append(form)
        self.proofs.append(request.headers.get("Authorization", ""))
        basic = "Basic " + base64.b64encode(b"its%20client:its%3Asecret").decode()
        if (form.get("client_id"), form.get("client_secret")) != ("its client", "its:secret") and (
            request.headers.get("Authorization") != basic
        ):
            return web.json_response(
                {"error": "invalid_client", "error_description": "no such client its:secret"}, status=401
            )
        response: dict[str, Any] = {"access_token": f"cc-{len(self.asked)}", "token_type": "Bearer"}
        return web.json_response(response | ({"expires_in": self.ttl_s} if self.ttl_s else {}))

    async def api(self, request: web.Request) -> web.Response:
        known = request.headers.get("Authorization") == f"Bearer cc-{len(self.asked)}"
        return web.json_response({"ok": known}, status=200 if known else 401)


async def test_a_client_gets_a_token_and_a_new_one_after_its_expiry(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    issuer = Issuer(fake_provider)
    gateway = await start({"scopes": ["a", "b"]}, auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    imported = await import_connection(gateway, credentials=CLIENT)
    assert imported["credentials"]["token"] == "cc-1"
    assert issuer.asked[0] == {
        "grant_type": "client_credentials",
        "scope": "a b",
        "client_id": "its client",
        "client_secret": "its:secret",
    }
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    advance_clock(3601)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert (await read(gateway))["credentials"]["token"] == "cc-2"
    assert len(issuer.asked) == 2


async def test_the_client_authenticates_by_basic_if_the_entry_says_so(fake_provider: FakeProvider, start: Any) -> None:
    issuer = Issuer(fake_provider)
    gateway = await start(
        auth_mode="OAUTH2_CC",
        token_url=f"{fake_provider.url}/token",
        token_request_auth_method="basic",
        scope_separator=",",
    )
    await import_connection(gateway, credentials=CLIENT, connection_config={"oauth_scopes": "x,y"})
    assert issuer.asked[0] == {"grant_type": "client_credentials", "scope": "x,y"}


async def test_a_wrong_secret_fails_immediately_with_the_providers_words_and_without_the_secret(
    fake_provider: FakeProvider, start: Any
) -> None:
    Issuer(fake_provider)
    gateway = await start(auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    wrong = {**CLIENT, "client_id": "another"}
    response = await import_connection(gateway, credentials=wrong, expect=400)
    assert response["error"]["code"] == "connection_test_failed"
    assert "no such client ***" in response["error"]["message"]
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_if_the_endpoint_is_down_nothing_is_stored_and_the_error_is_a_502(
    fake_provider: FakeProvider, start: Any
) -> None:
    async def down(_: web.Request) -> web.Response:
        return web.Response(status=503)

    fake_provider.on("/token", down)
    gateway = await start(auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    response = await import_connection(gateway, credentials=CLIENT, expect=502)
    assert response["error"]["code"] == "upstream_unreachable"
    assert (await gateway.json("GET", "/connections"))["connections"] == []


async def test_an_imported_token_is_used_until_its_expiry(
    fake_provider: FakeProvider, start: Any, advance_clock: Any
) -> None:
    issuer = Issuer(fake_provider)
    gateway = await start(auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    await import_connection(gateway, credentials={**CLIENT, "token": "brought", "expires_at": "2999-01-01T00:00:00Z"})
    assert issuer.asked == []
    assert (await read(gateway))["credentials"]["token"] == "brought"
    # the provider rejects the token, so the gateway refreshes and sends the request again
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert len(issuer.asked) == 1


@pytest.mark.parametrize("missing", ["client_id", "client_secret"])
async def test_error_names_the_missing_half_of_client_id_and_secret(
    fake_provider: FakeProvider, start: Any, missing: str
) -> None:
    gateway = await start(auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token")
    half = {name: text for name, text in CLIENT.items() if name != missing}
    response = await import_connection(gateway, credentials=half, expect=400)
    assert [issue["path"] for issue in response["error"]["errors"]] == [["credentials", missing]]


async def test_a_client_with_a_key_signs_its_assertion(fake_provider: FakeProvider, start: Any) -> None:
    key = RSAKey.generate_key(2048)
    proofs: list[Any] = []

    async def token(request: web.Request) -> web.Response:
        form = parse_qs(await request.text())
        proof = jwt.decode(form["client_assertion"][0], key, algorithms=["RS256"])
        proofs.append((form["client_assertion_type"], proof.claims))
        assert "client_secret" not in form
        return web.json_response({"access_token": "by-key"})

    fake_provider.on("/token", token)
    gateway = await start(
        auth_mode="OAUTH2_CC", token_url=f"{fake_provider.url}/token", token_request_auth_method="private_key_jwt"
    )
    pem = key.as_pem(private=True).decode()
    credentials = {"type": "OAUTH2_CC", "client_id": "c", "client_private_key": pem.replace("\n", "\\n")}
    imported = await import_connection(gateway, credentials=credentials)
    assert imported["credentials"]["token"] == "by-key"
    (kind, claims) = proofs[0]
    assert kind == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("c", "c", f"{fake_provider.url}/token")
    assert claims["exp"] - claims["iat"] == 300
    # without an expiry from the provider, the gateway requests a new token within the hour
    assert imported["credentials"]["expires_at"]
