"""Verifies a webhook's signature as its provider's entry describes, on the received bytes.

Comparisons take constant time, and a webhook with a timestamp must be recent. An unknown kind of signature is never accepted.
"""

import base64
import binascii
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
from gateway.scripts.signed_token import JWT, MOST_KEYS, rsa_sha256, verified_token
from gateway.secret import Secret

# ── Webhooks that are signed with a private key: the integration's secret is then the provider's public key.

Right = Callable[[str, bytes, bytes], bool]


def _ed25519(key: str, signature: bytes, said: bytes) -> bool:
    """Verify an Ed25519 signature (RFC 8032). `key`: 32 bytes in hex."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, said)
    except (InvalidSignature, ValueError):
        return False
    return True


def _ecdsa_p256(key: str, signature: bytes, said: bytes) -> bool:
    """Verify an ECDSA signature. `key`: a SubjectPublicKeyInfo in base64; `signature`: DER (RFC 3279 §2.2.3)."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        public = load_der_public_key(base64.b64decode(key))
        if not isinstance(public, EllipticCurvePublicKey):
            return False
        public.verify(signature, said, ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


PUBLIC_KEYS: Final[Mapping[str, Right]] = {
    "ed25519": _ed25519,
    "ecdsa-p256-sha256": _ecdsa_p256,
    "rsa-sha256": rsa_sha256,
}


TOLERANCE_S: Final = 300
HASHES: Final = {"hmac-sha256": "sha256", "hmac-sha1": "sha1", "hmac-md5": "md5"}
STANDARD: Final = {"standard-webhooks": "webhook", "svix": "svix"}
SHARED: Final = "shared-token"
BASIC: Final = "basic"
TIMES: Final = frozenset({"t", "ts", "timestamp"})
BY_CLIENT_SECRET: Final = frozenset({"client secret", "app secret"})
MOST_SIGNATURES: Final = 8  # maximum signatures per webhook; a provider that rotates its secret sends two
MOST_FIELDS: Final = 10_000
RAW: Final = "raw body"
FORM: Final = "full URL followed by sorted POST parameters"

_PLACE: Final = re.compile(r"\{([^{}]+)\}")
_ELEMENT: Final = re.compile(r"([a-z0-9_]+)=(.+)")
_EPOCH: Final = re.compile(r"[0-9]{9,16}")


def checkable(how: WebhookSignature) -> bool:
    """Return whether `verified` can check such webhooks; if not, none is accepted."""
    if how.header is None:
        return how.scheme == SHARED and how.body_path is not None
    if re.fullmatch(r"[a-z0-9-]+", how.header) is None or (how.scheme == JWT and how.algorithm is None):
        return False
    return how.scheme in {SHARED, BASIC, JWT, *HASHES, *STANDARD, *PUBLIC_KEYS}


def verified(message: IncomingWebhook, how: WebhookSignature, secrets: Sequence[Secret]) -> str | None:
    """Verify the signature; return a unique name of the webhook, or None if replays cannot be detected.

    Raises SignatureRefused.
    """
    if how.scheme == JWT:
        return verified_token(message, how, secrets)
    if how.scheme == SHARED and how.body_path is not None:
        _check_body_tokens(message.body, how.body_path, secrets)
        return None if how.bodies_repeat else _name(message.body)
    given = message.headers.get((how.header or "").lower(), "").strip()
    if not given:
        raise SignatureRefused(f"the field {how.header} is missing", missing=True)
    if how.scheme in STANDARD:
        return _standard(message, how, given, secrets)
    if how.scheme in {SHARED, BASIC}:
        if not any(_same_token(given, secret, how.scheme) for secret in secrets):
            raise SignatureRefused("the token is wrong")
        return None if how.bodies_repeat else _name(message.body)
    for secret in secrets:
        values = _Values(message, how, given, secret)
        said = values.signed()
        _check_time(values.time, message.received_at, how)
        found = list(islice(values.signatures(), MOST_SIGNATURES))
        check = _hmac(how) if how.scheme in HASHES else _by_public_key(how)
        keys = [Secret(key) for key in message.public_keys[:MOST_KEYS]] if how.keys is not None else [secret]
        if any(check(key, said, found) for key in keys):
            return None if values.time is None and how.bodies_repeat else _name(said)
    raise SignatureRefused("the signature is wrong")


def _same_token(given: str, secret: Secret, scheme: str) -> bool:
    wanted = secret.reveal().encode()
    if scheme == BASIC:
        kind, _, given = given.partition(" ")
        if kind.lower() != BASIC:
            return False
        given, wanted = given.strip(), base64.b64encode(wanted)
    return hmac.compare_digest(_bytes(given), wanted)


def _check_body_tokens(body: bytes, path: str, secrets: Sequence[Secret]) -> None:
    """Raise SignatureRefused unless `path` leads to at least one token and all tokens are correct."""
    try:
        found = [json.loads(body)]
    except (ValueError, RecursionError):
        raise SignatureRefused("the body is not JSON", missing=True) from None
    for step in path.split("."):
        if step == "*":
            if not all(isinstance(one, list) for one in found):
                raise SignatureRefused("the body has no token", missing=True)
            found = [item for one in found for item in one]
        else:
            found = [one.get(step) if isinstance(one, dict) else None for one in found]
    texts = [one for one in found if isinstance(one, str)]
    if not texts or len(texts) < len(found):
        raise SignatureRefused("the body has no token", missing=True)
    wanted = [secret.reveal().encode() for secret in secrets]
    if not all(
        any(hmac.compare_digest(text.encode("utf-8", "surrogatepass"), one) for one in wanted) for text in texts
    ):
        raise SignatureRefused("the token is wrong")


class _Values:
    """The values of a signed payload: reads them from the webhook and builds the signed bytes."""

    def __init__(self, message: IncomingWebhook, how: WebhookSignature, given: str, secret: Secret) -> None:
        self._message, self._how, self._secret = message, how, secret
        self._form = how.signed_payload or RAW
        self._parts = [part for part in re.split(r"[,;\s]+", given) if part]
        listed = any(_ELEMENT.fullmatch(part) for part in self._parts) and not how.prefix
        self._listed = listed and (bool(TIMES & set(_PLACE.findall(self._form))) or "is a list" in (how.note or ""))
        self._elements = [found.groups() for part in self._parts if (found := _ELEMENT.fullmatch(part))]
        self.time: str | None = None

    def signatures(self) -> Iterator[str]:
        """Yield the signatures of the webhook; if there are several, one must be valid."""
        if self._listed:
            yield from (text for name, text in self._elements if name not in TIMES)
        elif prefix := self._how.prefix:
            yield from (part[len(prefix) :] for part in self._parts if part.startswith(prefix))
        else:
            yield from self._parts

    def signed(self) -> bytes:
        """Return the signed bytes. Raises SignatureRefused if a part is missing."""
        if self._form == RAW:
            return self._message.body
        if self._form == FORM:
            return self._url_and_form()
        said, end = b"", 0
        for place in _PLACE.finditer(self._form):
            said += self._form[end : place.start()].encode() + self._value(place[1])
            end = place.end()
        return said + self._form[end:].encode()

    def _value(self, name: str) -> bytes:
        if name == RAW:
            return self._message.body
        if name == "method":
            return self._message.method.encode()
        if name == "secret":
            return self._secret.reveal().encode()
        if name == "crc32":
            return str(zlib.crc32(self._message.body)).encode()
        if name in {"uri", "notification url", "callback url"}:
            return self._message.url.encode()
        if name in TIMES:
            self.time = self._time()
            return _bytes(self.time)
        field = self._sibling("id") if name == "message id" else name
        text = self._header(field)
        if field.endswith("timestamp") or field.lower() == (self._how.timestamp_header or "").lower():
            self.time = text
        return _bytes(text)

    def _time(self) -> str:
        if self._listed:
            for name, text in self._elements:
                if name in TIMES:
                    return text
            raise SignatureRefused("the signature names no time of sending")
        return self._header(self._how.timestamp_header or self._sibling("timestamp"))

    def _sibling(self, what: str) -> str:
        """Return the name of the related header field: ``x-signature`` ▸ ``x-timestamp``."""
        return (self._how.header or "").replace("signature", what)

    def _header(self, name: str) -> str:
        text = self._message.headers.get(name.lower(), "")
        if not text:
            raise SignatureRefused(f"the field {name} is missing", missing=True)
        return text

    def _url_and_form(self) -> bytes:
        from urllib.parse import parse_qsl

        text = self._message.body.decode("utf-8", "replace")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise SignatureRefused(f"its form has more than {MOST_FIELDS} fields") from None
        return (self._message.url + "".join(name + text for name, text in sorted(pairs))).encode()


def _hmac(how: WebhookSignature) -> Callable[[Secret, bytes, Sequence[str]], bool]:
    algorithm = HASHES[how.scheme]
    coded = (how.key or "").startswith("base64-decoded")

    def check(secret: Secret, said: bytes, given: Sequence[str]) -> bool:
        key = _decoded(secret.reveal()) if coded else secret.reveal().encode()
        wanted = hmac.digest(key, said, algorithm)
        text = base64.b64encode(wanted) if how.encoding == "base64" else wanted.hex().encode()
        offered = (_bytes(one if how.encoding == "base64" else one.lower()) for one in given)
        return any(hmac.compare_digest(text, one) for one in offered)

    return check


def _by_public_key(how: WebhookSignature) -> Callable[[Secret, bytes, Sequence[str]], bool]:
    right = PUBLIC_KEYS.get(how.scheme)

    def fits(secret: Secret, said: bytes, given: str) -> bool:
        try:
            signature = base64.b64decode(given) if how.encoding == "base64" else bytes.fromhex(given)
        except ValueError:
            return False
        return right is not None and right(secret.reveal(), signature, said)

    return lambda secret, said, given: any(fits(secret, said, one) for one in given)


def _standard(message: IncomingWebhook, how: WebhookSignature, given: str, secrets: Sequence[Secret]) -> str:
    """Verify Standard Webhooks or Svix, its origin: ``id.timestamp.body``, with one or several signatures."""
    family = STANDARD[how.scheme]
    named, at = (message.headers.get(f"{family}-{what}", "") for what in ("id", "timestamp"))
    if not named or not at:
        raise SignatureRefused(f"the fields {family}-id and {family}-timestamp are missing", missing=True)
    _check_time(at, message.received_at, how)
    said = _bytes(f"{named}.{at}.") + message.body
    wanted = [hmac.digest(_decoded(secret.reveal().removeprefix("whsec_")), said, "sha256") for secret in secrets]
    texts = [base64.b64encode(one) for one in wanted]
    offered = [_bytes(part.partition(",")[2]) for part in given.split() if part.startswith("v1,")][:MOST_SIGNATURES]
    if not any(hmac.compare_digest(one, text) for one in offered for text in texts):
        raise SignatureRefused("the signature is wrong")
    return _name(_bytes(named))


def _check_time(text: str | None, now: datetime, how: WebhookSignature) -> None:
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
            raise SignatureRefused("the time of sending cannot be read") from None
        sent_at = (moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)).timestamp()
    if abs(now.timestamp() - sent_at) > (how.tolerance_s or TOLERANCE_S):
        raise SignatureRefused("its timestamp is too old or in the future")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()


def _bytes(text: str) -> bytes:
    """Return the original bytes; header bytes that are not UTF-8 were decoded to lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _name(said: bytes) -> str:
    return hashlib.sha256(said).hexdigest()


def signing_secrets(
    how: WebhookSignature | None, own: Sequence[Secret], client_secret: Secret | None
) -> Sequence[Secret]:
    """Return the secrets that verify a webhook. Some providers sign with the app's client secret."""
    if how is not None and how.key in BY_CLIENT_SECRET and client_secret:
        return (Secret(client_secret.reveal() + how.key_suffix) if how.key_suffix else client_secret,)
    return own


# ── Webhooks of providers without their own script: the gateway verifies the sender, the application finds the connection.

LONGEST_QUESTION: Final = 16 * 1024  # maximum bytes of a body that verifies the address


def signed_webhook(message: IncomingWebhook, how: WebhookSignature | None, secrets: Sequence[Secret]) -> Routing:
    """Verify and route a webhook. Raises SignatureRefused, also if there is a secret but the entry does not describe a
    signature."""
    if secrets and how is None:
        raise SignatureRefused("there is no way to check it")
    seen = verified(message, how, secrets) if secrets and how is not None else None
    reply = _reply(message.body, secrets[0] if secrets else None)
    return Routing((), None if reply is not None else seen, reply)


def _reply(body: bytes, secret: Secret | None) -> dict[str, Any] | None:
    """Return the answer to a provider that verifies the address before it sends webhooks, in its own format; else None."""
    if len(body) > LONGEST_QUESTION:
        return None
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, Mapping):
        return None
    challenge, inner = asked.get("challenge"), asked.get("payload")
    if asked.get("type") == "url_verification" and isinstance(challenge, str):
        return {"challenge": challenge}
    if asked.get("event") == "endpoint.url_validation" and isinstance(inner, Mapping) and secret:
        token = str(inner.get("plainToken", ""))
        return {
            "plainToken": token,
            "encryptedToken": hmac.digest(secret.reveal().encode(), token.encode(), "sha256").hex(),
        }
    if asked.keys() == {"challenge"} and isinstance(challenge, str):
        return {"challenge": challenge}
    return {"type": 1} if asked.get("type") == 1 and "application_id" in asked else None
