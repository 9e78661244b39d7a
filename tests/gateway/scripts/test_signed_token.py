"""Public keys in each accepted format, and formats that are refused."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwk

from gateway.scripts.signed_token import public_key_in, verify_rsa_sha256

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
EC = ec.generate_private_key(ec.SECP256R1()).public_key()
ED = ed25519.Ed25519PrivateKey.generate().public_key()


def pem(key: Any) -> str:
    text: str = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return text


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["rsa", "ec", "ed25519"])
def test_key_is_read_in_every_format(key: Any) -> None:
    text = pem(key)
    kind = {rsa.RSAPublicKey: jwk.RSAKey, ec.EllipticCurvePublicKey: jwk.ECKey}
    found = next((item for shape, item in kind.items() if isinstance(key, shape)), jwk.OKPKey)
    as_jwk = json.dumps({**found.import_key(text).as_dict(private=False), "kid": "k", "use": "sig", "expired_at": None})
    for form in (text, text.replace("\n", "\\n"), "".join(text.splitlines()[1:-1]), as_jwk, f"  {text}\n"):
        assert public_key_in(form) == key


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "{", "{}", '{"kty":"oct","k":"c2VjcmV0"}', '{"kty":"RSA","n":"x"}', '{"kty":"EC","crv":"P-256","x":1}',
        "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----\nx\n",
        base64.b64encode(b"x" * 100).decode(), "[" * 2000,
    ],
)  # fmt: skip
def test_text_that_is_not_a_public_key_is_rejected(text: str) -> None:
    assert public_key_in(text) is None


@pytest.mark.parametrize("bits", [1024, 16384])
def test_an_rsa_key_that_is_too_short_or_too_long_is_rejected(bits: int) -> None:
    n = base64.urlsafe_b64encode(((1 << bits) - 1).to_bytes(bits // 8, "big")).rstrip(b"=").decode()
    text = json.dumps({"kty": "RSA", "n": n, "e": "AQAB"})
    assert public_key_in(text) is None
    assert not verify_rsa_sha256(text, b"s", b"said")


def test_a_key_of_another_kind_proves_no_rsa_signature() -> None:
    assert not verify_rsa_sha256(pem(EC), b"s", b"said")
    assert not verify_rsa_sha256(pem(RSA), b"", b"said")
