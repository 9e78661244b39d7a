"""Builds the authorization URL with PKCE and nonce, and checks the nonce and issuer of the response."""

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode, urlsplit

from gateway.oauth.token_requests import OAuthEntry, rename_params
from gateway.oauth.token_responses import jwt_claims

# ── Proof Key for Code Exchange: only the client that started an authorization can exchange its code (RFC 7636).


def new_verifier() -> str:
    """Return a code verifier: 43 unreserved characters from 256 random bits (RFC 7636 §4.1)."""
    return secrets.token_urlsafe(32)


def challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636 §4.2); the gateway never uses `plain`."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


# ── The nonce of OpenID Connect binds an ID token to the authorization that requested the token (OpenID Connect Core
# §3.1.2.1). This code reads only the nonce of an ID token.

OPENID_SCOPE: Final = "openid"


def requests_id_token(scopes: Sequence[str], params: Mapping[str, str]) -> bool:
    """Return whether `scopes`, or a ``scope`` among the entry's and the caller's `params`, request an ID token.

    The response type is always ``code``, so the callback itself never holds an ID token.
    """
    return OPENID_SCOPE in scopes or OPENID_SCOPE in params.get("scope", "").replace(",", " ").split()


def new_nonce() -> str:
    """Return a nonce of 256 random bits for one authorization."""
    return secrets.token_urlsafe(32)


def nonce_acceptable(sent_nonce: str, response: Mapping[str, Any]) -> bool:
    """Return whether the ``id_token`` of a token response has the nonce that was sent.

    Also returns True if the response has no ID token or no readable nonce, because some providers (LinkedIn) leave the
    nonce out. PKCE and `state` still protect such a flow.
    """
    returned_nonce = jwt_claims(response.get("id_token")).get("nonce")
    return returned_nonce is None or compare_digest(
        str(returned_nonce).encode("utf-8", "surrogatepass"), sent_nonce.encode()
    )


PROTOCOL_PARAMETERS: Final = frozenset(
    {
        "response_type",
        "response_mode",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
        "code_challenge_method",
        "request",
        "request_uri",
    }
)


def authorization_url(
    provider: OAuthEntry,
    consent_url: str,
    *,
    client_id: str,
    redirect_uri: str,
    scopes: Sequence[str],
    state: str | None,
    code_challenge: str | None,
    params: Mapping[str, str],
) -> str:
    """Return `consent_url` (the entry's `authorization_url` with settings filled in) with the request in its query.

    Protocol parameters are written last, so that neither the entry nor a caller can replace them. `params`: extra
    parameters of the entry and the caller. An existing query of `consent_url` is kept. `state`: None if the query of
    `redirect_uri` contains the state. `code_challenge`: None without PKCE.
    """
    query = dict(params)
    query |= {"response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri}
    if state is not None:
        query["state"] = state
    if scopes:
        query["scope"] = joined_scopes(provider, scopes)
    if code_challenge is not None:
        query |= {"code_challenge": code_challenge, "code_challenge_method": "S256"}
    query = rename_params(query, provider.authorization_param_renames)
    plus_parameter = (
        provider.authorization_param_renames.get("scope", "scope") if provider.scope_separator == PLUS else None
    )
    if provider.authorization_url_fragment is not None:  # the consent page is a script that reads its own fragment
        base = consent_url.partition("#")[0]
        return f"{base}#{with_params(provider.authorization_url_fragment, query, plus_parameter)}"
    return with_params(consent_url, query, plus_parameter)


PLUS: Final = "+"  # written without encoding in a URL's query, where "+" means a space


def joined_scopes(provider: OAuthEntry, scopes: Sequence[str]) -> str:
    """Return `scopes` as one parameter value, separated by the entry's separator or a space."""
    separator = provider.scope_separator or " "
    return (" " if separator == PLUS else separator).join(scopes)


def with_params(url: str, query: Mapping[str, str], plus_parameter: str | None = None) -> str:
    """Return `url` with `query` appended to its query. Spaces are written as ``%20``, or as ``+`` in the parameter with
    the name `plus_parameter`."""
    url, hash_, fragment = url.partition("#")
    pairs = (
        urlencode({name: text}, quote_via=quote_plus if name == plus_parameter else quote)
        for name, text in query.items()
    )
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(pairs)}{hash_}{fragment}"


def without_protocol_params(authorization_params: Mapping[str, str], renames: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a browser may add. Protocol parameters, which include the scopes, are removed: under
    their own names, and under the provider's names. `renames`: the entry's `authorization_param_renames`.
    """
    reserved = PROTOCOL_PARAMETERS | {
        renamed_to.lower() for name, renamed_to in renames.items() if name in PROTOCOL_PARAMETERS
    }
    return {name: value for name, value in authorization_params.items() if name.lower() not in reserved}


def scope_list(override: str | Sequence[str]) -> tuple[str, ...]:
    """Return the scopes of ``oauth_scopes_override``: a list, or a text separated by commas or spaces."""
    return tuple(filter(None, re.split(r"[,\s]+", override))) if isinstance(override, str) else tuple(override)


def issuer_accepted(provider: OAuthEntry, consent_url: str, iss: str | None) -> bool:
    """Return whether the `iss` of an authorization response belongs to this provider (RFC 9207 §2.4).

    If the entry has an `issuer`, `iss` must equal it. Otherwise `iss`, if sent, must have the origin of `consent_url`.
    """
    if provider.issuer is not None:
        return iss == provider.issuer
    return iss is None or origin(iss) == origin(consent_url)


def origin(url: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port, with default ports filled in. Return None if `url` is not an absolute http or https
    URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return parts.scheme, parts.hostname.lower(), port or {"http": 80, "https": 443}[parts.scheme]
