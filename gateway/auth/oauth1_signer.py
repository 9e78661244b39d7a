"""Signs requests as OAuth 1 has it (RFC 5849 §3): a nonce and a time of its own for each, over what is really sent."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from gateway import clock
from gateway.auth.keys import pem
from gateway.errors import InvalidRequest
from gateway.records.upstream import UpstreamRequest
from gateway.secret import Secret

FORM: Final = "application/x-www-form-urlencoded"
Params = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class OAuth1Keys:
    """Whose signature it is. For ``RSA-SHA1`` `client_secret` is the private key (RFC 5849 §3.4.3)."""

    client_key: str
    client_secret: Secret = field(repr=False)
    token: str | None = None
    token_secret: Secret | None = field(default=None, repr=False)
    method: str = "HMAC-SHA1"
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class OAuth1Signer:
    """Writes ``Authorization: OAuth …`` (RFC 5849 §3.5.1)."""

    keys: OAuth1Keys

    @property
    def fields(self) -> tuple[str, ...]:
        return ("authorization",)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return ()

    def wants_body(self, request: UpstreamRequest) -> bool:
        """Parameters of a form are signed, other bodies are not (RFC 5849 §3.4.1.3.1)."""
        return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        form = (body or b"").decode("utf-8", "replace") if self.wants_body(request) else ""
        value = authorization(self.keys, request.method, request.url, form)
        request.headers.popall("authorization", None)
        request.headers["Authorization"] = value


def authorization(
    keys: OAuth1Keys,
    method: str,
    url: str,
    form: str = "",
    *,
    extra: Mapping[str, str] | None = None,
    nonce: str | None = None,
    timestamp: int | None = None,
) -> str:
    """The field's value for a request to `url` with the parameters of its query and of `form`.

    `extra` are further protocol parameters: ``oauth_callback``, ``oauth_verifier``. Raises InvalidRequest where the key
    cannot sign.
    """
    from oauthlib.oauth1.rfc5849 import parameters  # here and below: few workers ever sign, and it costs each 2 MB

    given = {
        "oauth_consumer_key": keys.client_key,
        "oauth_signature_method": keys.method,
        "oauth_timestamp": str(timestamp if timestamp is not None else int(clock.now().timestamp())),
        "oauth_nonce": nonce or secrets.token_hex(16),
        "oauth_version": "1.0",
        **({"oauth_token": keys.token} if keys.token else {}),
        **(extra or {}),
    }
    sent = [*given.items(), ("oauth_signature", signature_of(keys, method, url, form, given))]
    headers = parameters.prepare_headers(sent, {}, realm=keys.realm)
    return str(headers["Authorization"])


def signature_of(keys: OAuth1Keys, method: str, url: str, form: str, protocol: Mapping[str, str]) -> str:
    """``oauth_signature`` over the query of `url`, the parameters of `form` and those of the protocol."""
    return _signature(
        keys, base_string(method, url, [*_pairs(url.partition("?")[2]), *_pairs(form), *protocol.items()])
    )


def base_string(method: str, url: str, params: Params) -> str:
    """What is signed (RFC 5849 §3.4.1); the query of `url` counts only as far as it is among `params`."""
    from oauthlib.oauth1.rfc5849 import signature

    uri = signature.base_string_uri(url.partition("?")[0])
    # Not oauthlib's own collecting: it refuses characters in queries that providers accept.
    return str(signature.signature_base_string(method, uri, signature.normalize_parameters(params)))


def _pairs(text: str) -> Params:
    return parse_qsl(text, keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class _Secrets:
    """Named as oauthlib reads them."""

    client_secret: str
    resource_owner_secret: str


def _signature(keys: OAuth1Keys, text: str) -> str:
    from oauthlib.oauth1.rfc5849 import signature

    held = _Secrets(keys.client_secret.reveal(), keys.token_secret.reveal() if keys.token_secret else "")
    match keys.method:
        case "HMAC-SHA1":
            return str(signature.sign_hmac_sha1_with_client(text, held))
        case "HMAC-SHA256":
            return str(signature.sign_hmac_sha256_with_client(text, held))
        case "PLAINTEXT":
            return str(signature.sign_plaintext(held.client_secret, held.resource_owner_secret))
        case _:
            return _signed_by_rsa(held.client_secret, text)


def _signed_by_rsa(private_key: str, text: str) -> str:
    """RSASSA-PKCS1-v1_5 over SHA-1, as RFC 5849 §3.4.3 prescribes; oauthlib would want another JWT library for it."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    try:
        key = serialization.load_pem_private_key(pem(private_key).encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InvalidRequest(
            "unresolved_setting", "The integration's private_key is no RSA key in PEM; RSA-SHA1 signs with one."
        )
    return base64.b64encode(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA1())).decode("ascii")  # noqa: S303
