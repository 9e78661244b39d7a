"""Reads keys and certificates that people paste: PEM in any line format, JWK, HMAC secrets."""

import base64
import binascii
import json
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from gateway.auth.credential_form import MAX_TYPED_CHARS, CredentialForm
from gateway.catalog.provider import Provider
from gateway.private_keys import private_key_in, rsa_key_in

if TYPE_CHECKING:  # lazy import below: few workers ever read a key, and the module costs 3 MB per worker
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

    SigningKey: TypeAlias = RSAKey | ECKey | OKPKey | OctKey

_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]++)-----((?:[^-]++|-(?!----))*+)-----END \1-----")
_KINDS: Final[Mapping[str, str]] = {"RS": "RSAKey", "PS": "RSAKey", "ES": "ECKey", "Ed": "OKPKey", "HS": "OctKey"}


class BadKey(ValueError):
    """The text is not a key of the required kind. The message never quotes the text."""


def wrapped_pem(text: str) -> str:
    """Return `text` with its PEM blocks in lines of 64 characters (RFC 7468 §2), because forms and environment
    variables lose line breaks."""
    text_with_line_breaks = text.replace("\\r", "").replace("\\n", "\n")
    return _PEM.sub(_rewrap, text_with_line_breaks).strip() + "\n"


def _rewrap(match: re.Match[str]) -> str:
    label, content = match[1], match[2]
    if ":" in content:  # an encrypted key in an old format, whose header lines must stay separate
        return match[0]
    characters = "".join(content.split())
    lines = [characters[start : start + 64] for start in range(0, len(characters), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


def signing_key(text: str, alg: str, encoding: str | None = None) -> "SigningKey":
    """Return the signing key for `alg` (RFC 7518 §3.1): a private key in PEM or JWK, or an HMAC secret.

    `encoding`: format of the HMAC secret: ``utf8`` (the default), ``hex`` or ``base64``. Raises BadKey if `text` is
    not such a key.
    """
    if alg[:2] not in _KINDS:
        raise BadKey(f"'{alg[:20]}' is not a supported signing algorithm")
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    key_class: type[SigningKey] = getattr(jwk, _KINDS[alg[:2]])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # the provider decides the key length
            if text.lstrip().startswith("{"):
                jwk_members = json.loads(text)
                return (
                    jwk.RSAKey.import_key(rsa_key_in(jwk_members))
                    if key_class is jwk.RSAKey
                    else key_class.import_key(jwk_members)
                )
            if key_class is jwk.OctKey:
                return jwk.OctKey.import_key(hmac_secret(text, encoding))
            return key_class.import_key(private_key_in(wrapped_pem(text)))  # type: ignore[arg-type]  # of that kind, or refused
    except (ValueError, TypeError, KeyError, RecursionError, JoseError, UnsupportedAlgorithm) as fault:
        raise BadKey(f"the private key cannot be read as one for {alg}; paste it whole, as PEM or JWK") from fault


def hmac_secret(text: str, encoding: str | None) -> bytes:
    """Return the bytes of an HMAC secret. Raises ValueError if `text` is not valid in `encoding`."""
    if encoding == "hex":
        return bytes.fromhex(text.strip())
    if encoding == "base64":
        unpadded = text.strip().translate(str.maketrans("-_", "+/")).rstrip("=")
        try:
            return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
        except binascii.Error as fault:
            raise ValueError("not base64") from fault
    return text.encode()


def check_identity(certificate: str, private_key: str) -> None:
    """Raise BadKey unless `private_key` is the private key of `certificate` (RFC 8705 §2)."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        public_key = x509.load_pem_x509_certificates(certificate.encode())[0].public_key()
    except (ValueError, IndexError, UnsupportedAlgorithm) as fault:
        raise BadKey("the client certificate cannot be read; paste it whole, as PEM") from fault
    try:
        key = private_key_in(private_key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as fault:
        raise BadKey("the client's private key cannot be read; paste it whole, as PEM without a passphrase") from fault
    if public_key != key.public_key():
        raise BadKey("the client certificate and the private key do not belong together")


# ── The client certificate of a credential, presented to the provider in mutual TLS (RFC 8705).

CERTIFICATE: Final = "client_certificate"
PRIVATE_KEY: Final = "client_private_key"


def certificate_fields(fields: CredentialForm, provider: Provider) -> dict[str, str]:
    """Return the ``client_certificate`` and ``client_private_key`` of a form, in PEM, if they are given. A form may
    contain only the key.

    Records an error if certificate and key do not match. If the provider requires mutual TLS, a missing certificate or
    key is also an error.
    """
    texts = {name: fields.text(name, limit=MAX_TYPED_CHARS, required=False) for name in (CERTIFICATE, PRIVATE_KEY)}
    certificate, key = texts[CERTIFICATE], texts[PRIVATE_KEY]
    if provider.require_client_certificate and not (certificate and key):
        fields.fault(CERTIFICATE, f"This provider requires mutual TLS: give {CERTIFICATE} and {PRIVATE_KEY}.")
    elif certificate:
        texts = {CERTIFICATE: wrapped_pem(certificate), PRIVATE_KEY: wrapped_pem(key)}
        try:
            check_identity(texts[CERTIFICATE], texts[PRIVATE_KEY])
        except BadKey as fault:
            fields.fault(CERTIFICATE, f"{str(fault)[:1].upper()}{str(fault)[1:]}.")
    return {name: text for name, text in texts.items() if text}
