"""Creates connect sessions for the application's back end: who connects, and which integrations may be connected."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from gateway.access.caller import Caller
from gateway.access.refusals import beyond_limits_error, no_integration_error
from gateway.access.scopes import READ_CONNECTIONS
from gateway.api import responses
from gateway.api.minted_key_limits import check_fixed_values
from gateway.api.request_body import Strict, read_json, read_query
from gateway.api.shapes import (
    MAX_NAMES,
    ConnectionId,
    EndUserBody,
    OrganizationBody,
    ProviderConfigKey,
    SmallAsSent,
    Tags,
    WebhookUrl,
    derived_tags,
    end_user,
    replacing_tags,
)
from gateway.auth.context import AuthContext
from gateway.authorization.connect_sessions import (
    LIFETIME,
    MAX_CONNECTIONS,
    MAX_LIFETIME,
    MIN_LIFETIME,
    connect_link,
    poll_url,
)
from gateway.authorization.fixed_settings import check_fixed_settings
from gateway.authorization.return_url import origin_of
from gateway.authorization.trusted_pages import is_registered
from gateway.catalog.value import is_web_url
from gateway.config import Config
from gateway.errors import InvalidRequest, Issue
from gateway.generation import Generation
from gateway.middleware.facts import CALLER
from gateway.middleware.key_limits import check_reach, needs
from gateway.middleware.key_limits import check_tags as check_tags_of
from gateway.records.connecting import ConnectSession
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.text import nearest
from gateway.timestamps import iso

# ── The limits and bindings of a connect session, which the application's back end sets for each session.

S256: Final = re.compile(r"[A-Za-z0-9_-]{43}")
S256_SCHEMA: Final = {"pattern": f"^{S256.pattern}$"}


def _checked_challenge(text: str) -> str:
    if not S256.fullmatch(text):
        raise ValueError(
            "must be the S256 challenge of a verifier: 43 characters of base64url, without padding (RFC 7636 §4.2)"
        )
    return text


def _checked_return_url(text: str) -> str:
    parts = urlsplit(text)
    if not is_web_url(text) or "#" in text or "@" in parts.netloc:
        raise ValueError("must be the https:// URL of a page, without a user name and without '#'")
    if reserved_names := {"state", "result"} & parse_qs(parts.query, keep_blank_values=True).keys():
        raise ValueError(f"must not have {min(reserved_names)} in its query: the gateway adds it")
    origin_of(text)  # raises ValueError unless the scheme is https, or http on a loopback address
    return text


class SessionOptions(Strict):
    """The lifetime, limits and bindings of a session, for new connections and for reconnects.

    `expires_in`: lifetime in seconds. `max_connections`: maximum number of connections that the session may create;
    None: no limit or, with `single_use`, one. `single_use`: only the first browser in which the end user continues can
    use the session. `code_challenge`: S256 challenge (RFC 7636 §4.2); with a challenge, connections stay pending until
    the application sends the verifier to ``POST /connect/sessions/{id}/complete``. `return_url`: the page of the
    application to which the end user returns. `state`: a text that is added to `return_url`.
    """

    expires_in: int = Field(
        int(LIFETIME.total_seconds()), ge=int(MIN_LIFETIME.total_seconds()), le=int(MAX_LIFETIME.total_seconds())
    )
    max_connections: Annotated[int, Field(ge=1, le=MAX_CONNECTIONS)] | None = None
    single_use: bool = False
    code_challenge: Annotated[str, AfterValidator(_checked_challenge), Field(json_schema_extra=S256_SCHEMA)] | None = (
        None
    )
    code_challenge_method: Literal["S256"] | None = None
    return_url: Annotated[str, StringConstraints(max_length=2048), AfterValidator(_checked_return_url)] | None = None
    state: Annotated[str, StringConstraints(max_length=512)] | None = None

    @model_validator(mode="after")
    def _check_pairs(self) -> "SessionOptions":
        if self.code_challenge_method is not None and self.code_challenge is None:
            raise ValueError("code_challenge_method needs a code_challenge; send both or neither")
        if self.state is not None and self.return_url is None:
            raise ValueError("state needs a return_url, to which it is added; send return_url too, or leave state out")
        return self


def session_fields(config: Config, environment: str, body: SessionOptions) -> dict[str, Any]:
    """Return the keyword arguments for `ConnectSessions.open` that `body` sets. Raises InvalidRequest if a required
    code challenge is missing, or if the origin of `return_url` is not registered."""
    if body.code_challenge is None and config.environments[environment].requires_binding:
        message = (
            f"Environment '{environment}' requires a code_challenge (connect_binding). Send the S256 challenge of a verifier, "
            "and complete the session with that verifier."
        )
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("code_challenge",))])
    if body.return_url is not None:
        origin = origin_of(body.return_url)
        if not is_registered(config, environment, origin):
            message = (
                f"return_url is a page of {origin}, which is not among the connect_origins of environment '{environment}'. "
                "Add that origin in gateway.yaml, or use a page of a registered origin."
            )
            raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("return_url",))])
    return {
        "lifetime": timedelta(seconds=body.expires_in),
        "single_use": body.single_use,
        "max_connections": 1 if body.single_use and body.max_connections is None else body.max_connections,
        "code_challenge": body.code_challenge,
        "return_url": body.return_url,
        "return_state": body.state,
    }


# ── Connect sessions: the application's back end decides who may connect what (docs/compatibility.md#connect-sessions).

SCOPES_OVERRIDE: Final = (
    "oauth_scopes_override"  # clients send this member among the settings, but the member is not a setting
)


class FixedSettings(Strict):
    """Settings of the connection. `webhook_url` applies to the whole session. `oauth_scopes_override` replaces the
    integration's scopes: a list, or a text separated by commas or spaces."""

    model_config = ConfigDict(extra="allow")

    webhook_url: WebhookUrl | None = None
    oauth_scopes_override: str | list[str] | None = None


class IntegrationDefaults(Strict):
    """Values that your back end fixes for one integration. The browser cannot change them."""

    user_scopes: str | None = None
    authorization_params: dict[str, str] | None = None
    connection_config: FixedSettings | None = None


def _checked_page_url(text: str) -> str:
    if text and not (text.lower().startswith("https://") and is_web_url(text)):
        raise ValueError("must be the https:// URL of a page")
    return text


class Override(Strict):
    """Overrides for the connect page. `docs_connect`: the help page that the connect page links to instead of the
    provider's."""

    docs_connect: Annotated[str, StringConstraints(max_length=2048), AfterValidator(_checked_page_url)] | None = None


AllDefaults = Annotated[dict[str, IntegrationDefaults], Field(max_length=MAX_NAMES), SmallAsSent]
Overrides = Annotated[dict[str, Override], Field(max_length=MAX_NAMES), SmallAsSent]


class NewSession(SessionOptions):
    """A new connect session. Send `end_user`, or `tags` that identify the owner of the connection."""

    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    allowed_integrations: list[ProviderConfigKey] = Field(default_factory=list, max_length=MAX_NAMES)
    integrations_config_defaults: AllDefaults = Field(default_factory=dict)
    overrides: Overrides = Field(default_factory=dict)
    webhook_url_override: WebhookUrl | None = None

    @model_validator(mode="after")
    def _check_owner(self) -> "NewSession":
        if self.end_user is None and self.tags is None:
            raise ValueError("end_user is missing; send it, or tags that identify the owner of the connection")
        return self


class Reconnect(SessionOptions):
    """A session in which an end user authorizes an existing connection again. The connection keeps its id."""

    connection_id: ConnectionId
    integration_id: ProviderConfigKey
    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    integrations_config_defaults: AllDefaults = Field(default_factory=dict)
    overrides: Overrides = Field(default_factory=dict)
    webhook_url_override: WebhookUrl | None = None


@needs("environment:connect_sessions:write", limits=True)
async def create_session(request: web.Request) -> web.Response:
    """Create a session. Respond with 201, the session's token, the link for the end user, and the time at which the
    token and the link expire."""
    read_query(request, ())
    runtime, generation = request.app[RUNTIME], generation_of(request)
    token_and_session = await new_session(runtime, generation, request[CALLER], await read_json(request, NewSession))
    return web.json_response(
        responses.ConnectSessionResponse(data=connect_session_json(generation, *token_and_session)), status=201
    )


@needs("environment:connect_sessions:write", limits=True)
async def create_reconnect_session(request: web.Request) -> web.Response:
    """Create a session in which an end user authorizes an existing connection again. Respond as `create_session` does.

    For an unknown connection, the status is 400, or 404 if the key's limits exclude the connection. The connection
    keeps its end user unless the body names another end user.
    """
    read_query(request, ())
    runtime, generation = request.app[RUNTIME], generation_of(request)
    token_and_session = await reconnect_session(
        runtime, generation, request[CALLER], await read_json(request, Reconnect)
    )
    return web.json_response(
        responses.ConnectSessionResponse(data=connect_session_json(generation, *token_and_session)), status=201
    )


async def new_session(
    runtime: Runtime, generation: Generation, caller: Caller, body: NewSession
) -> tuple[str, ConnectSession]:
    """Create a session; return its token and the session. Raises InvalidRequest, NotFound, Forbidden,
    TooManyRequests."""
    environment = caller.environment.name
    _check_integrations(generation, caller, body, body.allowed_integrations)
    offered_ids = offered_integrations(generation, caller, environment, body.allowed_integrations)
    user = end_user(body.end_user, body.organization)
    tags = derived_tags(user, body.tags)
    check_required_tags(caller, tags)
    fixed_members = _fixed_members(body)
    check_fixed_values(generation, caller, fixed_members)
    _check_settings(generation, environment, fixed_members["defaults"])
    return await runtime.sessions.open(
        environment,
        caller.key_id,
        end_user=user,
        tags=tags,
        allowed_integrations=offered_ids,
        **fixed_members,
        **session_fields(generation.config, environment, body),
    )


async def reconnect_session(
    runtime: Runtime, generation: Generation, caller: Caller, body: Reconnect
) -> tuple[str, ConnectSession]:
    """Create a session that authorizes an existing connection again; return its token and the session. Raises
    InvalidRequest, NotFound, Forbidden, TooManyRequests."""
    ref = ConnectionRef(caller.environment.name, body.integration_id, body.connection_id)
    check_reach(caller, ref)
    await check_tags_of(runtime, caller, ref)
    _check_integrations(generation, caller, body, ())
    integration = generation.integrations.find(ref.environment, ref.integration_id)
    row = await runtime.store.connections.get(ref) if integration else None
    if row is None:
        path, message = (
            ("integration_id",),
            f"Environment '{ref.environment}' has no integration '{ref.integration_id}'.",
        )
        if integration:
            path, message = (
                ("connection_id",),
                (
                    f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'. "
                    "GET /connections lists the connections."
                ),
            )
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, path)])
    user = end_user(body.end_user, body.organization)
    new_tags = replacing_tags(user, body.tags)
    tags = row.tags if new_tags is None else new_tags
    check_required_tags(caller, tags)
    fixed_members = _fixed_members(body)
    check_fixed_values(generation, caller, fixed_members, reconnects=True)
    _check_settings(generation, ref.environment, fixed_members["defaults"])
    # Every holder of a session's token can see its end user, so the stored end user is added only if the key may read
    # connections. A session without an end user leaves that of the connection unchanged.
    known_user = row.end_user if caller.policy.allows(READ_CONNECTIONS) else None
    return await runtime.sessions.open(
        ref.environment,
        caller.key_id,
        end_user=user or known_user,
        tags=tags,
        allowed_integrations=(ref.integration_id,),
        connection_id=ref.connection_id,
        integration_id=ref.integration_id,
        pinned=caller.policy.keeps_settings,
        **fixed_members,
        **session_fields(generation.config, ref.environment, body),
    )


def _fixed_members(body: NewSession | Reconnect) -> dict[str, Any]:
    """Return the session members with which the back end fixes values for the session's connections.

    A `webhook_url` among the settings applies to the whole session, unless the body has a `webhook_url_override`.
    """
    defaults = {
        key: default.model_dump(exclude_none=True) for key, default in body.integrations_config_defaults.items()
    }
    webhook_urls = [
        default["connection_config"].pop("webhook_url", None)
        for default in defaults.values()
        if "connection_config" in default
    ]
    webhook_url = next((url for url in webhook_urls if url is not None), None)
    return {
        "defaults": defaults,
        "overrides": {key: override.model_dump(exclude_none=True) for key, override in body.overrides.items()},
        "webhook_url_override": body.webhook_url_override if body.webhook_url_override is not None else webhook_url,
    }


def connect_session_json(generation: Generation, token: str, session: ConnectSession) -> responses.ConnectSessionJson:
    """Return the body of the response to the caller that created a session."""
    public_url = generation.public_url
    return {
        "session_id": session.digest,
        "token": token,
        "connect_link": connect_link(public_url, token),
        "expires_at": iso(session.expires_at),
        "poll_url": poll_url(public_url, session),
    }


def offered_integrations(
    generation: Generation, caller: Caller, environment: str, requested_ids: Sequence[str]
) -> tuple[str, ...]:
    """Return the integrations that a session created with this key may offer; empty means all.

    Raises NotFound for an integration that the key may not use. Raises Forbidden for a key limited to connections,
    because a session creates new connections, and for a key that may use none of the integrations.
    """
    policy = caller.policy
    if not policy.limits_resources:
        return tuple(requested_ids)
    if any(key_limits.connections for key_limits in policy.limits):
        raise beyond_limits_error("a session would create another connection")
    for key in requested_ids:
        if not policy.reaches_integration(key):
            raise no_integration_error(environment, key)
    existing = [integration.integration_id for integration in generation.integrations.list_in(environment)]
    offered_ids = tuple(requested_ids or filter(policy.reaches_integration, existing))
    if not offered_ids:
        raise beyond_limits_error("the environment has none of these integrations")
    return offered_ids


def check_required_tags(caller: Caller, tags: Mapping[str, str]) -> None:
    """Raise Forbidden if a connection with `tags` would lack the tags that the key is limited to."""
    if not caller.policy.allows_tags(tags):
        required_tags = ", ".join(f"{name}={value}" for name, value in (caller.policy.tags or {}).items())
        raise beyond_limits_error(f"connections that it creates or changes must have the tags {required_tags}")


def _check_integrations(
    generation: Generation, caller: Caller, body: NewSession | Reconnect, allowed_ids: Sequence[str]
) -> None:
    """Raise InvalidRequest if the body names unknown integrations. The message about the first unknown integration
    suggests the closest name that the key may use."""
    environment = caller.environment.name
    named_ids = [
        *((("allowed_integrations", str(index)), key) for index, key in enumerate(allowed_ids)),
        *((("integrations_config_defaults", key), key) for key in body.integrations_config_defaults),
        *((("overrides", key), key) for key in body.overrides),
    ]
    unknown_ids = [entry for entry in named_ids if generation.integrations.find(environment, entry[1]) is None]
    issues = [
        Issue("custom", f"Environment '{environment}' has no integration '{key}'.", path) for path, key in unknown_ids
    ]
    if issues:
        existing = [integration.integration_id for integration in generation.integrations.list_in(environment)]
        similar_name = nearest(unknown_ids[0][1], filter(caller.policy.reaches_integration, existing))
        hint = f"Did you mean '{similar_name}'?" if similar_name else "GET /integrations lists the integrations."
        issues[0] = replace(issues[0], message=f"{issues[0].message} {hint}")
        raise InvalidRequest("invalid_body", issues[0].message, errors=issues)


def _check_settings(generation: Generation, environment: str, defaults: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if `defaults` fixes settings with which no end user can connect."""
    for key, default in defaults.items():
        integration = generation.integrations.get(environment, key)
        provider = generation.catalog.get(integration.provider)
        config = {
            name: value for name, value in (default.get("connection_config") or {}).items() if name != SCOPES_OVERRIDE
        }
        if provider is None or not config:
            continue
        context = AuthContext(provider, integration, public_url=generation.public_url)
        check_fixed_settings(
            context, generation.egress.guard, config, ("integrations_config_defaults", key, "connection_config")
        )
