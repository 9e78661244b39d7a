"""Runs the entry's script on a new credential, before the connection is stored.

The script completes the settings, or refuses the connection.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.auth.context import AuthContext
from gateway.auth.mode import AuthMode
from gateway.auth.oauth2 import valid_setting_values
from gateway.auth.provider_responses import safe_text
from gateway.catalog.provider import Provider
from gateway.connections.opened import base_url, placement
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.errors import GatewayError, InvalidRequest, UpstreamFailed
from gateway.http.url import with_query
from gateway.oauth.error_codes import parse
from gateway.oauth.token_responses import dig
from gateway.origin import ABSOLUTE, parse_url
from gateway.records.connecting import Site
from gateway.records.connection import Account
from gateway.records.integration import Integration
from gateway.records.proxied_call import UpstreamRequest
from gateway.scripts import POST_CONNECTION
from gateway.scripts.script_context import ProviderUnreadable, Refused, SiteChoiceNeeded
from gateway.text import sentence

# ── The interface that an entry's script uses before the connection exists.

MAX_RESPONSE_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 15.0
NO_FIELDS: Final[Mapping[str, str]] = {}


class NewCredential:
    """The ScriptContext of a connection that does not exist yet."""

    def __init__(
        self,
        provider: Provider,
        integration: Integration,
        mode: AuthMode,
        credential: Mapping[str, Any],
        settings: Mapping[str, Any],
        egress: Egress,
    ) -> None:
        self.provider = provider
        self.config: dict[str, Any] = dict(settings)
        self.must_ask = integration.site_selection == "ask"
        self.account: Account | None = None
        self._mode, self._credential = mode, credential
        self._context = AuthContext(provider, integration, settings)
        self._account_responses: list[Any] = []
        self._egress = egress

    def set_config(self, **settings: str) -> None:
        self.config.update(settings)

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        self.account = Account(id, safe_text(label) if label else None)

    async def account_response(self) -> Any:
        """Return the response that contains the entry's `account`. The response is requested only once. Raises
        ProviderUnreadable if there is no usable response, and InvalidRequest if the base URL cannot be built."""
        account_form = self.provider.account
        if account_form is None or account_form.endpoint is None:
            return self._credential.get("raw")
        if not self._account_responses:
            context = replace(self._context, config=self.config)
            base_text = self._base_url_text() if account_form.endpoint.startswith("/") else ""
            try:
                fields = context.texts(account_form.headers, self._mode.values(self._credential))
                url = context.fill_url(base_text + account_form.endpoint)
            except InvalidRequest as fault:  # a setting that this connection does not have
                raise ProviderUnreadable(fault.message) from fault
            body = None if account_form.data is None else json.dumps(account_form.data).encode()
            url_path = account_form.endpoint if base_text else parse_url(url).path
            self._account_responses.append(
                await self._request_json(account_form.method or "GET", url, url_path, fields, body)
            )
        return self._account_responses[0]

    async def get_json(self, path: str, fields: Mapping[str, str] = NO_FIELDS) -> Any:
        """GET `path` below the base URL, or a full URL of the entry. `fields` replace the entry's header fields."""
        below_base = path.startswith("/")
        url = self._base_url_text() + path if below_base else self._context.fill_url(path)
        return await self._request_json("GET", url, path if below_base else parse_url(url).path, fields, None)

    def _base_url_text(self) -> str:
        base = base_url(self.provider, self.config, self._mode, self._credential)
        return base.origin + base.path

    async def _request_json(
        self, method: str, url: str, url_path: str, fields: Mapping[str, str], body: bytes | None
    ) -> Any:
        """Send a request and return its JSON response. Raises ProviderUnreadable if there is no usable response.

        `body`: JSON, None for no body. `url_path`: the URL's path for error messages. This path omits the base path,
        which can contain a secret setting.
        """
        parsed_url = parse_url(url)
        target = url[ABSOLUTE.match(url).end() :]  # type: ignore[union-attr]  # unchanged: a trailing slash may matter
        request_parts = placement(self._mode, self._credential, self._context.for_destinations(parsed_url.origin))
        request = UpstreamRequest(method, parsed_url.scheme, parsed_url.host, parsed_url.port, target or "/")
        request.target = with_query(request.target, request_parts.query_slots, request_parts.query_defaults)
        lower_fields = {name.lower(): text for name, text in fields.items()}
        if body is not None:
            lower_fields.setdefault("content-type", "application/json")
        request.headers.update(
            {"accept": "application/json", **dict(request_parts.defaults), **dict(request_parts.slots), **lower_fields}
        )
        if request_parts.signer is not None:
            request_parts.signer.sign(request, body or b"")
        try:
            response = await self._egress.fetch(
                method,
                request.url,
                headers=request.headers,
                body=body,
                limit_bytes=MAX_RESPONSE_BYTES,
                timeout_s=TIMEOUT_S,
                identity=self._mode.identity(self._credential),
            )
        except EgressError as fault:
            raise ProviderUnreadable(fault.message) from fault
        url_path = url_path.partition("?")[0]
        if response.status != 200:
            raise ProviderUnreadable(f"{url_path} returned {response.status}", status=response.status)
        try:
            return parse(response.body)
        except ValueError as fault:
            raise ProviderUnreadable(f"{url_path} did not return JSON") from fault


# ── Runs the script on a new credential.


class SiteNotChosen(InvalidRequest):
    """Several sites match, and the integration lets the end user choose. Pages show the sites to choose from; other
    callers get this error."""

    sites: tuple[Site, ...] = ()


async def complete_credential(
    egress: Egress,
    provider: Provider,
    integration: Integration,
    mode: AuthMode,
    credential: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> NewCredential:
    """Return the credential with the settings from the entry's script and from the account response.

    Raises InvalidRequest if the script or the provider refuses the credential, SiteNotChosen if the end user must
    choose a site, and UpstreamFailed if the provider cannot be reached.
    """
    script = POST_CONNECTION.get(provider.post_connection_script or "")
    context = NewCredential(provider, integration, mode, credential, settings, egress)
    if script is not None:
        try:
            await script(context)
        except Refused as refusal:
            raise InvalidRequest(
                "connection_validation_failed", refusal.message, payload=refusal.payload or None
            ) from refusal
        except SiteChoiceNeeded as choice:
            raise _site_choice_error(choice) from None
        except ProviderUnreadable as fault:
            raise _unreadable_error(provider, fault, "which sites this credential reaches") from fault
    account_form = provider.account
    if account_form is not None and not all(map(context.config.get, account_form.settings)):
        try:
            response = await context.account_response()
        except ProviderUnreadable as fault:
            raise _unreadable_error(provider, fault, "whose account this credential belongs to") from fault
        missing_settings = {name: path for name, path in account_form.settings.items() if not context.config.get(name)}
        context.set_config(
            **valid_setting_values({name: dig(response, path) for name, path in missing_settings.items()})
        )
    return context


def _site_choice_error(choice: SiteChoiceNeeded) -> SiteNotChosen:
    names = ", ".join(urlsplit(site.url).hostname or site.name for site in choice.sites)
    error = SiteNotChosen(
        "connection_validation_failed",
        f"This credential gives access to several sites: {names}. Choose one with subdomain or cloudId.",
        payload={"sites": [{**site.settings, "url": site.url} for site in choice.sites]},
    )
    error.sites = choice.sites
    return error


def _unreadable_error(provider: Provider, fault: ProviderUnreadable, purpose: str) -> GatewayError:
    """Return InvalidRequest if the provider refuses the credential, and UpstreamFailed if the provider cannot be
    reached."""
    message = f"Could not read from {provider.display_name} {purpose}: {sentence(fault.message)}"
    if fault.refused:
        return InvalidRequest(
            "connection_test_failed",
            f"{message} The provider rejected this credential: check that it is valid, not expired, and granted to this app.",
        )
    return UpstreamFailed("upstream_unreachable", f"{message} Nothing was stored; try again.")
