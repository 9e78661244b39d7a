"""Asks token endpoints: the one place where codes and refresh tokens leave the process."""

from collections.abc import Mapping
from typing import Any, Final

from gateway import clock
from gateway.auth.oauth2 import OAuth2
from gateway.catalog.interpolate import BadValue, Unresolved, render_text
from gateway.catalog.provider import Provider
from gateway.connections.ready import filled, values
from gateway.egress.client import Egress
from gateway.egress.errors import EgressError
from gateway.errors import InvalidRequest
from gateway.oauth.client_auth import Client
from gateway.oauth.token import TokenRefused, TokenRequest, TokenUnavailable, code_request, read_answer, refresh_request
from gateway.records.integration import Integration
from gateway.secret import Secret

TIMEOUT_S: Final = 10.0
LIMIT_BYTES: Final = 1 << 20
OAUTH2: Final = OAuth2()


class TokenEndpoint:
    """Every method raises TokenRefused after a final no and TokenUnavailable after anything that may pass."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def redeem(
        self,
        integration: Integration,
        provider: Provider,
        config: Mapping[str, Any],
        *,
        token_url: str,
        code: str,
        redirect_uri: str,
        code_verifier: str | None,
    ) -> dict[str, Any]:
        """The credential for an authorization code, from the address that the flow has pinned."""
        request = code_request(
            provider,
            token_url,
            client_of(integration, None),
            code=code,
            redirect_uri=redirect_uri,
            code_verifier=code_verifier,
            params=params(provider, provider.token_params, integration, config),
            headers=params(provider, provider.token_headers, integration, config),
        )
        return OAUTH2.granted(provider, await self._ask(provider, request), clock.now())

    async def renew(
        self, integration: Integration, provider: Provider, config: Mapping[str, Any], held: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The credential that replaces `held`."""
        request = refresh_request(
            provider,
            filled(provider, provider.refresh_url or provider.token_url or "", config),
            client_of(integration, held.get("config_override")),
            refresh_token=held["refresh_token"],
            params=params(provider, provider.refresh_params or provider.token_params, integration, config),
            headers=params(provider, provider.token_headers, integration, config),
        )
        return OAUTH2.granted(provider, await self._ask(provider, request), clock.now(), held)

    async def _ask(self, provider: Provider, request: TokenRequest) -> dict[str, Any]:
        try:
            answer = await self._egress.fetch(
                "POST",
                request.url,
                headers=request.headers,
                body=request.body,
                limit_bytes=LIMIT_BYTES,
                timeout_s=TIMEOUT_S,
            )
        except EgressError as fault:
            raise TokenUnavailable(f"the token endpoint: {fault.message}") from fault
        try:
            return read_answer(provider, answer.status, answer.headers, answer.body)
        except TokenRefused as fault:  # its words may quote what we sent, and are stored, logged and shown
            raise TokenRefused(request.scrubbed(fault.code), request.scrubbed(fault.description)) from None
        except TokenUnavailable as fault:
            raise TokenUnavailable(request.scrubbed(fault.reason), fault.retry_after_s) from None


def client_of(integration: Integration, override: Mapping[str, str] | None) -> Client:
    """The client a connection was granted to: its own where it brought one, else the integration's."""
    if override and override.get("client_id") and override.get("client_secret"):
        return Client(override["client_id"], Secret(override["client_secret"]))
    if not integration.client_id:
        raise InvalidRequest(
            "invalid_auth_mode",
            f"Integration '{integration.integration_id}' has no client_id. Set it and client_secret in gateway.yaml.",
        )
    return Client(integration.client_id, integration.client_secret)


def params(
    provider: Provider, templates: Mapping[str, str], integration: Integration, config: Mapping[str, Any]
) -> dict[str, str]:
    """The entry's extra parameters, filled in; one whose setting is missing is left out."""
    known = {name: secret.reveal() for name, secret in values(provider, integration, config).items()}
    filled_in: dict[str, str] = {}
    for name, template in templates.items():
        try:
            filled_in[name] = render_text(template, known)
        except Unresolved:
            continue
        except BadValue as fault:
            raise InvalidRequest("unresolved_setting", f"Parameter '{name}' cannot be sent: {fault.why}.") from fault
    return filled_in
