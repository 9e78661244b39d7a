"""Keys and certificates for a rehearsal, made once a process."""

import base64
import secrets
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any


@cache
def key_for(kind: str) -> str:
    """A key in PEM for an algorithm of JWS; a secret for the HMACs, written as ``HS256:hex`` has it."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if kind.startswith("HS"):
        raw = secrets.token_bytes(32)
        return base64.b64encode(raw).decode() if kind.endswith(":base64") else raw.hex()
    key: Any
    if kind.startswith("ES"):
        curve = {"ES384": ec.SECP384R1, "ES512": ec.SECP521R1}.get(kind, ec.SECP256R1)
        key = ec.generate_private_key(curve())
    elif kind == "EdDSA":
        key = ed25519.Ed25519PrivateKey.generate()
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


@cache
def certificate() -> str:
    """A certificate in PEM for the key of RS256, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    from cryptography.x509.oid import NameOID

    key = load_pem_private_key(key_for("RS256").encode(), password=None)
    assert isinstance(key, RSAPrivateKey)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rehearsal")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = (
        builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)).sign(key, SHA256())
    )
    pem: bytes = signed.public_bytes(Encoding.PEM)
    return pem.decode()
