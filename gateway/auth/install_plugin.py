"""INSTALL_PLUGIN: the end user installs the operator's plugin; the plugin's own key works for every installation."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from gateway.auth.basic import Basic
from gateway.auth.context import AuthContext
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Dialogue, Granted, GrantingMode
from gateway.auth.oauth2 import captured_settings
from gateway.auth.provider_responses import safe_text
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.authorize import with_params


class InstallPlugin(Basic, GrantingMode):
    """The credential is stored as BASIC, with the integration's `client_id` and `client_secret`, which are the plugin's
    identifier and key. The gateway sends the end user to `app_link`, and stores the callback's data about the
    installation as settings.

    The installation's ID (at Crisp, the website's ID) comes from the end user's browser, and this mode cannot check the
    ID. Therefore an end user can connect another customer's installation. Do not use this mode if end users do not
    trust each other.
    """

    name = "INSTALL_PLUGIN"
    stored_as: ClassVar = ("BASIC",)

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        return super().accept({**form, "type": "BASIC"}, provider, now)

    def start_consent(
        self, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> Dialogue[ConsentRedirect]:
        yield from ()
        context.client_id()
        link = context.integration.app_link or (
            context.url("authorization_url") if context.provider.authorization_url else None
        )
        if link is None:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"Integration '{context.integration.integration_id}' has no app_link: the page where its plugin is "
                "installed. Set it in gateway.yaml.",
            )
        return ConsentRedirect(with_params(link, {"payload": authorization.state}))

    def has_provider_response(self, context: AuthContext, query: Mapping[str, str]) -> bool:
        names = context.provider.redirect_uri_metadata or ()
        return "error" in query or all(query.get(name) for name in names)

    def finish_consent(
        self, context: AuthContext, flow_details: Mapping[str, Any], query: Mapping[str, str]
    ) -> Dialogue[Granted]:
        yield from ()
        if "error" in query:
            name = context.provider.display_name
            raise InvalidRequest(
                "authorization_refused", f"{name} did not install the plugin: {safe_text(query['error'])}."
            )
        settings = captured_settings(context.provider, {}, query)
        consent_context = replace(context, config={**settings, **context.config})
        return Granted(_plugin(consent_context.for_destinations(consent_context.url("proxy.base_url"))), settings)


def _plugin(context: AuthContext) -> dict[str, Any]:
    client = context.client()
    secret = client.client_secret.reveal() if client.client_secret else ""
    return {"type": "BASIC", "username": client.client_id, "password": secret}
