"""Connects an account by a form that the end user's browser posts (docs/compatibility.md#without-a-redirect)."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from gateway.api import responses
from gateway.api.request_body import parse_body, wrong_query
from gateway.auth.pasted_keys import CERTIFICATE, PRIVATE_KEY
from gateway.authorization.connect_sessions import check_offered
from gateway.catalog.provider import Provider
from gateway.errors import Forbidden, InvalidRequest, Issue, joined_issues
from gateway.generation import Generation
from gateway.http.url import nested_parameters
from gateway.middleware.facts import REQUEST_ID
from gateway.records.connecting import ConnectSession, PendingConnection
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import bound_to_other_browser_error
from gateway.text import did_you_mean

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CERTIFICATE_FIELDS: Final = (CERTIFICATE, PRIVATE_KEY)
CLIENT_OVERRIDES: Final = {"oauth_client_id_override": "client_id", "oauth_client_secret_override": "client_secret"}


@dataclass(frozen=True, slots=True)
class Form:
    """The endpoint for the form of one auth mode. `names`: the fields of the form; None: the fields that the provider's
    entry lists."""

    mode: str
    names: frozenset[str] | None

    async def __call__(self, request: web.Request) -> web.Response:
        """Connect the account with the posted credential. Respond with 200 and the connection's id. Raises
        InvalidRequest, Unauthorized, Forbidden, NotFound, and the errors of `TypedCredentialConnector.connect`. The
        path of each issue is a path in the body."""
        runtime, generation = request.app[RUNTIME], generation_of(request)
        session = await runtime.sessions.find(request.query.get("connect_session_token", ""))
        _check_browser(session)
        integration = _offered_integration(generation, session, request.match_info["integration_id"])
        provider = runtime.creator.provider_of(integration)
        if "connection_id" in request.query:
            raise wrong_query(
                "connection_id", "connection_id cannot be set here: the connect session sets it. Remove the parameter."
            )
        if provider.auth_mode != self.mode:
            raise InvalidRequest(
                "invalid_auth_mode",
                f"'{integration.integration_id}' uses {provider.auth_mode}; this endpoint is for {self.mode}.",
            )
        credential_fields = self._read_form(await request.read(), provider)
        params = nested_parameters(request.query, "params")
        connection = await runtime.typed_credentials.connect(
            session, integration, credential_fields, params, request[REQUEST_ID]
        )
        body: responses.Connected = {
            "connectionId": connection.ref.connection_id,
            "providerConfigKey": integration.integration_id,
        }
        if isinstance(connection, PendingConnection):
            body["isPending"] = True
        return web.json_response(body)

    def _read_form(self, body: bytes, provider: Provider) -> dict[str, Any]:
        form = parse_body(body) if body else {}
        if not isinstance(form, dict):
            raise InvalidRequest("invalid_body", "The body must be a JSON object.")
        names = {*(self.names if self.names is not None else _entry_fields(provider)), *provider.credentials}
        names |= set(CERTIFICATE_FIELDS) if provider.require_client_certificate else set()
        unknown_names = [name for name in form if name not in names and name != "type"]
        issues = [
            Issue("unrecognized_keys", f"'{name[:64]}' is not a field of this form.", (name,)) for name in unknown_names
        ]
        if unknown_names and (suggestion := did_you_mean(unknown_names[0], sorted(names))):
            issues[0] = replace(issues[0], message=issues[0].message.removesuffix(".") + suggestion)
        if issues:
            raise InvalidRequest("invalid_body", joined_issues(issues), errors=issues)
        if self.mode == "OAUTH2_CC":
            _check_client(form, provider)
        override = {CLIENT_OVERRIDES[name]: text for name, text in form.items() if name in CLIENT_OVERRIDES}
        credential_fields = {
            name: value for name, value in form.items() if name not in CLIENT_OVERRIDES and name != "type"
        }
        return {**credential_fields, **({"config_override": override} if override else {})}


def _check_browser(session: ConnectSession) -> None:
    """Raise Forbidden if the session is bound to a browser. Then only the connect page in that browser may use the
    session."""
    if session.for_one_browser and session.browser_digest is not None:
        raise bound_to_other_browser_error()


def _offered_integration(generation: Generation, session: ConnectSession, key: str) -> Integration:
    integration = generation.integrations.get(session.environment, key)
    try:
        check_offered(session, key)
    except Forbidden as fault:
        raise InvalidRequest(fault.code, fault.message) from None
    return integration


def _check_client(form: Mapping[str, Any], provider: Provider) -> None:
    if not form.get("client_id"):
        raise InvalidRequest("missing_client_id", "'client_id' is missing.")
    client_proof = form.get("client_secret") or form.get("client_private_key") or form.get("client_certificate")
    if not client_proof and provider.token_request_auth_method not in {"none", "custom"}:
        raise InvalidRequest("missing_client_secret", "'client_secret' is missing.")


def _entry_fields(provider: Provider) -> Collection[str]:
    return {*(name.partition(".")[0] for name in provider.credentials), "assertionOption"}


def _form(mode: str, *names: str) -> Form:
    return Form(mode, frozenset(names))


FORMS: Final[Mapping[str, Form]] = {
    "/api-auth/api-key": _form("API_KEY", "apiKey"),
    "/api-auth/basic": _form("BASIC", "username", "password"),
    "/auth/tba": _form("TBA", "token_id", "token_secret", *CLIENT_OVERRIDES),
    "/auth/two-step": Form("TWO_STEP", None),
    "/auth/jwt": Form("JWT", None),
    "/auth/bill": _form("BILL", "username", "password", "organization_id", "dev_key"),
    "/auth/signature": _form("SIGNATURE", "username", "password"),
    "/auth/aws-sigv4": _form("AWS_SIGV4", "role_arn", "region", "access_key_id", "secret_access_key", "session_token"),
    "/auth/unauthenticated": _form("NONE"),
    "/oauth2/auth": _form("OAUTH2_CC", "client_id", "client_secret", *CERTIFICATE_FIELDS),
}


async def refuse_installation(request: web.Request) -> web.Response:
    """Refuse a request with which Nango's client waits until an app is installed at the provider. Always raises
    InvalidRequest: no provider of the catalog reports such an installation, so the client would wait forever."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    session = await runtime.sessions.find(request.query.get("connect_session_token", ""))
    integration = _offered_integration(generation, session, request.match_info["integration_id"])
    mode = runtime.creator.provider_of(integration).auth_mode
    raise InvalidRequest(
        "invalid_auth_mode",
        f"'{integration.integration_id}' uses {mode} and cannot be connected by an installation at the provider. For OAuth, "
        f"send the browser to /oauth/connect/{integration.integration_id}.",
    )


ROUTES: Final = (
    *((f"{path}/{{integration_id}}", form.__call__) for path, form in FORMS.items()),
    ("/auth/oauth-outbound/{integration_id}", refuse_installation),
)
