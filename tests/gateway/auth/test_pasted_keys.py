"""Keys as people paste them: PEM on one line, JWK, and HMAC secrets."""

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.auth.pasted_keys import BadKey, check_identity, hmac_secret, signing_key, wrapped_pem
from tests.fakes.certificate import issue_identity

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()


@pytest.mark.parametrize(
    "folded",
    [PEM.replace("\n", "\\n"), PEM.replace("\n", " "), PEM.replace("\n", ""), PEM.replace("\n", "\r\n"), f"\n\n {PEM}"],
)
def test_pem_block_is_folded_again_after_a_form_removed_line_breaks(folded: str) -> None:
    assert wrapped_pem(folded) == PEM
    assert signing_key(folded, "ES256").as_dict(private=True)["kty"] == "EC"


def test_the_headers_of_an_old_encrypted_key_keep_their_lines() -> None:
    old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    assert wrapped_pem(old) == old


def test_a_jwk_signs_too() -> None:
    jwk = signing_key(PEM, "ES256").as_dict(private=True)
    assert signing_key(json.dumps(jwk), "ES256").as_dict(private=True)["d"] == jwk["d"]


# A key on the curve secp112r1, which the cryptography library does not support.
UNSUPPORTED_CURVE = """-----BEGIN PRIVATE KEY-----
ME4CAQAwEAYHKoZIzj0CAQYFK4EEAAYENzA1AgEBBA5ORzvAuv1NPZ0kMDDc2aEg
Ax4ABK4+qQDtZ7u+4xOMhuxve0wSd++pGTCD3MkaEfc=
-----END PRIVATE KEY-----
"""
NESTED_JWK = '{"kty":' * 2000 + "1" + "}" * 2000


@pytest.mark.parametrize(
    ("text", "alg"),
    [
        ("nonsense", "RS256"),
        (PEM, "RS256"),
        ("{}", "ES256"),
        (PEM, "none"),
        (UNSUPPORTED_CURVE, "ES256"),
        (NESTED_JWK, "ES256"),
    ],
)
def test_another_key_is_refused_without_its_text(text: str, alg: str) -> None:
    with pytest.raises(BadKey) as refused:
        signing_key(text, alg)
    assert text not in str(refused.value)


def test_the_secret_of_an_hmac_is_text_hex_or_base64() -> None:
    assert hmac_secret("abc", None) == b"abc"
    assert hmac_secret(" 616263 ", "hex") == b"abc"
    assert hmac_secret("-_-_", "base64") == hmac_secret("+/+/", "base64") == b"\xfb\xff\xbf"
    assert hmac_secret("YQ", "base64") == b"a"  # without padding
    with pytest.raises(ValueError, match="not base64"):
        hmac_secret("a b!", "base64")


def test_error_names_the_certificate_that_cannot_be_read() -> None:
    with pytest.raises(BadKey, match="client certificate cannot be read"):
        check_identity("", PEM)


def test_error_names_the_private_key_of_an_unsupported_curve() -> None:
    with pytest.raises(BadKey, match="client's private key cannot be read"):
        check_identity(issue_identity("customer")[0].certificate, UNSUPPORTED_CURVE)
