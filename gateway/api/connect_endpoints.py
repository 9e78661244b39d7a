"""Connect sessions: made by the customer's back end, shown to the page and to the back end."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.refusals import beyond_limits, no_integration
from gateway.api import answers
from gateway.api.connection_json import end_user_json
from gateway.api.narrow import check_fixed
from gateway.api.request_body import Strict, number, query_of, read_json
from gateway.api.shapes import (
    MOST_NAMED,
    ConnectionId,
    EndUserBody,
    OrganizationBody,
    ProviderConfigKey,
    SmallAsSent,
    Tags,
    WebhookUrl,
    derived_tags,
    end_user,
    tags_asked,
)
from gateway.authorization.connect_sessions import LIFETIME, LONGEST, MOST_CONNECTIONS, SHORTEST, connect_link, poll_url
from gateway.authorization.outcomes import client_digest
from gateway.authorization.return_address import origin_of
from gateway.authorization.trusted_pages import is_registered
from gateway.catalog.value import is_web_address
from gateway.config import Config
from gateway.errors import InvalidRequest, Issue, NotFound
from gateway.generation import Generation
from gateway.middleware.facts import CALLER, CONNECT_SESSION, ENVIRONMENT
from gateway.middleware.scope import needs
from gateway.middleware.which_connection import check_reach
from gateway.middleware.which_connection import check_tags as check_tags_of
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Outcome
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.secret import Secret
from gateway.timestamps import iso

# ── What a connect session may be limited and bound to, as its back end says it.

S256: Final = re.compile(r"[A-Za-z0-9_-]{43}")
S256_SCHEMA: Final = {"pattern": f"^{S256.pattern}$"}


def _s256(text: str) -> str:
    if not S256.fullmatch(text):
        raise ValueError(
            "must be the S256 challenge of a verifier: 43 characters of base64url, without padding (RFC 7636 §4.2)"
        )
    return text


def _return_url(text: str) -> str:
    parts = urlsplit(text)
    if not is_web_address(text) or "#" in text or "@" in parts.netloc:
        raise ValueError("must be an https:// address of a page, without a user name and without '#'")
    if taken := {"state", "result"} & parse_qs(parts.query, keep_blank_values=True).keys():
        raise ValueError(f"must not have {min(taken)} in its query: the gateway adds it")
    origin_of(text)  # https, or http on loopback
    return text


class SessionOptions(Strict):
    """How long a session lives, what it may make, and what it is bound to; the same for new connections and reconnects.

    `expires_in`: in seconds. `max_connections`: how many connections it may make. `single_use`: it serves the first browser
    in which its end user continues, and no other. `code_challenge`: S256 (RFC 7636 §4.2); connections stay pending until
    ``POST /connect/sessions/{id}/complete`` with the verifier. `return_url`: the page of the application to which the end
    user returns, with `state`.
    """

    expires_in: int = Field(
        int(LIFETIME.total_seconds()), ge=int(SHORTEST.total_seconds()), le=int(LONGEST.total_seconds())
    )
    max_connections: Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)] | None = None
    single_use: bool = False
    code_challenge: Annotated[str, AfterValidator(_s256), Field(json_schema_extra=S256_SCHEMA)] | None = None
    code_challenge_method: Literal["S256"] | None = None
    return_url: Annotated[str, StringConstraints(max_length=2048), AfterValidator(_return_url)] | None = None
    state: Annotated[str, StringConstraints(max_length=512)] | None = None

    @model_validator(mode="after")
    def _together(self) -> "SessionOptions":
        if self.code_challenge_method is not None and self.code_challenge is None:
            raise ValueError("code_challenge_method comes with a code_challenge; give both or neither")
        if self.state is not None and self.return_url is None:
            raise ValueError("state comes back with return_url; give return_url too, or leave state out")
        return self


def fields_of(config: Config, environment: str, body: SessionOptions) -> dict[str, Any]:
    """`lifetime`, and fields of ConnectSession. Raises InvalidRequest for a session that must be bound and is not, and for a
    `return_url` of a page that is not the application's.
    """
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
                "Add that origin in gateway.yaml, or use a page of one that is there."
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


# ── Connect sessions: the customer's back end says who may connect what (docs/compatibility.md#connect-sessions).

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


AllDefaults = Annotated[dict[str, IntegrationDefaults], Field(max_length=MOST_NAMED), SmallAsSent]
Overrides = Annotated[dict[str, Override], Field(max_length=MOST_NAMED), SmallAsSent]


class NewSession(SessionOptions):
    """`end_user` may be left out where `tags` name the owner of the connection."""

    end_user: EndUserBody | None = None
    organization: OrganizationBody | None = None
    tags: Tags | None = None
    allowed_integrations: list[ProviderConfigKey] = Field(default_factory=list, max_length=MOST_NAMED)
    integrations_config_defaults: AllDefaults = Field(default_factory=dict)
    overrides: Overrides = Field(default_factory=dict)
    webhook_url_override: WebhookUrl | None = None

    @model_validator(mode="after")
    def _somebody(self) -> "NewSession":
        if self.end_user is None and self.tags is None:
            raise ValueError("end_user is missing; without it, give tags that name its owner")
        return self


class Reconnect(SessionOptions):
    """A session for one connection that is there: its end user authorizes again, and its id stays."""

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
    """201 with the token, the link to hand to the end user, and when both end."""
    query_of(request, ())
    runtime, generation = request.app[RUNTIME], generation_of(request)
    made = await new_session(runtime, generation, request[CALLER], await read_json(request, NewSession))
    return web.json_response(answers.ConnectSessionAnswer(data=shown(generation, *made)), status=201)


@needs("environment:connect_sessions:write", limits=True)
async def create_reconnect_session(request: web.Request) -> web.Response:
    """201 of the same shape, for a connection that is there; an unknown one is 400. What it knows of its end user stays,
    unless another is given."""
    query_of(request, ())
    runtime, generation = request.app[RUNTIME], generation_of(request)
    made = await reconnect_session(runtime, generation, request[CALLER], await read_json(request, Reconnect))
    return web.json_response(answers.ConnectSessionAnswer(data=shown(generation, *made)), status=201)


async def new_session(
    runtime: Runtime, generation: Generation, caller: Caller, body: NewSession
) -> tuple[str, ConnectSession]:
    """The token, and the session behind it. Raises InvalidRequest, NotFound, Forbidden, TooManyRequests."""
    environment = caller.environment.name
    _check_integrations(generation, environment, body, body.allowed_integrations)
    offered = offered_to(generation, caller, environment, body.allowed_integrations)
    user = end_user(body.end_user, body.organization)
    tags = derived_tags(user, body.tags)
    check_tags(caller, tags)
    fixed = _fixed(body)
    check_fixed(generation, caller, fixed)
    return await runtime.sessions.open(
        environment,
        caller.key_id,
        end_user=user,
        tags=tags,
        allowed_integrations=offered,
        **fixed,
        **fields_of(generation.config, environment, body),
    )


async def reconnect_session(
    runtime: Runtime, generation: Generation, caller: Caller, body: Reconnect
) -> tuple[str, ConnectSession]:
    """The same for a connection that is there."""
    ref = ConnectionRef(caller.environment.name, body.integration_id, body.connection_id)
    check_reach(caller, ref)
    await check_tags_of(runtime, caller, ref)
    _check_integrations(generation, ref.environment, body, ())
    known = generation.integrations.find(ref.environment, ref.integration_id)
    row = await runtime.store.connections.get(ref) if known else None
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
    check_fixed(generation, caller, fixed, reconnects=True)
    # A session shows its end user to every holder of its token. Without one, the connection keeps the one that it has.
    known_user = row.end_user if caller.policy.allows(READ) else None
    return await runtime.sessions.open(
        ref.environment,
        caller.key_id,
        end_user=user or known_user,
        tags=tags,
        allowed_integrations=(ref.integration_id,),
        connection_id=ref.connection_id,
        integration_id=ref.integration_id,
        pinned=caller.policy.pins,
        **fixed,
        **fields_of(generation.config, ref.environment, body),
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


def shown(generation: Generation, token: str, session: ConnectSession) -> answers.ConnectSessionJson:
    """What its maker is given of a new session."""
    public_url = generation.public_url
    return {
        "session_id": session.digest,
        "token": token,
        "connect_link": connect_link(public_url, token),
        "expires_at": iso(session.expires_at),
        "poll_url": poll_url(public_url, session),
    }


def offered_to(generation: Generation, caller: Caller, environment: str, asked: Sequence[str]) -> tuple[str, ...]:
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
    there = [one.integration_id for one in generation.integrations.of(environment)]
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
    generation: Generation, environment: str, body: NewSession | Reconnect, allowed: Sequence[str]
) -> None:
    named = [
        *((("allowed_integrations", str(n)), key) for n, key in enumerate(allowed)),
        *((("integrations_config_defaults", key), key) for key in body.integrations_config_defaults),
        *((("overrides", key), key) for key in body.overrides),
    ]
    issues = [
        Issue("custom", f"Environment '{environment}' has no integration '{key}'.", path)
        for path, key in named
        if generation.integrations.find(environment, key) is None
    ]
    if issues:
        raise InvalidRequest("invalid_body", issues[0].message, errors=issues)


# ── What a connect session returns: to the page that its end user has open, and to the back end that made it.

LONGEST_WAIT_S: Final = 30
MASK: Final = "********"
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def _verifier(text: str) -> str:
    if not VERIFIER.fullmatch(text):
        raise ValueError("must have 43 to 128 characters: letters, digits and - . _ ~ (RFC 7636 §4.1)")
    return text


class Telemetry(Strict):
    """What published pages report; taken and forgotten."""

    token: str
    event: str
    timestamp: Any = None
    dimensions: dict[str, Any] | None = None


class Completion(Strict):
    """`code_verifier`: the text of which the session's `code_challenge` is the S256 challenge (RFC 7636 §4.1).
    `connection_id`: of the verified result, which names what that browser has connected; without it, no more than one
    connection may be pending."""

    code_verifier: Annotated[
        str, AfterValidator(_verifier), Field(json_schema_extra={"pattern": f"^{VERIFIER.pattern}$"}, repr=False)
    ]
    connection_id: ConnectionId | None = None


async def show(request: web.Request) -> web.Response:
    """GET /connect/session (docs/compatibility.md#connect-sessions)."""
    query_of(request, ())
    session, generation = request[CONNECT_SESSION], generation_of(request)
    body: answers.Session = {
        "endUser": end_user_json(session.end_user),
        "connectUISettings": _settings(generation),
        "websocketsPath": generation.config.server.websocket_path,
    }
    if session.allowed_integrations:
        body["allowed_integrations"] = list(session.allowed_integrations)
    if session.defaults:
        body["integrations_config_defaults"] = {
            key: _for_browser(generation, session, key, one) for key, one in session.defaults.items()
        }
    if session.overrides:
        body["overrides"] = {key: dict(one) for key, one in session.overrides.items()}
    if session.reconnects:
        body["isReconnecting"] = True
    return web.json_response(answers.SessionAnswer(data=body))


async def end(request: web.Request) -> web.Response:
    """DELETE /connect/session: 204, and from then on its token opens nothing."""
    query_of(request, ())
    await request.app[RUNTIME].sessions.end(request[CONNECT_SESSION])
    return web.Response(status=204)


async def result(request: web.Request) -> web.Response:
    """GET /connect/session/result: what has come of it so far, for a page without a WebSocket.

    ``client``: only of the window that named it as `ws_client_id`. ``wait_s``: for so long, until there is anything.
    """
    query = query_of(request, ("client", "wait_s"), numbers={"wait_s": (0, LONGEST_WAIT_S)})
    session = request[CONNECT_SESSION]
    client = client_digest(query.get("client"))
    outcomes = await _awaited(request, session.digest, client, number(query, "wait_s") or 0)
    return web.json_response(answers.SessionResult(data=_result_json(outcomes, session.expires_at)))


@needs("environment:connect_sessions:write", limits=True)
async def poll(request: web.Request) -> web.Response:
    """GET /connect/sessions/{id}: the same for the back end, with its key; `poll_url` names it. Raises NotFound."""
    query = query_of(request, ("wait_s",), numbers={"wait_s": (0, LONGEST_WAIT_S)})
    runtime, name = request.app[RUNTIME], request.match_info["session_id"]
    session = await runtime.sessions.known(name)
    mine = session is not None and session.environment == request[ENVIRONMENT].name
    outcomes = await _awaited(request, name, None, (number(query, "wait_s") or 0) if mine else 0)
    outcomes = [one for one in outcomes if one.environment == request[ENVIRONMENT].name and _reached(request, one)]
    if mine and not outcomes:
        session = await runtime.sessions.known(name)  # it may have ended while we waited
    if not mine and not outcomes and not await runtime.store.sessions.ended(name, request[ENVIRONMENT].name):
        raise _unknown()
    expires_at = session.expires_at if mine and session else None
    return web.json_response(answers.SessionResult(data=_result_json(outcomes, expires_at)))


@needs("environment:connect_sessions:write", limits=True)
async def complete(request: web.Request) -> web.Response:
    """POST /connect/sessions/{id}/complete: 200 with the connections, which are stored and can be used from then on.

    The same call again gets the same answer. Raises NotFound as `poll` does, and what `SessionConnections.complete` raises.
    """
    query_of(request, ())
    body = await read_json(request, Completion)
    runtime, environment, name = request.app[RUNTIME], request[ENVIRONMENT].name, request.match_info["session_id"]
    session = await runtime.sessions.known(name)
    if session is not None and session.environment != environment:
        raise _unknown()
    pending = await runtime.store.pending.of_session(name, now=clock.now())
    policy = request[CALLER].policy
    pending = [one for one in pending if one.ref.environment == environment and policy.reaches(*one.ref[1:])]
    if body.connection_id is not None:
        pending = [one for one in pending if one.ref.connection_id == body.connection_id]
    if session is None and not pending:
        raise _unknown()
    done = await runtime.session_connections.complete(session, pending, Secret(body.code_verifier))
    connections = [_connection_of(one.integration_id, one.connection_id, is_pending=False) for one in done]
    completed: answers.CompletedSession = {"status": "connected", "connections": connections}
    return web.json_response(answers.CompletionAnswer(data=completed))


def _unknown() -> NotFound:
    return NotFound(
        "not_found", "This connect session is unknown, or ended long ago. POST /connect/sessions makes one."
    )


def _reached(request: web.Request, outcome: Outcome) -> bool:
    """Whether the key may know of it."""
    policy = request[CALLER].policy
    if outcome.connection_id:
        return policy.reaches(outcome.integration_id, outcome.connection_id)
    return policy.reaches_integration(outcome.integration_id)


async def telemetry(request: web.Request) -> web.Response:
    """POST /connect/telemetry: 204. Raises Unauthorized where its token is none."""
    body = await read_json(request, Telemetry)
    if len(body.event) > 255:
        raise InvalidRequest("invalid_body", "'event' may have at most 255 characters.")
    await request.app[RUNTIME].sessions.find(body.token)
    return web.Response(status=204)


async def _awaited(request: web.Request, session_digest: str, client: str | None, wait_s: int) -> Sequence[Outcome]:
    """All that is known; where that is nothing, what comes within `wait_s`."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    with runtime.outcomes.waiting(client or session_digest) as waiting:
        found = await _found(runtime, session_digest, client)
        if not found and wait_s and not runtime.outcomes.crowded(generation.config.connect.result_sockets):
            await asyncio.wait({waiting.outcome}, timeout=wait_s)
            found = await _found(runtime, session_digest, client)
    return found


async def _found(runtime: Runtime, session_digest: str, client: str | None) -> Sequence[Outcome]:
    found = await runtime.store.flow_results.of_session(session_digest)
    found = [one for one in found if one.error_type != SESSION_ENDED]
    return found if client is None else [one for one in found if one.client_digest == client]


def _result_json(outcomes: Sequence[Outcome], expires_at: datetime | None) -> answers.SessionOutcome:
    """`expires_at` None: the session has ended. A failure is not the end: the user may try again while it lives."""
    made = _made(outcomes)
    connected = any(not one.is_pending for one in made)
    body: answers.SessionOutcome = {
        "status": "connected" if connected else "pending" if made or expires_at else "expired",
        "connections": [
            _connection_of(one.integration_id, one.connection_id or "", is_pending=one.is_pending) for one in made
        ],
    }
    if outcomes and not outcomes[-1].succeeded:
        last = outcomes[-1]
        body["error"] = {
            "type": last.error_type or "",
            "code": last.code or "",
            "message": last.error_desc or "",
            "provider_config_key": last.integration_id,
        }
    if expires_at is not None:
        body["expires_at"] = iso(expires_at)
    return body


def _connection_of(integration_id: str, connection_id: str, *, is_pending: bool) -> answers.SessionConnection:
    return {"provider_config_key": integration_id, "connection_id": connection_id, "is_pending": is_pending}


def _made(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What has been connected; of what was pending, what became of it."""
    made: list[Outcome | None] = []
    waiting: dict[tuple[str, str | None], int] = {}
    for one in outcomes:
        of = one.integration_id, one.connection_id
        at = waiting.pop(of, None)
        if one.succeeded:
            if at is None:
                at = len(made)
                made.append(one)
            made[at] = one
            if one.is_pending:
                waiting[of] = at
        elif at is not None:
            if one.is_pending:
                made[at] = None
            else:
                waiting[of] = at
    return [one for one in made if one is not None]


def _for_browser(
    generation: Generation, session: ConnectSession, key: str, defaults: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """What is fixed for one integration, and of settings that its entry calls secret, only that they are fixed."""
    public = {name: defaults[name] for name in ("connection_config", "authorization_params") if name in defaults}
    integration = generation.integrations.find(session.environment, key)
    provider = generation.catalog.get(integration.provider) if integration else None
    if provider is None:
        public.pop("connection_config", None)  # nobody can say any more what of it is secret
    elif "connection_config" in public:
        secret = {name.casefold() for name, setting in provider.connection_config.items() if setting.secret}
        fixed = public["connection_config"].items()
        public["connection_config"] = {name: MASK if name.casefold() in secret else value for name, value in fixed}
    return public


def _settings(generation: Generation) -> dict[str, Any]:
    branding = generation.config.branding
    return {
        "theme": {"light": {"primary": branding.color}, "dark": {"primary": branding.color_dark}},
        "defaultTheme": "system",
        "showWatermark": False,
    }
