"""OAUTH1: the end user consents at the provider, and every request is signed with the token's secret (RFC 5849)."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, member_values
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Dialogue, Granted, GrantingMode, Signer
from gateway.auth.oauth2 import captured_settings
from gateway.auth.pasted_keys import wrapped_pem
from gateway.auth.provider_responses import TEMPORARY_STATUSES, refusal_text, safe_text
from gateway.catalog.provider import Provider
from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.http.body_members import FORM
from gateway.oauth.authorize import with_params
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable, retry_after
from gateway.private_keys import private_key_in
from gateway.records.provider_call import ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret

# ── Signs each request as OAuth 1 defines (RFC 5849 §3): with its own nonce and time, over exactly the bytes sent.

MAX_PARAMETERS: Final = 10_000  # limited, because sorting the parameters blocks the event loop
Params = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class OAuth1Keys:
    """The keys of an OAuth 1.0 signature. For ``RSA-SHA1``, `client_secret` is the private key (RFC 5849 §3.4.3)."""

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
        """Return True for a form, because its parameters are signed. Other bodies are not signed (RFC 5849
        §3.4.1.3.1)."""
        return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        form = (body or b"").decode("utf-8", "replace") if self.wants_body(request) else ""
        if form.count("&") >= MAX_PARAMETERS:
            raise BodyTooLarge(
                "body_too_large",
                f"OAuth 1.0 signs each parameter of a form, and this one has more than {MAX_PARAMETERS}. Send it in "
                "parts.",
            )
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
    """Return the value of ``Authorization`` for a request to `url` with the parameters of its query and of `form`.

    `extra`: further protocol parameters (``oauth_callback``, ``oauth_verifier``). Raises InvalidRequest if the key
    cannot sign.
    """
    from oauthlib.oauth1.rfc5849 import (
        parameters,  # lazy import, as below: few workers ever sign, and the module costs 2 MB per worker
    )

    protocol = {
        "oauth_consumer_key": keys.client_key,
        "oauth_signature_method": keys.method,
        "oauth_timestamp": str(timestamp if timestamp is not None else int(clock.now().timestamp())),
        "oauth_nonce": nonce or secrets.token_hex(16),
        "oauth_version": "1.0",
        **({"oauth_token": keys.token} if keys.token else {}),
        **(extra or {}),
    }
    signed_parameters = [*protocol.items(), ("oauth_signature", oauth_signature(keys, method, url, form, protocol))]
    headers = parameters.prepare_headers(signed_parameters, {}, realm=keys.realm)
    return str(headers["Authorization"])


def oauth_signature(keys: OAuth1Keys, method: str, url: str, form: str, protocol: Mapping[str, str]) -> str:
    """Return ``oauth_signature``, which covers the query of `url`, the parameters of `form` and the `protocol`
    parameters."""
    return _signature(
        keys, base_string(method, url, [*_pairs(url.partition("?")[2]), *_pairs(form), *protocol.items()])
    )


def base_string(method: str, url: str, params: Params) -> str:
    """Return the text to sign (RFC 5849 §3.4.1). The query of `url` is ignored, so `params` must contain its
    parameters."""
    from oauthlib.oauth1.rfc5849 import signature

    uri = signature.base_string_uri(url.partition("?")[0])
    # oauthlib's own parameter collection is not used: it refuses characters that providers accept in queries.
    return str(signature.signature_base_string(method, uri, signature.normalize_parameters(params)))


def _pairs(text: str) -> Params:
    return parse_qsl(text, keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class _Secrets:
    """The two secrets, under the attribute names that oauthlib reads."""

    client_secret: str
    resource_owner_secret: str


def _signature(keys: OAuth1Keys, text: str) -> str:
    from oauthlib.oauth1.rfc5849 import signature

    credential = _Secrets(keys.client_secret.reveal(), keys.token_secret.reveal() if keys.token_secret else "")
    match keys.method:
        case "HMAC-SHA1":
            return str(signature.sign_hmac_sha1_with_client(text, credential))
        case "HMAC-SHA256":
            return str(signature.sign_hmac_sha256_with_client(text, credential))
        case "PLAINTEXT":
            return str(signature.sign_plaintext(credential.client_secret, credential.resource_owner_secret))
        case _:
            return _sign_with_rsa(credential.client_secret, text)


def _sign_with_rsa(private_key: str, text: str) -> str:
    """Sign with RSASSA-PKCS1-v1_5 and SHA-1 (RFC 5849 §3.4.3). oauthlib is not used here, because oauthlib would need
    another JWT library for this signature."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    try:
        key = private_key_in(wrapped_pem(private_key))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InvalidRequest(
            "unresolved_setting",
            "The integration's private_key is not an RSA key in PEM format. RSA-SHA1 needs one.",
        )
    return base64.b64encode(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA1())).decode("ascii")  # noqa: S303


# ── OAUTH1: the end user consents at the provider, and every request is signed with the token's secret (RFC 5849).

MAX_TOKEN_CHARS: Final = 2048
REFUSAL_PARAMETERS: Final = ("denied", "oauth_problem", "error")


class OAuth1(GrantingMode):
    """The credential is stored as ``{"type": "OAUTH1", "oauth_token", "oauth_token_secret", "raw"}``. The token does
    not expire."""

    name = "OAUTH1"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        credential: dict[str, Any] = {"type": self.name}
        for name in ("oauth_token", "oauth_token_secret"):
            credential[name] = fields.token(name, limit=MAX_TOKEN_CHARS)
        fields.finish("raw")
        return {**credential, "raw": {name: value for name, value in form.items() if name != "raw"}}

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        """Request temporary credentials (RFC 5849 §2.1) and return the consent page (§2.2)."""
        provider = context.provider
        callback = with_params(context.redirect_uri, {"state": authorization.state})
        form = context.texts(provider.request_params)
        keys = oauth1_keys(context.for_destinations(context.url("request_url")))
        request_token, _ = yield from self._request_credentials(
            context, "request_url", keys, {"oauth_callback": callback}, form
        )
        params = {
            **context.texts(provider.authorization_params),
            **authorization.params,
            "oauth_token": request_token["oauth_token"],
        }
        url = with_params(context.url("authorization_url"), {k: v for k, v in params.items() if v != "undefined"})
        flow_details = {name: request_token[name] for name in ("oauth_token", "oauth_token_secret")}
        return ConsentRedirect(url, flow_details)

    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        return "oauth_token" in query or any(name in query for name in REFUSAL_PARAMETERS)

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        """Exchange the verifier for token credentials (RFC 5849 §2.3)."""
        provider = context.provider
        refusal = next((query[name] for name in REFUSAL_PARAMETERS if name in query), None)
        if refusal is not None or not query.get("oauth_verifier"):
            raise InvalidRequest(
                "authorization_refused",
                f"{provider.display_name} did not grant access{f': {safe_text(refusal)}' if refusal else ''}. Nothing was "
                "changed; start again to allow it.",
            )
        if query.get("oauth_token") != flow_details["oauth_token"]:
            raise InvalidRequest("invalid_state", "The response belongs to another authorization. Start again.")
        token_context = context.for_destinations(context.url("token_url"))
        keys = oauth1_keys(token_context, flow_details["oauth_token"], Secret(flow_details["oauth_token_secret"]))
        response, _ = yield from self._request_credentials(
            context, "token_url", keys, {"oauth_verifier": query["oauth_verifier"]}, {}
        )
        credential = {"type": self.name, **{name: response[name] for name in ("oauth_token", "oauth_token_secret")}}
        return Granted({**credential, "raw": response}, captured_settings(provider, response, query))

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return member_values(credential)

    def signer(self, credential: Mapping[str, Any], context: AuthContext) -> Signer:
        return OAuth1Signer(oauth1_keys(context, credential["oauth_token"], Secret(credential["oauth_token_secret"])))

    @staticmethod
    def _request_credentials(
        context: AuthContext, url_field: str, keys: OAuth1Keys, extra: Mapping[str, str], form: Mapping[str, str]
    ) -> Dialogue[tuple[dict[str, str], Reply]]:
        url = context.url(url_field)
        body = urlencode(form)
        headers = {"Authorization": authorization(keys, "POST", url, body, extra=extra)}
        if body:
            headers["Content-Type"] = FORM
        secrets = [keys.client_secret, Secret(extra.get("oauth_verifier", ""))]
        secrets += [keys.token_secret] if keys.token_secret else []
        reply = yield context.with_secrets(ProviderCall(url, headers, body.encode()), secrets=secrets)
        return read_credentials(reply), reply


def oauth1_keys(context: AuthContext, token: str | None = None, token_secret: Secret | None = None) -> OAuth1Keys:
    """Return the integration's keys for requests to the destinations of `context`. `token` and `token_secret` are added
    if they are given."""
    client = context.client()
    method = context.provider.signature_method or "HMAC-SHA1"
    secret = client.client_secret or Secret("")
    if method == "RSA-SHA1":
        secret = context.integration.private_key or secret
    return OAuth1Keys(client.client_id, secret, token, token_secret, method)


def read_credentials(reply: Reply) -> dict[str, str]:
    """Return the token, its secret and the other parameters of a response (RFC 5849 §2.1, §2.3). Raises TokenRefused
    after a refusal, and TokenUnavailable after a temporary error."""
    if reply.status in TEMPORARY_STATUSES or not (200 <= reply.status < 300 or 400 <= reply.status < 500):
        raise TokenUnavailable(f"the token endpoint returned {reply.status}", retry_after(reply.headers))
    response = dict(parse_qsl(reply.body.decode("utf-8", "replace").strip(), keep_blank_values=True))
    if 200 <= reply.status < 300 and response.get("oauth_token") and "oauth_token_secret" in response:
        return response
    provider_text = safe_text(response.get("oauth_problem", "")) or refusal_text(reply)
    raise TokenRefused(
        "credentials_refused", f"it returned {reply.status}" + (f": {provider_text}" if provider_text else "")
    )
