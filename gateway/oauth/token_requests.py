"""Builds the requests to a token endpoint, and proves there who our client is."""

import base64
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, urlencode

from gateway.records.provider_call import ProviderCall
from gateway.secret import Secret

# ── What OAuth 2.0 must know of a provider: the few fields of a catalog entry, named here so that neither floor needs
# the other.


class TokenPlaces(Protocol):
    """Where a token answer keeps what RFC 6749 §5.1 has at the top level."""

    @property
    def token_path(self) -> str | None: ...
    @property
    def refresh_token_path(self) -> str | None: ...
    @property
    def expiry_path(self) -> str | None: ...
    @property
    def expiry_kind(self) -> str | None: ...


class OAuthEntry(Protocol):
    """`gateway.catalog.provider.Provider` fits; the fields are documented there."""

    @property
    def issuer(self) -> str | None: ...
    @property
    def scope_separator(self) -> str | None: ...
    @property
    def authorization_param_renames(self) -> Mapping[str, str]: ...
    @property
    def authorization_url_fragment(self) -> str | None: ...
    @property
    def token_param_renames(self) -> Mapping[str, str]: ...
    @property
    def refresh_param_renames(self) -> Mapping[str, str]: ...
    @property
    def token_request_method(self) -> str | None: ...
    @property
    def token_request_auth_method(self) -> str | None: ...
    @property
    def body_format(self) -> str | None: ...
    @property
    def token_response(self) -> TokenPlaces | None: ...
    @property
    def alternate_access_token_response_path(self) -> str | None: ...
    @property
    def expires_in_unit(self) -> str | None: ...
    @property
    def token_ttl(self) -> int | None: ...


# ── How the integration's client shows itself to the token endpoint (RFC 6749 §2.3.1): exactly one way a request.

BASIC_AND_ID: Final = "basic_and_id"  # RFC 6749 §3.2.1 allows the ID as a parameter besides; it proves nothing
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The OAuth client that an integration configured. A public client has no secret.

    `assertion`: the signed proof that stands in for a secret (RFC 7523 §2.2), made for one request.
    """

    client_id: str
    client_secret: Secret | None = field(default=None, repr=False)
    assertion: Secret | None = field(default=None, repr=False)

    def secrets(self) -> tuple[str, ...]:
        """Return the values that an answer may quote and nobody may see."""
        return tuple(one.reveal() for one in (self.client_secret, self.assertion) if one is not None)


def authenticate(
    client: OAuthClient, method: str | None, headers: MutableMapping[str, str], params: MutableMapping[str, str]
) -> None:
    """Write the client's identity into `headers` (``basic``) or `params` (``body``, also when the entry says nothing).

    ``private_key_jwt`` sends the assertion, ``custom`` nothing, since the entry's own parameters do it. A client without
    a secret is public and sends only its `client_id` in the body (RFC 6749 §3.2.1).
    """
    if method == "custom":
        return
    if client.assertion is not None:
        params["client_id"] = client.client_id
        params["client_assertion_type"] = ASSERTION_TYPE
        params["client_assertion"] = client.assertion.reveal()
    elif client.client_secret is None or method == "none":
        params["client_id"] = client.client_id
    elif method in {"basic", BASIC_AND_ID}:
        if method == BASIC_AND_ID:
            params["client_id"] = client.client_id
        # Both halves are form-encoded before they are joined, so that a colon in the ID cannot split them (RFC 6749 §2.3.1).
        # A space is %20 and not +: each form decoder reads it, and so do servers that only decode percent signs (Authlib).
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret.reveal(), safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    else:
        params["client_id"] = client.client_id
        params["client_secret"] = client.client_secret.reveal()


NONE: Final[Mapping[str, str]] = {}


def code_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    *,
    code: str,
    redirect_uri: str,
    code_verifier: str | None,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
) -> ProviderCall:
    """Exchange an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.5). `params`: the entry's `token_params`, filled in."""
    grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
    if code_verifier is not None:
        grant["code_verifier"] = code_verifier
    return token_request(provider, url, client, {**params, **grant}, headers, secrets=(code, code_verifier or ""))


def refresh_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    *,
    refresh_token: str,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
    method: str = "POST",
    other_grant: bool = False,
) -> ProviderCall:
    """Refresh an access token (RFC 6749 §6). `params`: the entry's `refresh_params`, else its `token_params`, filled in.

    `other_grant`: what is exchanged is not a refresh token, and `params` say what grant that is.
    """
    grant = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    renames = provider.refresh_param_renames or provider.token_param_renames
    return token_request(
        provider,
        url,
        client,
        {**grant, **params} if other_grant else {**params, **grant},
        headers,
        secrets=(refresh_token,),
        renames=renames,
        method=method,
    )


def client_credentials_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    *,
    scope: str | None,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
) -> ProviderCall:
    """Ask for a token of the client's own (RFC 6749 §4.4.2). The entry's `params` win: some name the grant differently."""
    grant = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    return token_request(provider, url, client, {**grant, **params}, headers, method=provider.token_request_method)


def token_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    params: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    secrets: tuple[str, ...] = (),
    renames: Mapping[str, str] | None = None,
    method: str | None = None,
) -> ProviderCall:
    """`params` with the client's proof, in the entry's encoding and spelling; `extra` are header fields of its own."""
    headers = {"Accept": "application/json", **extra}
    asked = dict(params)
    if not any(name.lower() == "authorization" for name in extra):
        # Exactly one authentication: an entry that writes the field itself has chosen its own.
        authenticate(client, provider.token_request_auth_method, headers, asked)
    asked = renamed(asked, provider.token_param_renames if renames is None else renames)
    known = (*secrets, *client.secrets())
    return encoded(
        method or provider.token_request_method or "POST", url, headers, asked, provider.body_format, secrets=known
    )


def renamed(params: Mapping[str, str], renames: Mapping[str, str]) -> dict[str, str]:
    """`params` under the provider's names; what has an empty one is left out."""
    spelt = {renames.get(name, name): value for name, value in params.items()}
    spelt.pop("", None)
    return spelt


def encoded(
    method: str,
    url: str,
    headers: Mapping[str, str],
    params: Mapping[str, object],
    body_format: str | None,
    *,
    secrets: tuple[str, ...] = (),
) -> ProviderCall:
    """A call with `params` as ``form`` (also where `body_format` says nothing), ``json`` or ``query``.

    GET has no body, so its parameters are a query whatever `body_format` says. Nested values are for JSON alone.
    """
    if body_format == "query" or method in {"GET", "HEAD"}:
        query = urlencode(params)
        joined = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        return ProviderCall(joined, headers, None if method in {"GET", "HEAD"} else b"", secrets, method)
    if body_format == "json":
        return ProviderCall(url, _typed(headers, "application/json"), json.dumps(params).encode(), secrets, method)
    kind = "application/x-www-form-urlencoded"
    return ProviderCall(url, _typed(headers, kind), urlencode(params).encode("ascii"), secrets, method)


def _typed(headers: Mapping[str, str], kind: str) -> dict[str, str]:
    """`headers` with `kind` as their content type, unless they name one."""
    if any(name.lower() == "content-type" for name in headers):
        return dict(headers)
    return {**headers, "Content-Type": kind}
