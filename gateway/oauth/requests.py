"""What a token endpoint is asked (RFC 6749 §4.1.3, §4.4.2, §6)."""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from gateway.oauth.client_auth import Client, authenticate
from gateway.oauth.entry import OAuthEntry
from gateway.records.call import Call

NONE: Final[Mapping[str, str]] = {}


def code_request(
    provider: OAuthEntry,
    url: str,
    client: Client,
    *,
    code: str,
    redirect_uri: str,
    code_verifier: str | None,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
) -> Call:
    """Redeem an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.5). `params`: the entry's `token_params`, filled in."""
    grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
    if code_verifier is not None:
        grant["code_verifier"] = code_verifier
    return token_request(provider, url, client, {**params, **grant}, headers, secrets=(code, code_verifier or ""))


def refresh_request(
    provider: OAuthEntry,
    url: str,
    client: Client,
    *,
    refresh_token: str,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
    method: str = "POST",
    other_grant: bool = False,
) -> Call:
    """Renew an access token (RFC 6749 §6). `params`: the entry's `refresh_params`, else its `token_params`, filled in.

    `other_grant`: what is exchanged is no refresh token, and `params` say what grant that is.
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
    client: Client,
    *,
    scope: str | None,
    params: Mapping[str, str],
    headers: Mapping[str, str] = NONE,
) -> Call:
    """Ask for a token of the client's own (RFC 6749 §4.4.2). The entry's `params` win: some name the grant differently."""
    grant = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    return token_request(provider, url, client, {**grant, **params}, headers, method=provider.token_request_method)


def token_request(
    provider: OAuthEntry,
    url: str,
    client: Client,
    params: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    secrets: tuple[str, ...] = (),
    renames: Mapping[str, str] | None = None,
    method: str | None = None,
) -> Call:
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
) -> Call:
    """A call with `params` as ``form`` (also where `body_format` says nothing), ``json`` or ``query``.

    GET has no body, so its parameters are a query whatever `body_format` says. Nested values are for JSON alone.
    """
    if body_format == "query" or method in {"GET", "HEAD"}:
        query = urlencode(params)
        joined = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        return Call(joined, headers, None if method in {"GET", "HEAD"} else b"", secrets, method)
    if body_format == "json":
        return Call(url, _typed(headers, "application/json"), json.dumps(params).encode(), secrets, method)
    kind = "application/x-www-form-urlencoded"
    return Call(url, _typed(headers, kind), urlencode(params).encode("ascii"), secrets, method)


def _typed(headers: Mapping[str, str], kind: str) -> dict[str, str]:
    """`headers` with `kind` as their content type, unless they name one."""
    if any(name.lower() == "content-type" for name in headers):
        return dict(headers)
    return {**headers, "Content-Type": kind}
