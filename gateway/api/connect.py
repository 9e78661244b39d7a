"""Connect sessions: the customer's back end says who may connect what (api-contract 1.5)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from gateway.access.refusals import beyond_limits, no_integration
from gateway.api.body import Strict, query_of, read_json
from gateway.api.narrow import check_fixed
from gateway.api.session_options import SessionOptions, fields_of
from gateway.api.shapes import (
    MOST_NAMED,
    ConnectionId,
    EndUserBody,
    OrganizationBody,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    derived_tags,
    end_user,
    tags_asked,
)
from gateway.auth.moments import iso
from gateway.catalog.value import is_web_address
from gateway.connections.sessions import connect_link, poll_url
from gateway.errors import InvalidRequest, Issue
from gateway.keys.caller import Caller
from gateway.records.connecting import ConnectSession
from gateway.records.connection import ConnectionRef
from gateway.services import SERVICES, Services
from middleware.connection import check_reach
from middleware.connection import check_tags as check_tags_of
from middleware.facts import CALLER
from middleware.scope import needs

READ: Final = "environment:connections:read"


class FixedSettings(Strict):
    """Any settings; a webhook address among them is the session's."""

    model_config = ConfigDict(extra="allow")

    webhook_url: WebhookUrl | None = None


class IntegrationDefaults(Strict):
    """What the back end fixes for one integration; the browser cannot change it."""

    user_scopes: str | None = None
    authorization_params: dict[str, str] | None = None
    connection_config: FixedSettings | None = None


def _page(text: str) -> str:
    if text and not (text.lower().startswith("https://") and is_web_address(text)):
        raise ValueError("must be an https:// address of a page")
    return text


class Override(Strict):
    """`docs_connect`: the help page that the connect page links to, in place of the entry's."""

    docs_connect: Annotated[str, StringConstraints(max_length=2048), AfterValidator(_page)] | None = None


class NewSession(SessionOptions):
    """`end_user` may be left out where `tags` tell whose connection it will be."""

    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    allowed_integrations: list[ProviderConfigKey] = Field(default_factory=list, max_length=MOST_NAMED)
    integrations_config_defaults: dict[str, IntegrationDefaults] = Field(default_factory=dict, max_length=MOST_NAMED)
    overrides: dict[str, Override] = Field(default_factory=dict, max_length=MOST_NAMED)
    webhook_url_override: WebhookUrl | None = None

    @model_validator(mode="after")
    def _somebody(self) -> "NewSession":
        if self.end_user is None and self.tags is None:
            raise ValueError("end_user is missing; without it, give tags that tell whose connection it will be")
        return self


class Reconnect(SessionOptions):
    """A session for one connection that is there: its end user authorizes again, and its id stays."""

    connection_id: ConnectionId
    integration_id: ProviderConfigKey
    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    integrations_config_defaults: dict[str, IntegrationDefaults] = Field(default_factory=dict, max_length=MOST_NAMED)
    overrides: dict[str, Override] = Field(default_factory=dict, max_length=MOST_NAMED)
    webhook_url_override: WebhookUrl | None = None


@needs("environment:connect_sessions:write", limits=True)
async def create_session(request: web.Request) -> web.Response:
    """201 with the token, the link to hand to the end user, and when both end."""
    query_of(request, ())
    services = request.app[SERVICES]
    made = await new_session(services, request[CALLER], await read_json(request, NewSession))
    return web.json_response({"data": shown(services, *made)}, status=201)


@needs("environment:connect_sessions:write", limits=True)
async def create_reconnect_session(request: web.Request) -> web.Response:
    """201 of the same shape, for a connection that is there; an unknown one is 400. What it knows of its end user stays,
    unless another is given."""
    query_of(request, ())
    services = request.app[SERVICES]
    made = await reconnect_session(services, request[CALLER], await read_json(request, Reconnect))
    return web.json_response({"data": shown(services, *made)}, status=201)


async def new_session(services: Services, caller: Caller, body: NewSession) -> tuple[str, ConnectSession]:
    """The token, and the session behind it. Raises InvalidRequest, NotFound, Forbidden, TooManyRequests."""
    environment = caller.environment.name
    _check_integrations(services, environment, body, body.allowed_integrations)
    offered = offered_to(services, caller, environment, body.allowed_integrations)
    user = end_user(body.end_user, body.organization)
    tags = derived_tags(user, body.tags)
    check_tags(caller, tags)
    fixed = _fixed(body)
    check_fixed(services, caller, fixed)
    return await services.sessions.open(
        environment,
        caller.key_id,
        end_user=user,
        tags=tags,
        allowed_integrations=offered,
        **fixed,
        **fields_of(services.config, environment, body),
    )


async def reconnect_session(services: Services, caller: Caller, body: Reconnect) -> tuple[str, ConnectSession]:
    """The same for a connection that is there."""
    ref = ConnectionRef(caller.environment.name, body.integration_id, body.connection_id)
    check_reach(caller, ref)
    await check_tags_of(services, caller, ref)
    _check_integrations(services, ref.environment, body, ())
    known = services.integrations.find(ref.environment, ref.integration_id)
    row = await services.store.connections.get(ref) if known else None
    if row is None:
        path, message = (
            ("integration_id",),
            f"Environment '{ref.environment}' has no integration '{ref.integration_id}'.",
        )
        if known:
            path, message = ("connection_id",), f"'{ref.integration_id}' has no connection '{ref.connection_id}'."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, path)])
    user = end_user(body.end_user, body.organization)
    asked = tags_asked(user, body.tags)
    tags = row.tags if asked is None else asked
    check_tags(caller, tags)
    fixed = _fixed(body)
    check_fixed(services, caller, fixed, reconnects=True)
    # A session shows its end user to every holder of its token. Without one, the connection keeps the one that it has.
    known_user = row.end_user if caller.policy.allows(READ) else None
    return await services.sessions.open(
        ref.environment,
        caller.key_id,
        end_user=user or known_user,
        tags=tags,
        allowed_integrations=(ref.integration_id,),
        connection_id=ref.connection_id,
        integration_id=ref.integration_id,
        pinned=caller.policy.pins,
        **fixed,
        **fields_of(services.config, ref.environment, body),
    )


def _fixed(body: NewSession | Reconnect) -> dict[str, Any]:
    """What the back end decides about the connections to come. A webhook address among the settings is the session's."""
    defaults = {key: one.model_dump(exclude_none=True) for key, one in body.integrations_config_defaults.items()}
    lifted = [
        one["connection_config"].pop("webhook_url", None) for one in defaults.values() if "connection_config" in one
    ]
    legacy = next((url for url in lifted if url is not None), None)
    return {
        "defaults": defaults,
        "overrides": {key: one.model_dump(exclude_none=True) for key, one in body.overrides.items()},
        "webhook_url_override": body.webhook_url_override if body.webhook_url_override is not None else legacy,
    }


def shown(services: Services, token: str, session: ConnectSession) -> dict[str, Any]:
    """What its maker is given of a new session."""
    public_url = services.config.server.public_url
    return {
        "session_id": session.digest,
        "token": token,
        "connect_link": connect_link(public_url, token),
        "expires_at": iso(session.expires_at),
        "poll_url": poll_url(public_url, session),
    }


def offered_to(services: Services, caller: Caller, environment: str, asked: Sequence[str]) -> tuple[str, ...]:
    """What a session may offer that this key opens: no more than the key reaches; empty stands for all.

    Raises NotFound for an integration out of its reach, Forbidden for a key that is limited to connections, since a session
    makes others.
    """
    policy = caller.policy
    if not policy.of_resources:
        return tuple(asked)
    if any(one.connections for one in policy.limits):
        raise beyond_limits("a session would make another connection")
    for key in asked:
        if not policy.reaches_integration(key):
            raise no_integration(environment, key)
    there = [one.integration_id for one in services.integrations.of(environment)]
    reached = tuple(asked or filter(policy.reaches_integration, there))
    if not reached:
        raise beyond_limits("there is none of them here")
    return reached


def check_tags(caller: Caller, tags: Mapping[str, str]) -> None:
    """Raises Forbidden where what is made would not carry the tags that the key is limited to."""
    if not caller.policy.fits(tags):
        wanted = ", ".join(f"{name}={value}" for name, value in (caller.policy.tags or {}).items())
        raise beyond_limits(f"what it makes must carry the tags {wanted}")


def _check_integrations(
    services: Services, environment: str, body: NewSession | Reconnect, allowed: Sequence[str]
) -> None:
    named = [
        *((("allowed_integrations", str(n)), key) for n, key in enumerate(allowed)),
        *((("integrations_config_defaults", key), key) for key in body.integrations_config_defaults),
        *((("overrides", key), key) for key in body.overrides),
    ]
    issues = [
        Issue("custom", f"Environment '{environment}' has no integration '{key}'.", path)
        for path, key in named
        if services.integrations.find(environment, key) is None
    ]
    if issues:
        raise InvalidRequest("invalid_body", issues[0].message, errors=issues)
