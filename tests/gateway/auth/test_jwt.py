"""JWTs that the gateway signs. If a value makes it impossible to sign, the credential is refused; the gateway reports
no error of its own."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.auth.context import AuthContext
from gateway.auth.jwt import sign, signed_token
from gateway.catalog.provider_parts import Jwt
from gateway.oauth.token_responses import TokenRefused
from gateway.records.integration import Integration
from gateway.secret import Secret
from tests.fakes.providers import provider

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_key_without_a_fingerprint_is_refused_without_its_text() -> None:
    context = AuthContext(provider(), Integration(environment="dev", integration_id="t", provider="tracker"))
    spec = Jwt.model_validate(
        {"claims": {"iss": "${fingerprint(${credentials.privateKey})}"}, "key": "${credentials.privateKey}"}
    )
    with pytest.raises(TokenRefused, match="a value that the token needs must be a key in PEM") as refused:
        signed_token(spec, context, {"credentials.privateKey": Secret("not a key")}, NOW)
    assert "not a key" not in str(refused.value)


def test_a_key_on_a_curve_that_jws_does_not_know_is_refused() -> None:
    key = ec.generate_private_key(ec.BrainpoolP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with pytest.raises(TokenRefused, match="could not be signed with ES256"):
        sign({"alg": "ES256"}, {}, pem.decode())
