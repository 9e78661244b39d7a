"""JWT: the gateway signs the token with the end user's key (RFC 7515, RFC 7519)."""

from typing import Any

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.journeys.modes.conftest import FakeProvider, import_connection, read

KEYS = {
    "RS256": RSAKey.generate_key(2048),
    "PS256": RSAKey.generate_key(2048),
    "ES256": ECKey.generate_key("P-256"),
}


def entry(alg: str, **jwt_fields: Any) -> dict[str, Any]:
    return {
        "auth_mode": "JWT",
        "credentials": {"issuerId": {}, "keyId": {}, "privateKey": {"secret": True}},
        "connection_config": {"scope": {"optional": True}},
        "jwt": {
            "header": {"alg": alg, "kid": "${credentials.keyId}", "typ": "JWT"},
            "claims": {"iss": "${credentials.issuerId}", "aud": "far", "scope": ["${connectionConfig.scope}"]},
            "key": "${credentials.privateKey}",
            "lifetime_s": 900,
            **jwt_fields,
        },
    }


class Verifier:
    """An API that verifies the signature of each token."""

    def __init__(self, fake_provider: FakeProvider, key: Any, alg: str) -> None:
        self.key, self.alg = key, alg
        self.tokens: list[Any] = []
        fake_provider.on("/api", self.api)

    async def api(self, request: web.Request) -> web.Response:
        scheme, _, text = request.headers["Authorization"].partition(" ")
        assert scheme == "Bearer"
        self.tokens.append(jwt.decode(text, self.key, algorithms=[self.alg]))
        return web.json_response({"ok": True})


@pytest.mark.parametrize("alg", KEYS)
async def test_the_provider_verifies_the_signature(
    fake_provider: FakeProvider, start: Any, advance_clock: Any, alg: str
) -> None:
    verifier = Verifier(fake_provider, KEYS[alg], alg)
    gateway = await start(**entry(alg))
    pem = KEYS[alg].as_pem(private=True).decode()
    typed = {"type": "JWT", "issuerId": "me", "keyId": "k1", "privateKey": pem}
    imported = await import_connection(gateway, credentials=typed)
    assert imported["credentials"]["privateKey"] == pem
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    first = verifier.tokens[0]
    assert (first.header["kid"], first.claims["iss"], first.claims["aud"]) == ("k1", "me", "far")
    assert first.claims["exp"] - first.claims["iat"] == 900
    assert "scope" not in first.claims  # because the connection has no setting for the scope
    advance_clock(901)
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert verifier.tokens[1].claims["iat"] >= first.claims["iat"] + 901
    assert (await read(gateway))["credentials"]["token"] != imported["credentials"]["token"]


async def test_an_hmac_secret_may_be_written_in_hex_and_lie_inside_an_object(
    fake_provider: FakeProvider, start: Any
) -> None:
    secret = bytes(range(32))
    verifier = Verifier(fake_provider, OctKey.import_key(secret), "HS256")
    spec = {
        **entry("HS256", key="${credentials.key.secret}", key_encoding="hex"),
        "credentials": {
            "key.secret": {"secret": True},
            "issuerId": {"optional": True},
            "keyId": {"default_value": "k"},
        },
    }
    gateway = await start(**spec)
    await import_connection(gateway, credentials={"type": "JWT", "key": {"secret": secret.hex()}})
    async with gateway.call_proxy("c1") as response:
        assert response.status == 200
    assert (verifier.tokens[0].header["kid"], "iss" in verifier.tokens[0].claims) == ("k", False)


@pytest.mark.parametrize("text", ["nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
async def test_a_key_that_cannot_sign_is_refused_when_it_is_given(
    fake_provider: FakeProvider, start: Any, text: str
) -> None:
    gateway = await start(**entry("RS256"))
    typed = {"type": "JWT", "issuerId": "me", "keyId": "k1", "privateKey": text}
    response = await import_connection(gateway, credentials=typed, expect=400)
    assert response["error"]["code"] == "connection_test_failed"
    assert "private key cannot be read" in response["error"]["message"]
    assert text not in response["error"]["message"]


async def test_missing_credentials_are_requested_by_name(fake_provider: FakeProvider, start: Any) -> None:
    gateway = await start(**entry("RS256"))
    response = await import_connection(gateway, credentials={"type": "JWT", "other": "x"}, expect=400)
    assert {issue["path"][-1] for issue in response["error"]["errors"]} == {"issuerId", "keyId", "privateKey", "other"}
