"""Verifies webhooks signed with a JSON Web Token (RFC 7519), and reads public keys.

The entry decides the algorithm, because a token must not choose how it is verified. A key in the token, or at a URL in
the token, is ignored.
"""

import base64
import hashlib
import hmac
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.catalog.provider_parts import WebhookSignature
from gateway.private_keys import MAX_RSA_BITS
from gateway.scripts.script_context import IncomingWebhook, SignatureRefused
from gateway.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

JWT: Final = "jwt"
MIN_RSA_BITS: Final = 2048
LEEWAY_S: Final = 60  # maximum difference between the provider's clock and the gateway's
TOLERANCE_S: Final = 300  # maximum age of a token without exp, unless the entry sets `tolerance_s`
MAX_TOKEN_CHARS: Final = 8192
MAX_KEYS: Final = 16

_BEARER: Final = re.compile(r"(?:bearer[ \t]+)?([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", re.IGNORECASE)
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._~=-]{1,200}")


def token_of(message: IncomingWebhook, signature_format: WebhookSignature) -> str:
    """Return the token in the header field that the entry names, without ``Bearer``. Raises SignatureRefused if there
    is no valid token."""
    header = message.headers.get((signature_format.header or "").lower(), "").strip()
    if not header:
        raise SignatureRefused(f"the field {signature_format.header} is missing", missing=True)
    match = _BEARER.fullmatch(header) if len(header) <= MAX_TOKEN_CHARS else None
    if match is None:
        raise SignatureRefused(f"the field {signature_format.header} has no signed token")
    return match[1]


def key_id_of(token: str, signature_format: WebhookSignature) -> str:
    """Return the key ID that the token names. Nothing is verified yet. Raises SignatureRefused if the token names no
    valid key ID."""
    header = _header(token)
    _check_algorithm(header, signature_format)
    kid = header.get("kid")
    if not isinstance(kid, str) or not _KEY_ID.fullmatch(kid):
        raise SignatureRefused("the token's header has no valid kid")
    return kid


def verify_token(message: IncomingWebhook, signature_format: WebhookSignature, secrets: Sequence[Secret]) -> str | None:
    """Verify the token, and return a unique name of the webhook. Raises SignatureRefused if the token is not valid.

    The keys are `message.public_keys` if the entry says where they are published, else the integration's `secrets`.
    """
    token = token_of(message, signature_format)
    header = _header(token)
    _check_algorithm(header, signature_format)
    if "crit" in header:
        raise SignatureRefused("the token has the unsupported header crit")
    keys = message.public_keys if signature_format.keys is not None else [secret.reveal() for secret in secrets]
    for key in keys[:MAX_KEYS]:
        claims = _claims(token, key, signature_format.algorithm or "")
        if claims is not None:
            _check_times(claims, message.received_at.timestamp(), signature_format)
            _check_values(claims, message, signature_format, secrets)
            unique_bytes = token.encode() + b"." + message.body if signature_format.bodies_repeat else message.body
            return hashlib.sha256(unique_bytes).hexdigest()
    raise SignatureRefused("the signature is wrong")


def _header(token: str) -> Mapping[str, Any]:
    part = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, Mapping):
        raise SignatureRefused("the token's header cannot be read")
    return header


def _check_algorithm(header: Mapping[str, Any], signature_format: WebhookSignature) -> None:
    if (alg := header.get("alg")) != signature_format.algorithm:
        raise SignatureRefused(f"the token's alg is {str(alg)[:20]!r}, expected {signature_format.algorithm}")


def _claims(token: str, key: str, algorithm: str) -> Mapping[str, Any] | None:
    """Return the claims if `key` has signed the token, else None."""
    from joserfc import jwk, jws, jwt
    from joserfc.errors import JoseError, SecurityWarning

    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # the provider decides the length of a shared secret
        try:
            if algorithm.startswith("HS"):
                return jwt.decode(token, jwk.OctKey.import_key(key), registry=registry).claims
            public_key = public_key_in(key)
            if public_key is None:
                return None
            key_class = jwk.ECKey if algorithm.startswith("ES") else jwk.RSAKey
            return jwt.decode(token, key_class.import_key(_pem(public_key)), registry=registry).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            return None


def _check_times(claims: Mapping[str, Any], now: float, signature_format: WebhookSignature) -> None:
    issued_at, ends_at, begins_at = (claims.get(name) for name in ("iat", "exp", "nbf"))
    if not _is_number(issued_at) and not _is_number(ends_at):
        raise SignatureRefused("the token has neither iat nor exp")
    if any(time is not None and not _is_number(time) for time in (issued_at, ends_at, begins_at)):
        raise SignatureRefused("the token's times cannot be read")
    if ends_at is not None and now > ends_at + LEEWAY_S:
        raise SignatureRefused("the token has expired")
    if begins_at is not None and now < begins_at - LEEWAY_S:
        raise SignatureRefused("the token is not valid yet")
    if issued_at is not None and issued_at > now + LEEWAY_S:
        raise SignatureRefused("the token's iat is in the future")
    if (
        issued_at is not None
        and (ends_at is None or signature_format.tolerance_s)
        and now - issued_at > (signature_format.tolerance_s or TOLERANCE_S)
    ):
        raise SignatureRefused("the token was signed too long ago")


def _check_values(
    claims: Mapping[str, Any], message: IncomingWebhook, signature_format: WebhookSignature, secrets: Sequence[Secret]
) -> None:
    expected = dict(signature_format.claims)
    if signature_format.body_digest_claim is not None:
        expected[signature_format.body_digest_claim] = hashlib.sha256(message.body).hexdigest()
    if signature_format.address_claim is not None and signature_format.address_claim in claims:
        expected[signature_format.address_claim] = message.url
    for name, value in expected.items():
        claimed = claims.get(name)
        is_same = isinstance(claimed, str) and _are_equal(
            claimed.lower() if name == signature_format.body_digest_claim else claimed, value
        )
        if not is_same:
            raise SignatureRefused(f"the token's {name} is not the expected value")
    if signature_format.secret_claim is not None:
        claimed = claims.get(signature_format.secret_claim)
        if not isinstance(claimed, str) or not any(_are_equal(claimed, secret.reveal()) for secret in secrets):
            raise SignatureRefused(f"the token's {signature_format.secret_claim} does not equal the webhook_secret")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


def _are_equal(received: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(received.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))


# ── Public keys: PEM, certificate, JWK, or a SubjectPublicKeyInfo in base64.


def public_key_in(text: str) -> "PublicKeyTypes | None":
    """Return the public key in `text`. Return None if `text` is not a key, or if an RSA key is too short or too
    long."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

    key_text = text.replace("\\n", "\n").strip()
    try:
        if key_text.startswith("{"):
            key = _from_jwk(json.loads(key_text))
        elif "-----BEGIN CERTIFICATE-----" in key_text:
            key = x509.load_pem_x509_certificates(key_text.encode())[0].public_key()
        elif "-----BEGIN" in key_text:
            key = load_pem_public_key(key_text.encode())
        else:
            key = load_der_public_key(base64.b64decode("".join(key_text.split()), validate=True))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, UnsupportedAlgorithm):
        return None
    if isinstance(key, RSAPublicKey) and not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return None
    return key


def verify_rsa_sha256(key: str, signature: bytes, signed_bytes: bytes) -> bool:
    """Return whether `signature` is a valid RSASSA-PKCS1-v1_5 (RFC 8017 §8.2) of `signed_bytes`. `key`: a public key in one
    of the formats that `public_key_in` reads."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256

    public_key = public_key_in(key)
    if not isinstance(public_key, RSAPublicKey):
        return False
    try:
        public_key.verify(signature, signed_bytes, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def _from_jwk(received_key: Any) -> "PublicKeyTypes":
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    names = ("kty", "crv", "x", "y", "n", "e")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # a short key is refused by the caller
            key = jwk.import_key({name: received_key[name] for name in names if name in received_key})
    except JoseError as fault:
        raise ValueError("no public key") from fault
    if isinstance(key, jwk.OctKey):
        raise ValueError("a shared secret is not a public key")
    public_key: PublicKeyTypes = key.public_key
    return public_key


def _pem(key: "PublicKeyTypes") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
