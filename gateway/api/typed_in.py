"""Connecting without a redirect: the end user's browser posts what was typed in, under its connect session (api-contract 1.7)."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.body import wrong_query
from gateway.api.json_text import parse
from gateway.auth import modes
from gateway.auth.certificate import CERTIFICATE, PRIVATE_KEY
from gateway.catalog.provider import Provider
from gateway.connections.offered import check_offered, settings_of
from gateway.errors import Code, Forbidden, GatewayError, InvalidRequest, Issue, UpstreamFailed, told_together
from gateway.records.connecting import ConnectSession
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.secret import digest
from gateway.services import SERVICES, Services
from gateway.wire.query import members

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

EXTERNAL_ID: Final = "external_id"
CERTIFICATES: Final = (CERTIFICATE, PRIVATE_KEY)
OVERRIDE: Final = {"oauth_client_id_override": "client_id", "oauth_client_secret_override": "client_secret"}


@dataclass(frozen=True, slots=True)
class Form:
    """What may be posted for one auth mode; `names` None: what the provider's entry asks for."""

    mode: str
    names: frozenset[str] | None

    async def __call__(self, request: web.Request) -> web.Response:
        """200 with the connection's id. Raises what making a connection raises, paths of issues being those of the body."""
        services = request.app[SERVICES]
        session = await services.sessions.find(request.query.get("connect_session_token", ""))
        integration = _integration(services, session, request.match_info["integration_id"])
        provider = services.creator.provider_of(integration)
        if "connection_id" in request.query:
            raise wrong_query("connection_id", "The session decides about the connection id; leave it out.")
        if provider.auth_mode != self.mode:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"'{integration.integration_id}' uses {provider.auth_mode}; this address is for {self.mode}.",
            )
        await _check_reconnect(services, session, integration)
        typed = self._typed(await request.read(), provider)
        connection = await _made(services, session, integration, provider, typed, members(request.query, "params"))
        told = {"connectionId": connection.ref.connection_id, "providerConfigKey": integration.integration_id}
        return web.json_response(told)

    def _typed(self, body: bytes, provider: Provider) -> dict[str, Any]:
        given = parse(body) if body else {}
        if not isinstance(given, dict):
            raise InvalidRequest("invalid_body", "The body must be a JSON object.")
        names = {*(self.names if self.names is not None else _asked_for(provider)), *provider.credentials}
        names |= set(CERTIFICATES) if provider.require_client_certificate else set()
        issues = [
            Issue("unrecognized_keys", f"'{name[:64]}' is not a field of this form.", (name,))
            for name in given
            if name not in names and name != "type"
        ]
        if issues:
            raise InvalidRequest("invalid_body", told_together(issues), errors=issues)
        if self.mode == "OAUTH2_CC":
            _check_client(given, provider)
        override = {OVERRIDE[name]: text for name, text in given.items() if name in OVERRIDE}
        typed = {name: value for name, value in given.items() if name not in OVERRIDE and name != "type"}
        return {**typed, **({"config_override": override} if override else {})}


async def _made(
    services: Services,
    session: ConnectSession,
    integration: Integration,
    provider: Provider,
    typed: Mapping[str, Any],
    params: Mapping[str, str],
) -> Connection:
    mode = modes()[provider.auth_mode]
    config, _ = settings_of(session, provider, integration.integration_id, params)
    if provider.auth_mode == "AWS_SIGV4":
        config = {EXTERNAL_ID: external_id(session, integration), **config}
    try:
        held = mode.accept({**typed, "type": mode.types()[0]}, provider, clock.now())
        connection, _ = await services.creator.create(
            integration,
            held,
            connection_id=session.connection_id,
            config=config,
            path=("params",),
            tags=session.tags or None,
            end_user=session.end_user,
            webhook_url_override=session.webhook_url_override,
        )
    except GatewayError as fault:
        raise _heard(fault, provider, config) from fault
    return connection


def external_id(session: ConnectSession, integration: Integration) -> str:
    """Whom a role is assumed for. The same for one end user each time, and not theirs to choose: whoever named another
    customer's role would otherwise reach it through us (the confused deputy).
    """
    who = session.end_user.id if session.end_user else json.dumps(dict(session.tags), sort_keys=True)
    return f"gw-{digest(json.dumps([session.environment, integration.integration_id, who]))[:32]}"


def _heard(fault: GatewayError, provider: Provider, config: Mapping[str, Any]) -> GatewayError:
    """The fault in the words and with the paths of this address."""
    if isinstance(fault, InvalidRequest) and fault.errors:
        issues = [
            Issue(one.code, one.message, one.path[1:] if one.path[:1] == ("credentials",) else one.path)
            for one in fault.errors
        ]
        return InvalidRequest(fault.code, fault.message, errors=issues, payload=fault.payload)
    if provider.auth_mode == "OAUTH2_CC" and isinstance(fault, InvalidRequest | UpstreamFailed):
        code: Code = "client_credentials_fetch_error" if not fault.payload else fault.code
        return InvalidRequest(code, fault.message, payload=fault.payload)
    if fault.code == "connection_test_failed" and EXTERNAL_ID in config:
        hint = f" The role's trust policy must allow this account with the external ID '{config[EXTERNAL_ID]}'."
        return InvalidRequest(fault.code, fault.message + hint, payload={EXTERNAL_ID: config[EXTERNAL_ID]})
    return fault


def _integration(services: Services, session: ConnectSession, key: str) -> Integration:
    integration = services.integrations.get(session.environment, key)
    try:
        check_offered(session, key)
    except Forbidden as fault:
        raise InvalidRequest(fault.code, fault.message) from None
    return integration


async def _check_reconnect(services: Services, session: ConnectSession, integration: Integration) -> None:
    if session.connection_id is None or session.integration_id is None:
        return
    ref = ConnectionRef(session.environment, integration.integration_id, session.connection_id)
    if await services.store.connections.get(ref) is None:
        raise InvalidRequest(
            "invalid_connection",
            f"The connection '{ref.connection_id}' that this session is to renew is gone. Connect anew.",
        )


def _check_client(given: Mapping[str, Any], provider: Provider) -> None:
    if not given.get("client_id"):
        raise InvalidRequest("missing_client_id", "'client_id' is missing.")
    proven = given.get("client_secret") or given.get("client_private_key") or given.get("client_certificate")
    if not proven and provider.token_request_auth_method not in {"none", "custom"}:
        raise InvalidRequest("missing_client_secret", "'client_secret' is missing.")


def _asked_for(provider: Provider) -> Collection[str]:
    return {*(name.partition(".")[0] for name in provider.credentials), "assertionOption"}


def _form(mode: str, *names: str) -> Form:
    return Form(mode, frozenset(names))


FORMS: Final[Mapping[str, Form]] = {
    "/api-auth/api-key": _form("API_KEY", "apiKey"),
    "/api-auth/basic": _form("BASIC", "username", "password"),
    "/auth/tba": _form("TBA", "token_id", "token_secret", *OVERRIDE),
    "/auth/two-step": Form("TWO_STEP", None),
    "/auth/jwt": Form("JWT", None),
    "/auth/bill": _form("BILL", "username", "password", "organization_id", "dev_key"),
    "/auth/signature": _form("SIGNATURE", "username", "password"),
    "/auth/aws-sigv4": _form("AWS_SIGV4", "role_arn", "region", "access_key_id", "secret_access_key", "session_token"),
    "/auth/unauthenticated": _form("NONE"),
    "/oauth2/auth": _form("OAUTH2_CC", "client_id", "client_secret", *CERTIFICATES),
}
ENDS: Final = tuple((f"{path}/{{integration_id}}", form.__call__) for path, form in FORMS.items())
