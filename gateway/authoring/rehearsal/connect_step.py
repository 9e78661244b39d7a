"""Creates a connection: as a browser does if the auth mode redirects, otherwise with credentials as a user types them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import ClientSession

from gateway.authoring.rehearsal.actor import PlayedProvider
from gateway.authoring.rehearsal.played_responses import sample_setting
from gateway.authoring.rehearsal.rehearsal_gateway import INTEGRATION, Gateway, RehearsalRefused
from gateway.authoring.rehearsal.request_checks import KnownValues, RehearsalCheck, equality_check
from gateway.authoring.rehearsal.samples import Samples, sample_key
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider

CODE: Final = "code-from-the-sandbox"
INSTALLATION: Final = "42"
APP_ID: Final = "app-7"
_NOT_IMPORTED: Final = frozenset({"raw", "server", "config_override"})
SCOPES: Final = ["scope-a", "scope-b"]


def integration_keys(provider: Provider, samples: Samples, sandbox_origin: str) -> dict[str, Any]:
    """Return the integration's keys in gateway.yaml, as if an operator had registered an app.

    `sandbox_origin`: the origin of `app_link`.
    """
    mode = AUTH_MODES.get(provider.auth_mode)
    needed_keys = {*mode.integration_keys} if mode else set()
    sample_keys = {
        "client_id": samples.client_id,
        "client_secret": samples.client_secret,
        "app_id": APP_ID,
        "app_link": f"{sandbox_origin}/apps/rehearsal",
        "private_key": sample_key("RS256"),
    }
    if provider.auth_mode == "AWS_SIGV4":
        needed_keys |= {"client_id", "client_secret"}
    if provider.auth_mode == "MCP_OAUTH2" and provider.client_registration in {"dynamic", "metadata_document"}:
        needed_keys = set()
    keys_to_set: dict[str, Any] = {name: sample_keys[name] for name in sample_keys if name in needed_keys}
    if provider.token_request_auth_method == "private_key_jwt" and "client_secret" in keys_to_set:  # noqa: S105
        keys_to_set["client_secret"] = sample_key("RS256")
    if (
        mode is not None
        and mode.redirects
        and "authorization_url" in mode.required_fields
        and not provider.default_scopes
    ):
        keys_to_set["scopes"] = SCOPES
    return keys_to_set


def is_redirecting(provider: Provider) -> bool:
    mode = AUTH_MODES.get(provider.auth_mode)
    return mode is not None and mode.redirects


async def connect_by_form(gateway: Gateway, provider: Provider, samples: Samples, connection_id: str) -> str:
    """Create a connection with the values that an end user would enter, and return the connection's id.

    Raises RehearsalRefused.
    """
    credentials: dict[str, Any] = {"type": provider.auth_mode, **samples.typed_values}
    if samples.assertion:
        credentials["assertionOption"] = samples.assertion
    body = {"provider_config_key": INTEGRATION, "connection_id": connection_id, "credentials": credentials}
    await gateway.json("POST", "/connections", 201, json={**body, "connection_config": samples.config})
    return connection_id


async def import_credential(gateway: Gateway, provider: Provider, connection: Mapping[str, Any]) -> None:
    """Import the granted credential as a second connection. Raises RehearsalRefused."""
    credential = {name: value for name, value in connection["credentials"].items() if name not in _NOT_IMPORTED}
    if provider.auth_mode in {"APP", "CUSTOM"}:
        credential = {"type": "APP", "installation_id": INSTALLATION}
    body = {"provider_config_key": INTEGRATION, "connection_id": "imported", "credentials": credential}
    config = {
        name: value for name, value in (connection.get("connection_config") or {}).items() if isinstance(value, str)
    }
    await gateway.json("POST", "/connections", 201, json={**body, "connection_config": config})


async def connect_by_browser(gateway: Gateway, actor: PlayedProvider, samples: Samples) -> tuple[str, str]:
    """Authorize as a browser does. Return the connection's id and the URL to which the gateway redirected.

    Raises RehearsalRefused.
    """
    session = await gateway.json("POST", "/connect/sessions", 201, json={"end_user": {"id": "rehearsal"}})
    query = {"connect_session_token": session["data"]["token"]}
    query |= {f"params[{name}]": value for name, value in samples.config.items()}
    connect_url = f"{gateway.url}/oauth/connect/{INTEGRATION}?{urlencode(query)}"
    async with gateway.http.get(connect_url, allow_redirects=False) as response:
        request_url = response.headers.get("Location", "")
        if response.status not in {302, 303} or not request_url:
            raise RehearsalRefused(
                f"the authorization did not begin: GET /oauth/connect returned {response.status}: "
                f"{_page_text(await response.text())}"
            )
    async with ClientSession() as provider_session, provider_session.get(request_url.partition("#")[0]):
        pass  # open the consent page, without the gateway's cookies
    async with gateway.http.get(_callback_url(gateway, actor, request_url)) as response:
        if response.status != 200:
            raise RehearsalRefused(f"the callback returned {response.status}: {_page_text(await response.text())}")
    return await gateway.only_id(), request_url


def authorization_params(request_url: str, fragment: str | None) -> dict[str, str]:
    """Return the parameters of the authorization request.

    `request_url`: the URL of the request. `fragment`: the entry's `authorization_url_fragment`; if it is not None, the
    parameters follow the ``?`` in the URL's fragment.
    """
    parts = urlsplit(request_url)
    query = parts.fragment.partition("?")[2] if fragment is not None else parts.query
    return dict(parse_qsl(query, keep_blank_values=True))


def state_in(request_url: str, provider: Provider) -> str:
    """Return the `state` of the authorization request. `request_url`: the URL of the request."""
    params = authorization_params(request_url, provider.authorization_url_fragment)
    renames = provider.authorization_param_renames
    if provider.state_in_redirect_uri:
        return params.get(renames.get("redirect_uri") or "redirect_uri", "").partition("?state=")[2]
    return params.get(renames.get("state") or "state", params.get("payload", ""))


def expected_callback(request_url: str, provider: Provider, callback: str) -> str:
    """Return the redirect_uri that the authorization request must have.

    The result is `callback`, with ``?state=…`` if the entry sets `state_in_redirect_uri`.
    """
    return f"{callback}?state={state_in(request_url, provider)}" if provider.state_in_redirect_uri else callback


def _callback_url(gateway: Gateway, actor: PlayedProvider, request_url: str) -> str:
    """Return the callback URL to which the provider would redirect the browser."""
    provider = actor.provider
    params = authorization_params(request_url, provider.authorization_url_fragment)
    renames = provider.authorization_param_renames
    state = state_in(request_url, provider)
    callback_url = params.get(renames.get("redirect_uri") or "redirect_uri") or f"{gateway.url}/oauth/callback"
    sandbox_origin = next(iter(actor.stage.origins.values()))
    names = provider.redirect_uri_metadata or ()
    query = {name: sample_setting(provider, name, sandbox_origin, "redirect_uri_metadata") for name in names}
    match provider.auth_mode:
        case "OAUTH1":
            callback_query = urlencode({"oauth_token": params["oauth_token"], "oauth_verifier": CODE})
            return f"{_requested_callback(actor, gateway)}&{callback_query}"
        case "APP":
            query |= {"installation_id": INSTALLATION, "setup_action": "install"}
        case "CUSTOM":
            query |= {"code": CODE, "installation_id": INSTALLATION, "setup_action": "install"}
        case "INSTALL_PLUGIN":
            return f"{callback_url}?{urlencode({**query, 'payload': state})}"
        case _:
            query[provider.authorization_code_param_in_callback or "code"] = CODE
            query |= {"iss": provider.issuer} if provider.issuer else {}
    query |= {} if provider.state_in_redirect_uri else {"state": state}
    return f"{callback_url}{'&' if '?' in callback_url else '?'}{urlencode(query)}"


def _requested_callback(actor: PlayedProvider, gateway: Gateway) -> str:
    """Return the callback URL that the gateway sent in its request for a request token (RFC 5849 §2.1)."""
    from gateway.authoring.rehearsal.request_checks import oauth_params

    (request,) = actor.received_since(0, "request_url")[:1]
    return oauth_params(request).get("oauth_callback", f"{gateway.url}/oauth/callback?")


def authorization_checks(
    request_url: str,
    provider: Provider,
    known_values: KnownValues,
    samples: Samples,
    gateway: Gateway,
    entry: Mapping[str, Any],
) -> Iterator[RehearsalCheck]:
    """Check the authorization request against RFC 6749 §4.1.1 and RFC 7636 §4.3, with the deviations of the entry."""
    params = authorization_params(request_url, provider.authorization_url_fragment)
    if "authorization_url" in entry and provider.auth_mode != "APP":
        path = known_values.path(entry["authorization_url"])
        if path is not None:
            requested_path = urlsplit(request_url).path
            yield RehearsalCheck(
                "the path is authorization_url's",
                requested_path == path,
                ("authorization_url",),
                f"it was {requested_path}",
            )
    if provider.auth_mode in {"APP", "INSTALL_PLUGIN"}:
        return
    for name, template in provider.authorization_params.items():
        value = known_values.text(template)
        standard_names = {"response_type", "client_id", "redirect_uri", "state", "scope"}
        if value is not None and name not in standard_names:
            yield equality_check(f"parameter {name}", value, params.get(name), ("authorization_params", name))
    if provider.auth_mode == "OAUTH1":
        yield RehearsalCheck("oauth_token is sent", "oauth_token" in params, ("authorization_url",), "it is missing")
        return
    own_params = {
        "response_type": "code",
        "redirect_uri": expected_callback(request_url, provider, f"{gateway.url}/oauth/callback"),
    }
    if provider.auth_mode in {"OAUTH2", "CUSTOM"}:
        own_params["client_id"] = samples.client_id
    scopes = provider.default_scopes or ([] if provider.auth_mode.startswith("MCP") else SCOPES)
    if scopes:
        own_params["scope"] = (provider.scope_separator or " ").replace("+", " ").join(scopes)
    for name, value in own_params.items():
        sent_name = provider.authorization_param_renames.get(name, name)
        place = ("authorization_param_renames", name) if sent_name != name else ("authorization_url",)
        if sent_name:
            yield equality_check(f"parameter {sent_name}", value, params.get(sent_name), place)
        else:
            yield RehearsalCheck(f"{name} is left out", name not in params, place, "it was sent")
    challenge = params.get(provider.authorization_param_renames.get("code_challenge") or "code_challenge")
    expects_pkce = not provider.disable_pkce
    check_text = "a PKCE challenge is sent" if expects_pkce else "no PKCE challenge is sent"
    yield RehearsalCheck(
        check_text,
        (challenge is not None) == expects_pkce,
        ("disable_pkce",),
        "it is missing" if expects_pkce else "it was sent",
    )


def _page_text(text: str) -> str:
    """Return the code and the message of a gateway error. For a page, return its text without markup."""
    try:
        error = json.loads(text)["error"]
        return f"{error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        import re
        from html import unescape

        text_without_markup = re.sub(
            r"<(style|script|head)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE
        )
        return " ".join(unescape(text_without_markup).split())[:300]
