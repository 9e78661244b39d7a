"""Signs operators in with their identity provider, by an authorization code (with PKCE) and an ID token.

`state`, `nonce` and the PKCE verifier are derived from one random cookie, which ties the callback to the browser that
started the sign-in. So the gateway stores nothing before somebody has signed in, and refuses a callback in another
browser.
"""

import base64
import hmac
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gateway import clock
from gateway.config.model import ConsoleConfig, ConsoleOidcConfig
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.errors import Forbidden, GatewayError, Unavailable
from gateway.oauth.authorize import challenge, with_params
from gateway.oauth.token_requests import OAuthClient, authenticate, encode_call
from gateway.records.console import ConsoleRole
from gateway.secret import Secret

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

METADATA_PATH: Final = "/.well-known/openid-configuration"
CACHE_LIFE: Final = timedelta(minutes=10)
# If a token names an unknown key, cached keys of at least this age are loaded again.
RELOAD_AFTER: Final = timedelta(seconds=30)
CLOCK_SKEW_S: Final = 30
SIGN_IN_S: Final = 600
RESPONSE_BYTES: Final = 256 << 10
# Only asymmetric algorithms are allowed: the keys are public, so a signature made with one of them as a shared secret
# would prove nothing.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_NAME_CHARS: Final = 64


class SignInRefused(Forbidden):
    """The identity provider's response does not prove who signed in.

    `reason`: the reason for the log, with the details in `details`. `reason` is empty if only the browser caused the
    failure; then nothing is logged.
    """

    def __init__(self, message: str, reason: str = "", **details: object) -> None:
        super().__init__("forbidden", message)
        self.reason = reason
        self.details = details


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """The metadata and keys of an identity provider.

    `accepts_basic`: whether the token endpoint accepts HTTP Basic client authentication. `read_at`: when the metadata was
    read.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    accepts_basic: bool
    keys: "KeySet"
    read_at: datetime


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that has started. `cookie`: 43 random characters, a dot, and the Unix time of the start in seconds."""

    cookie: Secret

    @classmethod
    def new(cls) -> "PendingSignIn":
        return cls(Secret(f"{secrets.token_urlsafe(32)}.{int(clock.now().timestamp())}"))

    def derived_value(self, purpose: str) -> str:
        """Return 43 characters derived from the cookie. `purpose`: ``state``, ``nonce`` or ``verifier``."""
        digest = hmac.digest(self.cookie.reveal().encode(), f"console {purpose}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    @property
    def is_valid(self) -> bool:
        random_text, _, start_text = self.cookie.reveal().partition(".")
        return (
            len(random_text) >= 43
            and start_text.isascii()
            and start_text.isdigit()
            and 0 <= clock.now().timestamp() - int(start_text[:12]) <= SIGN_IN_S
        )


_issuer_by_url: dict[str, OidcIssuer] = {}


async def issuer_of(egress: Egress, config: ConsoleOidcConfig, *, must_be_recent: bool = False) -> OidcIssuer:
    """Return the configured issuer's metadata and keys (OpenID Connect Discovery 1.0 §4), cached for `CACHE_LIFE`.

    `must_be_recent`: true if a token names an unknown key; then cached keys are used only until they are `RELOAD_AFTER`
    old. Raises Unavailable.
    """
    assert config.issuer is not None
    cached_issuer, now = _issuer_by_url.get(config.issuer), clock.now()
    if cached_issuer is not None and now - cached_issuer.read_at < (RELOAD_AFTER if must_be_recent else CACHE_LIFE):
        return cached_issuer
    from joserfc.errors import JoseError

    metadata = await _fetch_json(egress, config.issuer + METADATA_PATH)
    try:
        if str(metadata["issuer"]).rstrip("/") != config.issuer:
            raise _provider_error(
                f"Its metadata has the issuer {metadata['issuer']}, but console.oidc.issuer is {config.issuer}"
            )
        authorization_endpoint, token_endpoint, jwks_uri = (
            _endpoint(metadata, name, config.issuer)
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        )
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        keys = (await _fetch_json(egress, jwks_uri))["keys"]
        issuer = OidcIssuer(
            str(metadata["issuer"]),
            authorization_endpoint,
            token_endpoint,
            jwks_uri,
            accepts_basic="client_secret_basic" in methods,
            keys=signature_keys(keys),
            read_at=now,
        )
    except (KeyError, TypeError, AttributeError, ValueError, JoseError) as fault:
        raise _provider_error(_metadata_fault(fault)) from fault
    _issuer_by_url[config.issuer] = issuer
    return issuer


def _metadata_fault(fault: Exception) -> str:
    """Describe what is wrong with the metadata or the keys of the identity provider."""
    match fault:
        case KeyError():
            return f"Its metadata or its key set has no '{fault.args[0]}'"
        case ValueError():
            return f"Its metadata or its key set {fault}"
    return (
        f"Its metadata or its key set is not of the form that OpenID Connect Discovery defines ({type(fault).__name__})"
    )


def signature_keys(jwks: list[dict[str, Any]]) -> "KeySet":
    """Return the keys for signatures, without the keys that joserfc cannot use (RFC 7517 §5).

    Raises ValueError if no key is left.
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    keys = []
    for jwk in jwks:
        if jwk.get("kty") in ("RSA", "EC", "OKP") and jwk.get("use", "sig") == "sig":
            with suppress(JoseError, KeyError, TypeError, ValueError):
                keys += KeySet.import_key_set({"keys": [jwk]}).keys
    if not keys:
        raise ValueError("has no usable key for signatures")
    return KeySet(keys)


def _endpoint(metadata: dict[str, Any], name: str, issuer: str) -> str:
    """Return the endpoint's URL.
    Raises KeyError if `metadata` has no such endpoint. Raises ValueError if its value is not a URL, or is a URL with
    http although the issuer has https.
    """
    url = metadata[name]
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise ValueError(f"has no URL in '{name}'")
    if issuer.startswith("https://") and not url.startswith("https://"):
        raise ValueError(f"has a URL in '{name}' that does not use https")
    return url


async def _fetch_json(egress: Egress, url: str) -> Any:
    """Return the JSON at `url`. Raises Unavailable."""
    try:
        response = await egress.fetch("GET", url, headers={"Accept": "application/json"}, limit_bytes=RESPONSE_BYTES)
    except EgressError as fault:
        raise _provider_error(str(fault)) from fault
    if response.status != 200:
        raise _provider_error(f"{url} responded with status {response.status}")
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError) as fault:
        raise _provider_error(f"{url} did not return JSON") from fault


def _provider_error(reason: str) -> GatewayError:
    return Unavailable(
        "token_endpoint_unavailable",
        f"The identity provider cannot be used. {reason.rstrip('.')}. To sign in without it, open the link of `gateway console`.",
        retry_after_s=10,
    )


async def authorization_url(
    egress: Egress, config: ConsoleOidcConfig, pending: PendingSignIn, redirect_uri: str
) -> str:
    """Return the identity provider's URL at which the browser signs in. Raises Unavailable."""
    issuer = await issuer_of(egress, config)
    query = {
        "response_type": "code",
        "client_id": config.client_id or "",
        "redirect_uri": redirect_uri,
        "scope": " ".join(config.scopes),
        "state": pending.derived_value("state"),
        "nonce": pending.derived_value("nonce"),
        "code_challenge": challenge(pending.derived_value("verifier")),
        "code_challenge_method": "S256",
    }
    return with_params(issuer.authorization_endpoint, query)


async def fetch_claims(
    egress: Egress, config: ConsoleOidcConfig, pending: PendingSignIn, query: Mapping[str, str], redirect_uri: str
) -> Mapping[str, Any]:
    """Exchange the code of the callback for an ID token; return its claims. Raises SignInRefused, Unavailable."""
    if not pending.is_valid or not hmac.compare_digest(
        query.get("state", "").encode(), pending.derived_value("state").encode()
    ):
        raise SignInRefused("This sign-in was not started in this browser, or is older than 10 minutes. Start again.")
    issuer = await issuer_of(egress, config)
    if query.get("iss", issuer.issuer) != issuer.issuer:
        raise SignInRefused("The response came from another identity provider. Start again.")
    if "error" in query or not query.get("code"):
        reason = f"{query.get('error', '')[:64]} {query.get('error_description', '')[:200]}".strip()
        raise SignInRefused(f"The sign-in at the identity provider failed{f': {reason}' if reason else ''}.")
    token = await _id_token(egress, config, issuer, pending, query["code"], redirect_uri)
    return await _validate_id_token(egress, config, token, pending.derived_value("nonce"))


async def _id_token(
    egress: Egress, config: ConsoleOidcConfig, issuer: OidcIssuer, pending: PendingSignIn, code: str, redirect_uri: str
) -> str:
    """Exchange the code for an ID token; return the token, not validated. Raises SignInRefused, Unavailable."""
    headers = {"Accept": "application/json"}
    params = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": pending.derived_value("verifier"),
    }
    client = OAuthClient(config.client_id or "", config.client_secret)
    authenticate(client, "basic" if issuer.accepts_basic else "body", headers, params)
    call = encode_call("POST", issuer.token_endpoint, headers, params, "form")
    try:
        response = await egress.fetch(
            call.method, call.url, headers=call.headers, body=call.body, limit_bytes=RESPONSE_BYTES
        )
    except EgressError as fault:
        raise _provider_error(str(fault)) from fault
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        body = {}
    token = body.get("id_token") if isinstance(body, dict) else None
    if response.status != 200 or not isinstance(token, str):
        reason = str(body.get("error", ""))[:64] if isinstance(body, dict) else ""
        raise SignInRefused(
            f"The identity provider returned no ID token ({reason or response.status}).",
            "token_request_failed",
            status=response.status,
            error=reason,
        )
    return token


async def _validate_id_token(egress: Egress, config: ConsoleOidcConfig, token: str, nonce: str) -> Mapping[str, Any]:
    """Return the claims of a valid ID token (OpenID Connect Core §3.1.3.7). Raises SignInRefused, Unavailable."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwt import JWTClaimsRegistry

    claims: Mapping[str, Any] | None = None
    for must_be_recent in (False, True):  # the second attempt uses keys that were loaded again
        issuer = await issuer_of(egress, config, must_be_recent=must_be_recent)
        try:
            claims = jwt.decode(token, issuer.keys, algorithms=list(ALGORITHMS)).claims
            break
        except (JoseError, ValueError, TypeError) as fault:
            if must_be_recent:
                raise _refused_error(type(fault).__name__) from fault
    assert claims is not None
    registry = JWTClaimsRegistry(
        now=lambda: int(clock.now().timestamp()),
        leeway=CLOCK_SKEW_S,
        iss={"essential": True, "value": issuer.issuer},
        aud={"essential": True, "value": config.client_id or ""},
        exp={"essential": True},
        iat={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        registry.validate(dict(claims))
    except (JoseError, ValueError, TypeError) as fault:
        raise _refused_error(str(fault)) from fault
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != config.client_id:
        raise _refused_error("azp")
    return claims


def _refused_error(reason: str) -> SignInRefused:
    return SignInRefused(
        "The identity provider's ID token is not valid. See console_sign_in_refused in the log.",
        "id_token",
        detail=reason,
    )


def person_name(claims: Mapping[str, Any]) -> str:
    """Return the person's name for logs and the audit trail; ``unknown`` if no claim has one."""
    for claim in ("preferred_username", "email", "sub"):
        if isinstance(text := claims.get(claim), str) and (name := printable_name(text)):
            return name
    return "unknown"


def printable_name(text: str) -> str:
    """Return at most `MAX_NAME_CHARS` characters of `text`, without control characters. The result can be empty."""
    return "".join(character for character in text if character.isprintable()).strip()[:MAX_NAME_CHARS]


def role_of(config: ConsoleConfig, groups: object) -> ConsoleRole | None:
    """Return the role of a person in `groups`, a list or a single group; None if none of these groups may sign in."""
    group_names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    names = {name for name in group_names if isinstance(name, str)}
    if names & set(config.operators):
        return "operator"
    return "viewer" if names & set(config.viewers) else None
