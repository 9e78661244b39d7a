"""Verifies a webhook's signature as its provider's entry describes, on the received bytes.

Comparisons take constant time, so that their duration reveals no secret. A webhook with a timestamp must be recent. An
unknown signature scheme is never accepted.
"""

import base64
import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from gateway.catalog.provider_parts import WebhookSignature
from gateway.scripts.script_context import IncomingWebhook, Routing, SignatureRefused
from gateway.scripts.signed_token import JWT, MAX_KEYS, verify_rsa_sha256, verify_token
from gateway.secret import Secret

# ── Webhooks that are signed with a private key: the integration's secret is then the provider's public key.

# Arguments: the key as text, the signature, the signed bytes.
VerifyFunction = Callable[[str, bytes, bytes], bool]


def _verify_ed25519(key: str, signature: bytes, signed_bytes: bytes) -> bool:
    """Verify an Ed25519 signature (RFC 8032). `key`: 32 bytes in hex."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, signed_bytes)
    except (InvalidSignature, ValueError):
        return False
    return True


def _verify_ecdsa_p256(key: str, signature: bytes, signed_bytes: bytes) -> bool:
    """Verify an ECDSA signature. `key`: a SubjectPublicKeyInfo in base64; `signature`: DER (RFC 3279 §2.2.3)."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        public = load_der_public_key(base64.b64decode(key))
        if not isinstance(public, EllipticCurvePublicKey):
            return False
        public.verify(signature, signed_bytes, ECDSA(SHA256()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


PUBLIC_KEYS: Final[Mapping[str, VerifyFunction]] = {
    "ed25519": _verify_ed25519,
    "ecdsa-p256-sha256": _verify_ecdsa_p256,
    "rsa-sha256": verify_rsa_sha256,
}


TOLERANCE_S: Final = 300
HASHES: Final = {"hmac-sha256": "sha256", "hmac-sha1": "sha1", "hmac-md5": "md5"}
STANDARD_FAMILIES: Final = {"standard-webhooks": "webhook", "svix": "svix"}
SHARED_TOKEN: Final = "shared-token"  # noqa: S105 (the name of a scheme)
BASIC: Final = "basic"
TIME_NAMES: Final = frozenset({"t", "ts", "timestamp"})
CLIENT_SECRET_KEYS: Final = frozenset({"client secret", "app secret"})
MAX_SIGNATURES: Final = 8  # maximum signatures per webhook; a provider that rotates its secret sends two
MAX_FORM_FIELDS: Final = 10_000
RAW_BODY: Final = "raw body"
URL_AND_FORM: Final = "full URL followed by sorted POST parameters"

_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_SEPARATOR: Final = re.compile(r"[,;\s]+")
_COMMA_OR_SEMICOLON: Final = re.compile(r"[,;]\s*")
_ELEMENT: Final = re.compile(r"([a-z0-9_]+)=(.+)")
_EPOCH: Final = re.compile(r"[0-9]{9,16}")


def is_checkable(signature_format: WebhookSignature) -> bool:
    """Return whether `verify_signature` supports this description. If not, no webhook with a signature is accepted."""
    if signature_format.header is None:
        return signature_format.scheme == SHARED_TOKEN and signature_format.body_path is not None
    if re.fullmatch(r"[a-z0-9-]+", signature_format.header) is None or (
        signature_format.scheme == JWT and signature_format.algorithm is None
    ):
        return False
    return signature_format.scheme in {SHARED_TOKEN, BASIC, JWT, *HASHES, *STANDARD_FAMILIES, *PUBLIC_KEYS}


def verify_signature(
    message: IncomingWebhook, signature_format: WebhookSignature, secrets: Sequence[Secret]
) -> str | None:
    """Verify the signature. Return a unique name of the webhook, or None if replays cannot be detected.

    Raises SignatureRefused if the signature is missing or wrong.
    """
    if signature_format.scheme == JWT:
        return verify_token(message, signature_format, secrets)
    if signature_format.scheme == SHARED_TOKEN and signature_format.body_path is not None:
        _check_body_tokens(message.body, signature_format.body_path, secrets)
        return None if signature_format.bodies_repeat else _unique_name(message.body)
    header = message.headers.get((signature_format.header or "").lower(), "").strip()
    if not header:
        raise SignatureRefused(f"the field {signature_format.header} is missing", missing=True)
    if signature_format.scheme in STANDARD_FAMILIES:
        return _verify_standard(message, signature_format, header, secrets)
    if signature_format.scheme in {SHARED_TOKEN, BASIC}:
        if not any(_is_same_token(header, secret, signature_format.scheme) for secret in secrets):
            raise SignatureRefused("the token is wrong")
        return None if signature_format.bodies_repeat else _unique_name(message.body)
    for secret in secrets:
        payload = _SignedPayload(message, signature_format, header, secret)
        signed_bytes = payload.signed_bytes()
        _check_time(payload.time, message.received_at, signature_format)
        signatures = list(islice(payload.signatures(), MAX_SIGNATURES))
        check = (
            _hmac_check(signature_format) if signature_format.scheme in HASHES else _public_key_check(signature_format)
        )
        keys = (
            [Secret(key) for key in message.public_keys[:MAX_KEYS]] if signature_format.keys is not None else [secret]
        )
        if any(check(key, signed_bytes, signatures) for key in keys):
            return None if payload.time is None and signature_format.bodies_repeat else _unique_name(signed_bytes)
    raise SignatureRefused("the signature is wrong")


def _is_same_token(received_token: str, secret: Secret, scheme: str) -> bool:
    expected_token = secret.reveal().encode()
    if scheme == BASIC:
        auth_scheme, _, received_token = received_token.partition(" ")
        if auth_scheme.lower() != BASIC:
            return False
        received_token, expected_token = received_token.strip(), base64.b64encode(expected_token)
    return hmac.compare_digest(_header_bytes(received_token), expected_token)


def _check_body_tokens(body: bytes, path: str, secrets: Sequence[Secret]) -> None:
    """Raise SignatureRefused unless there is at least one token at `path` and all tokens are correct."""
    try:
        values = [json.loads(body)]
    except (ValueError, RecursionError):
        raise SignatureRefused("the body is not JSON", missing=True) from None
    for step in path.split("."):
        if step == "*":
            if not all(isinstance(value, list) for value in values):
                raise SignatureRefused("the body has no token", missing=True)
            values = [item for value in values for item in value]
        else:
            values = [value.get(step) if isinstance(value, dict) else None for value in values]
    received_tokens = [value for value in values if isinstance(value, str)]
    if not received_tokens or len(received_tokens) < len(values):
        raise SignatureRefused("the body has no token", missing=True)
    expected = [secret.reveal().encode() for secret in secrets]
    if not all(
        any(hmac.compare_digest(text.encode("utf-8", "surrogatepass"), token) for token in expected)
        for text in received_tokens
    ):
        raise SignatureRefused("the token is wrong")


class _SignedPayload:
    """The signed bytes of a webhook, built from its parts as the entry describes."""

    def __init__(
        self, message: IncomingWebhook, signature_format: WebhookSignature, header: str, secret: Secret
    ) -> None:
        self._message, self._signature_format, self._secret = message, signature_format, secret
        self._payload_format = signature_format.signed_payload or RAW_BODY
        # A prefix can contain a space: Greenhouse sends "sha256 <signature>".
        separator = _COMMA_OR_SEMICOLON if " " in (signature_format.prefix or "") else _SEPARATOR
        self._parts = [part for part in separator.split(header) if part]
        is_list = any(_ELEMENT.fullmatch(part) for part in self._parts) and not signature_format.prefix
        self._has_elements = is_list and (
            bool(TIME_NAMES & set(_PLACEHOLDER.findall(self._payload_format)))
            or "is a list" in (signature_format.note or "")
        )
        self._elements = [element.groups() for part in self._parts if (element := _ELEMENT.fullmatch(part))]
        self.time: str | None = None

    def signatures(self) -> Iterator[str]:
        """Yield the signatures of the webhook. If there are several signatures, only one of them must be valid."""
        if self._has_elements:
            yield from (text for name, text in self._elements if name not in TIME_NAMES)
        elif prefix := self._signature_format.prefix:
            yield from (part[len(prefix) :] for part in self._parts if part.startswith(prefix))
        else:
            yield from self._parts

    def signed_bytes(self) -> bytes:
        """Return the signed bytes, and set `time` if they include a timestamp.

        Raises SignatureRefused if a part is missing.
        """
        if self._payload_format == RAW_BODY:
            return self._message.body
        if self._payload_format == URL_AND_FORM:
            return self._url_and_form()
        signed, signed_to = b"", 0
        for placeholder in _PLACEHOLDER.finditer(self._payload_format):
            signed += self._payload_format[signed_to : placeholder.start()].encode() + self._value(placeholder[1])
            signed_to = placeholder.end()
        return signed + self._payload_format[signed_to:].encode()

    def _value(self, name: str) -> bytes:
        if name == RAW_BODY:
            return self._message.body
        if name == "method":
            return self._message.method.encode()
        if name == "secret":
            return self._secret.reveal().encode()
        if name == "crc32":
            return str(zlib.crc32(self._message.body)).encode()
        if name in {"uri", "notification url", "callback url"}:
            return self._message.url.encode()
        if name in TIME_NAMES:
            self.time = self._time()
            return _header_bytes(self.time)
        field = self._sibling("id") if name == "message id" else name
        text = self._header(field)
        if field.endswith("timestamp") or field.lower() == (self._signature_format.timestamp_header or "").lower():
            self.time = text
        return _header_bytes(text)

    def _time(self) -> str:
        if self._has_elements:
            for name, text in self._elements:
                if name in TIME_NAMES:
                    return text
            raise SignatureRefused("the signature has no timestamp")
        return self._header(self._signature_format.timestamp_header or self._sibling("timestamp"))

    def _sibling(self, part_name: str) -> str:
        """Return the name of the header field that belongs to the signature's field, for example ``x-timestamp`` for
        ``x-signature``."""
        return (self._signature_format.header or "").replace("signature", part_name)

    def _header(self, name: str) -> str:
        text = self._message.headers.get(name.lower(), "")
        if not text:
            raise SignatureRefused(f"the field {name} is missing", missing=True)
        return text

    def _url_and_form(self) -> bytes:
        from urllib.parse import parse_qsl

        text = self._message.body.decode("utf-8", "replace")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
        except ValueError:
            raise SignatureRefused(f"the form has more than {MAX_FORM_FIELDS} fields") from None
        return (self._message.url + "".join(name + text for name, text in sorted(pairs))).encode()


def _hmac_check(signature_format: WebhookSignature) -> Callable[[Secret, bytes, Sequence[str]], bool]:
    algorithm = HASHES[signature_format.scheme]
    is_base64 = (signature_format.key or "").startswith("base64-decoded")

    def check(secret: Secret, signed_bytes: bytes, received: Sequence[str]) -> bool:
        key = _secret_bytes(secret.reveal()) if is_base64 else secret.reveal().encode()
        digest = hmac.digest(key, signed_bytes, algorithm)
        expected = base64.b64encode(digest) if signature_format.encoding == "base64" else digest.hex().encode()
        signatures = (
            _header_bytes(text if signature_format.encoding == "base64" else text.lower()) for text in received
        )
        return any(hmac.compare_digest(expected, signature) for signature in signatures)

    return check


def _public_key_check(signature_format: WebhookSignature) -> Callable[[Secret, bytes, Sequence[str]], bool]:
    verify = PUBLIC_KEYS.get(signature_format.scheme)

    def is_valid(secret: Secret, signed_bytes: bytes, received: str) -> bool:
        try:
            signature = base64.b64decode(received) if signature_format.encoding == "base64" else bytes.fromhex(received)
        except ValueError:
            return False
        return verify is not None and verify(secret.reveal(), signature, signed_bytes)

    return lambda secret, signed, received: any(is_valid(secret, signed, text) for text in received)


def _verify_standard(
    message: IncomingWebhook, signature_format: WebhookSignature, received: str, secrets: Sequence[Secret]
) -> str:
    """Verify a webhook in the format of Standard Webhooks or Svix, and return a unique name of the webhook.

    The signed text is ``id.timestamp.body``. The header can contain several signatures.
    """
    family = STANDARD_FAMILIES[signature_format.scheme]
    message_id, timestamp = (message.headers.get(f"{family}-{header_part}", "") for header_part in ("id", "timestamp"))
    if not message_id or not timestamp:
        raise SignatureRefused(f"the fields {family}-id and {family}-timestamp are missing", missing=True)
    _check_time(timestamp, message.received_at, signature_format)
    signed = _header_bytes(f"{message_id}.{timestamp}.") + message.body
    keys = [_secret_bytes(secret.reveal().removeprefix("whsec_")) for secret in secrets]
    expected = [base64.b64encode(hmac.digest(key, signed, "sha256")) for key in keys]
    signatures = [_header_bytes(part.partition(",")[2]) for part in received.split() if part.startswith("v1,")][
        :MAX_SIGNATURES
    ]
    if not any(hmac.compare_digest(signature, text) for signature in signatures for text in expected):
        raise SignatureRefused("the signature is wrong")
    return _unique_name(_header_bytes(message_id))


def _check_time(text: str | None, now: datetime, signature_format: WebhookSignature) -> None:
    """Raise SignatureRefused if the timestamp is too old, in the future or unreadable."""
    if text is None:
        return
    sent_at = float(text) if _EPOCH.fullmatch(text) else None
    if sent_at is not None and sent_at > 1e11:
        sent_at /= 1000
    if sent_at is None:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise SignatureRefused("the timestamp cannot be read") from None
        sent_at = (moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)).timestamp()
    if abs(now.timestamp() - sent_at) > (signature_format.tolerance_s or TOLERANCE_S):
        raise SignatureRefused("the timestamp is too old or in the future")


def _secret_bytes(text: str) -> bytes:
    """Return the bytes of a secret in base64. If `text` is not base64, return the bytes of `text` itself."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode()


def _header_bytes(text: str) -> bytes:
    """Return the bytes of a header value as received. Bytes that are not UTF-8 were decoded to lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _unique_name(signed_bytes: bytes) -> str:
    return hashlib.sha256(signed_bytes).hexdigest()


def signing_secrets(
    signature_format: WebhookSignature | None, own_secrets: Sequence[Secret], client_secret: Secret | None
) -> Sequence[Secret]:
    """Return the secrets that verify a webhook: the app's client secret if the entry says so, else `own_secrets`."""
    if signature_format is not None and signature_format.key in CLIENT_SECRET_KEYS and client_secret:
        return (
            Secret(client_secret.reveal() + signature_format.key_suffix)
            if signature_format.key_suffix
            else client_secret,
        )
    return own_secrets


# ── Webhooks of providers without a script: the gateway verifies the sender, and the application finds the connection.

MAX_CHALLENGE_BYTES: Final = 16 * 1024  # maximum bytes of a body that verifies the webhook URL


def signed_webhook(
    message: IncomingWebhook, signature_format: WebhookSignature | None, secrets: Sequence[Secret]
) -> Routing:
    """Verify and route a webhook. Raises SignatureRefused if the signature is missing or wrong.

    If there are `secrets`, the signature must be valid. The webhook is then refused if `signature_format` is
    None, because the entry then describes no signature.
    """
    if secrets and signature_format is None:
        raise SignatureRefused("the provider's entry describes no signature")
    webhook_id = (
        verify_signature(message, signature_format, secrets) if secrets and signature_format is not None else None
    )
    reply = _challenge_reply(message.body, secrets[0] if secrets else None)
    return Routing((), None if reply is not None else webhook_id, reply)


def _challenge_reply(body: bytes, secret: Secret | None) -> dict[str, Any] | str | None:
    """Return the response to a provider's request that verifies the webhook URL, in the provider's format: JSON or text.

    Return None if the body is not such a request. `secret`: the key for formats that require a keyed hash.
    """
    if len(body) > MAX_CHALLENGE_BYTES:
        return None
    try:
        request_json = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request_json, Mapping):
        return None
    challenge, request_payload = request_json.get("challenge"), request_json.get("payload")
    if request_json.get("type") == "url_verification" and isinstance(challenge, str):
        return {"challenge": challenge}
    if request_json.get("event") == "endpoint.url_validation" and isinstance(request_payload, Mapping) and secret:
        token = str(request_payload.get("plainToken", ""))
        return {
            "plainToken": token,
            "encryptedToken": hmac.digest(
                secret.reveal().encode(), token.encode("utf-8", "surrogatepass"), "sha256"
            ).hex(),
        }
    if request_json.keys() == {"challenge"} and isinstance(challenge, str):
        return {"challenge": challenge}
    if request_json.keys() == {"challenge", "subscription"} and isinstance(challenge, str):
        return challenge  # Twitch
    return {"type": 1} if request_json.get("type") == 1 and "application_id" in request_json else None
