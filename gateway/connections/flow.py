"""The authorization of one end user at one provider: out to its own page, back to our callback, once.

`state` is 256 random bits, stored as a digest, good for one use and ten minutes, and bound by a cookie to the browser
that began (RFC 9700 §4.7). What the callback needs (token address, PKCE verifier, settings) is pinned in the stored
flow, so nothing of it can be swapped on the way (RFC 9700 §4.4). What is asked of the provider is the auth mode's to say.
"""

import asyncio
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import Context
from gateway.auth.mode import Granted, GrantingMode, SetOut, Wish
from gateway.auth.words import short
from gateway.catalog.provider import Provider
from gateway.connections.create import Creator
from gateway.connections.dialogues import Dialogues
from gateway.connections.integrations import Integrations
from gateway.connections.offered import check_offered, settings_of
from gateway.connections.settings import complete
from gateway.errors import InvalidRequest, UpstreamFailed
from gateway.oauth.authorize import chosen
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connecting import ConnectSession, Flow, NewFlow
from gateway.records.connection import Connection, EndUser
from gateway.secret import Secret, digest
from gateway.store import Store

LIFETIME: Final = timedelta(minutes=10)
STATES: Final = ("state", "payload", "customField")  # how providers call it that have no OAuth `state`
NEITHER: Final = (
    "The provider sent neither a code nor an error back. Start again from the application; if it happens again, ask "
    "whoever runs it for help."
)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the browser goes next, and the cookie that shows on return that it is the same browser."""

    url: str
    cookie_name: str
    cookie_value: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the browser, or the page it came from, may choose about a flow."""

    config: Mapping[str, str] = field(default_factory=dict)
    authorization_params: Mapping[str, str] = field(default_factory=dict)
    user_scope: str | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """A flow that its own browser has come back to, used up by that."""

    flow: Flow
    mode: GrantingMode
    context: Context
    details: Mapping[str, Any] = field(repr=False)


class CallbackFailed(InvalidRequest):
    """An authorization that led to nothing; knows what it was for, as far as that is safe to tell."""

    integration_id: str | None = None


class Flows:
    """Begins and ends authorizations. `public_url` is the only source of our own address."""

    def __init__(
        self, store: Store, integrations: Integrations, creator: Creator, dialogues: Dialogues, public_url: str
    ) -> None:
        self._store = store
        self._integrations = integrations
        self._creator = creator
        self._dialogues = dialogues
        self._public_url = public_url
        self.redirect_uri: Final = f"{public_url}/oauth/callback"
        self._redeeming: set[asyncio.Task[Connection]] = set()
        self._cookie_prefix = "__Host-gw-flow-" if public_url.startswith("https://") else "gw-flow-"

    async def begin(self, session: ConnectSession, integration_id: str, asked: Asked) -> Departure:
        """Raises NotFound, Forbidden where the session does not offer this integration, InvalidRequest on its settings."""
        integration = self._integrations.get(session.environment, integration_id)
        check_offered(session, integration_id)
        provider = self._creator.provider_of(integration)
        mode = _granting(provider, integration_id)
        defaults = session.defaults.get(integration_id, {})
        config, scopes = settings_of(session, provider, integration_id, asked.config)
        complete(provider, config, ("params",))
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        context = Context(provider, integration, config, public_url=self._public_url)
        wish = Wish(
            state=state,
            scopes=scopes,
            user_scope=defaults.get("user_scopes") or asked.user_scope,
            params={**chosen(asked.authorization_params), **(defaults.get("authorization_params") or {})},
        )
        way = await self._set_out(mode, context, wish)
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(state),
                browser_digest=digest(browser),
                environment=session.environment,
                integration_id=integration_id,
                connection_id=session.connection_id or str(uuid.uuid4()),
                session_digest=session.digest,
                expires_at=clock.now() + LIFETIME,
                details={
                    "provider": provider.name,
                    "mode": mode.name,
                    "kept": dict(way.kept),
                    "config": config,
                    "end_user": asdict(session.end_user) if session.end_user else None,
                    "tags": dict(session.tags),
                    "webhook_url_override": session.webhook_url_override,
                },
            )
        )
        return Departure(way.url, self.cookie_name(state), Secret(browser))

    async def _set_out(self, mode: GrantingMode, context: Context, wish: Wish) -> SetOut:
        name = context.provider.display_name
        try:
            return await self._dialogues.hold(mode.set_out(context, wish))
        except TokenRefused as fault:
            raise InvalidRequest(
                "token_request_failed",
                f"{name} does not let this integration begin an authorization: {short(str(fault))}. Check its client ID, "
                "client secret and the callback address that is registered there.",
            ) from fault
        except TokenUnavailable as fault:
            raise UpstreamFailed(
                "upstream_unreachable", f"{name} could not be asked: {short(str(fault))}. Try again."
            ) from fault

    def cookie_name(self, state: str) -> str:
        """One cookie a flow, so that two windows of a browser can authorize side by side."""
        return self._cookie_prefix + str(int(digest(state)[:12], 16))

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Connection:
        """The new connection. Raises CallbackFailed with words for the end user; a state that is not this browser's
        stays unused, so that whoever it belongs to can still finish.
        """
        returned = await self._returned(query, cookies)
        # In a task of its own: the state is spent, so a browser that leaves now must not throw the grant away.
        redeeming = asyncio.create_task(self._redeem(returned, query))
        self._redeeming.add(redeeming)
        redeeming.add_done_callback(self._redeemed)
        try:
            return await asyncio.shield(redeeming)
        except InvalidRequest as fault:
            raise _about(returned.flow, fault) from fault

    def take_over(self, former: "Flows") -> None:
        """At the end, wait for what is being finished there too."""
        self._redeeming = former._redeeming

    async def close(self, within_s: float = 15) -> None:
        """Let authorizations that are being finished end."""
        if self._redeeming:
            await asyncio.wait(set(self._redeeming), timeout=within_s)

    def _redeemed(self, task: "asyncio.Task[Connection]") -> None:
        self._redeeming.discard(task)
        if not task.cancelled():
            task.exception()  # told to the browser, or to nobody if it has left

    async def _returned(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Returned:
        state = state_in(query)
        if not state:
            raise CallbackFailed("invalid_state", "The provider sent no state back. Start again from the application.")
        flow = await self._store.flows.get(digest(state), now=clock.now())
        if flow is None:
            raise CallbackFailed(
                "invalid_state",
                "This authorization is unknown, was used already, or is older than ten minutes. Start again.",
            )
        if Secret(digest(cookies.get(self.cookie_name(state), ""))) != Secret(flow.browser_digest):
            raise CallbackFailed(
                "invalid_state",
                "This authorization was begun in another browser, or this one refuses cookies. Open the link where "
                "you began, or start again here.",
            )
        integration = self._integrations.get(flow.environment, flow.integration_id)
        provider = self._creator.provider_of(integration)
        mode = _granting(provider, flow.integration_id)
        if not mode.answered(Context(provider, integration), query):
            raise _about(flow, InvalidRequest("invalid_state", NEITHER))
        mine = await self._store.flows.consume(flow.state_digest, now=clock.now())
        if mine is None:
            raise _about(flow, InvalidRequest("invalid_state", "This authorization was used already. Start again."))
        details = self._store.open(mine.details)
        if (provider.name, mode.name) != (details["provider"], details["mode"]):
            changed = f"Integration '{flow.integration_id}' was changed while you authorized. Start again."
            raise _about(flow, InvalidRequest("invalid_state", changed))
        context = Context(provider, integration, details["config"], public_url=self._public_url)
        return Returned(flow, mode, context, details)

    async def _redeem(self, returned: Returned, query: Mapping[str, str]) -> Connection:
        context, details = returned.context, returned.details
        granted = await self._granted(returned, query)
        connection, _ = await self._creator.create(
            context.integration,
            granted.held,
            connection_id=returned.flow.connection_id,
            config={**granted.config, **details["config"]},
            path=("params",),
            tags=details["tags"] or None,
            end_user=EndUser(**details["end_user"]) if details["end_user"] else None,
            webhook_url_override=details["webhook_url_override"],
            tested=False,
        )
        return connection

    async def _granted(self, returned: Returned, query: Mapping[str, str]) -> Granted:
        try:
            return await self._dialogues.hold(returned.mode.arrive(returned.context, returned.details["kept"], query))
        except (TokenRefused, TokenUnavailable) as fault:
            name = returned.context.provider.display_name
            raise InvalidRequest(
                "token_request_failed",
                f"{name} did not exchange the code for a token: {short(str(fault))}. Start again; if "
                "it happens again, the integration's client ID, client secret or callback address is wrong.",
            ) from fault


def state_in(query: Mapping[str, str]) -> str:
    """What names the flow in a callback's query."""
    return next((query[name] for name in STATES if query.get(name)), "")


def _granting(provider: Provider, integration_id: str) -> GrantingMode:
    mode = modes()[provider.auth_mode]
    if not isinstance(mode, GrantingMode):
        raise InvalidRequest(
            "invalid_auth_mode",
            f"'{integration_id}' does not use OAuth but {provider.auth_mode}; its connections are imported with "
            "POST /connections.",
        )
    return mode


def _about(flow: Flow, fault: InvalidRequest) -> CallbackFailed:
    failed = CallbackFailed(fault.code, fault.message, errors=fault.errors, payload=fault.payload)
    failed.integration_id = flow.integration_id
    return failed
