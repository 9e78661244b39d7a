"""Builds the requests to a token endpoint, with the authentication of the OAuth client."""

import base64
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, urlencode

from gateway.records.provider_call import ProviderCall
from gateway.secret import Secret

# ── The fields of a catalog entry that OAuth 2.0 needs, declared as protocols, so that this package and `catalog` do
# not import each other.


class TokenPaths(Protocol):
    """The paths in a token response to the members that RFC 6749 §5.1 puts at the top level."""

    @property
    def token_path(self) -> str | None: ...
    @property
    def refresh_token_path(self) -> str | None: ...
    @property
    def expiry_path(self) -> str | None: ...
    @property
    def expiry_kind(self) -> str | None: ...


class OAuthEntry(Protocol):
    """The OAuth fields of a catalog entry. `gateway.catalog.provider.Provider` implements and documents them."""

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
    def token_response(self) -> TokenPaths | None: ...
    @property
    def alternate_access_token_response_path(self) -> str | None: ...
    @property
    def expires_in_unit(self) -> str | None: ...
    @property
    def token_ttl(self) -> int | None: ...


# ── How the integration's client authenticates at the token endpoint (RFC 6749 §2.3.1): one method per request.

BASIC_AND_ID: Final = "basic_and_id"  # RFC 6749 §3.2.1 also allows the ID as a parameter
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """An OAuth client: the integration's, the end user's own, or one that a server registered. A public client has no
    secret.

    `assertion`: the signed assertion used instead of a secret (RFC 7523 §2.2), made for one request.
    """

    client_id: str
    client_secret: Secret | None = field(default=None, repr=False)
    assertion: Secret | None = field(default=None, repr=False)

    def secrets(self) -> tuple[str, ...]:
        """Return the secret values, to mask them if a response quotes them."""
        return tuple(secret.reveal() for secret in (self.client_secret, self.assertion) if secret is not None)


def authenticate(
    client: OAuthClient, method: str | None, headers: MutableMapping[str, str], params: MutableMapping[str, str]
) -> None:
    """Write the client's credentials into `headers` (``basic``) or `params` (``body``, the default).

    ``private_key_jwt`` sends the assertion. ``custom`` adds nothing, because the entry's own parameters authenticate. A
    client without a secret is public and sends only its `client_id` in the body (RFC 6749 §3.2.1).
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
        # ID and secret are form-encoded before they are joined, so that a colon in the ID cannot split the two wrongly
        # (RFC 6749 §2.3.1). A space is written as %20, not as +. Form decoders read both, but some servers (Authlib)
        # decode only percent signs.
        id_and_secret = f"{quote(client.client_id, safe='')}:{quote(client.client_secret.reveal(), safe='')}"
        headers["Authorization"] = "Basic " + base64.b64encode(id_and_secret.encode()).decode("ascii")
    else:
        params["client_id"] = client.client_id
        params["client_secret"] = client.client_secret.reveal()


NO_HEADERS: Final[Mapping[str, str]] = {}


def code_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    *,
    code: str,
    redirect_uri: str,
    code_verifier: str | None,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NO_HEADERS,
) -> ProviderCall:
    """Return the request that exchanges an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.5).

    `params`: the entry's `token_params`, filled in.
    """
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
    headers: Mapping[str, str] = NO_HEADERS,
    method: str = "POST",
    other_grant: bool = False,
) -> ProviderCall:
    """Return the request that refreshes an access token (RFC 6749 §6).

    `params`: the entry's `refresh_params`, else its `token_params`, filled in. `other_grant`: whether the exchanged
    token is not a refresh token; `params` then name the grant type.
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
    headers: Mapping[str, str] = NO_HEADERS,
) -> ProviderCall:
    """Return the request for the client's own token (RFC 6749 §4.4.2).

    The entry's `params` take precedence, because some entries name the grant differently.
    """
    grant = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    return token_request(provider, url, client, {**grant, **params}, headers, method=provider.token_request_method)


def token_request(
    provider: OAuthEntry,
    url: str,
    client: OAuthClient,
    params: Mapping[str, str],
    entry_headers: Mapping[str, str],
    *,
    secrets: tuple[str, ...] = (),
    renames: Mapping[str, str] | None = None,
    method: str | None = None,
) -> ProviderCall:
    """Return a request with `params` and the client's authentication, in the entry's encoding and with the entry's
    parameter names.

    `entry_headers`: the entry's own header fields.
    """
    headers = {"Accept": "application/json", **entry_headers}
    form = dict(params)
    if not any(name.lower() == "authorization" for name in entry_headers):
        # A request has only one authentication: if the entry writes ``Authorization`` itself, the client adds nothing.
        authenticate(client, provider.token_request_auth_method, headers, form)
    form = rename_params(form, provider.token_param_renames if renames is None else renames)
    secret_texts = (*secrets, *client.secrets())
    return encode_call(
        method or provider.token_request_method or "POST",
        url,
        headers,
        form,
        provider.body_format,
        secrets=secret_texts,
    )


def rename_params(params: Mapping[str, str], renames: Mapping[str, str]) -> dict[str, str]:
    """Return `params` under the provider's names. A parameter renamed to an empty name is left out."""
    renamed_params = {renames.get(name, name): value for name, value in params.items()}
    renamed_params.pop("", None)
    return renamed_params


def encode_call(
    method: str,
    url: str,
    headers: Mapping[str, str],
    params: Mapping[str, object],
    body_format: str | None,
    *,
    secrets: tuple[str, ...] = (),
) -> ProviderCall:
    """Return a call with `params`. `body_format` is ``form``, ``json`` or ``query``; None means ``form``.

    GET has no body, so its parameters go into the query, whatever `body_format` says. Only JSON supports nested values.
    """
    if body_format == "query" or method in {"GET", "HEAD"}:
        query = urlencode(params)
        url_with_query = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        return ProviderCall(url_with_query, headers, None if method in {"GET", "HEAD"} else b"", secrets, method)
    if body_format == "json":
        return ProviderCall(
            url, _with_content_type(headers, "application/json"), json.dumps(params).encode(), secrets, method
        )
    content_type = "application/x-www-form-urlencoded"
    return ProviderCall(
        url, _with_content_type(headers, content_type), urlencode(params).encode("ascii"), secrets, method
    )


def _with_content_type(headers: Mapping[str, str], content_type: str) -> dict[str, str]:
    """Return `headers` with the content type `content_type`, unless `headers` already have a content type."""
    if any(name.lower() == "content-type" for name in headers):
        return dict(headers)
    return {**headers, "Content-Type": content_type}
