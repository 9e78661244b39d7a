"""The authorization of one end user at one provider: out to its own page, back to our callback, once.

`state` is 256 random bits, stored as a digest, good for one use and ten minutes, and bound by a cookie to the browser
that began (RFC 9700 §4.7). What the callback needs (token address, PKCE verifier, settings) is pinned in the stored
flow, so nothing of it can be swapped on the way (RFC 9700 §4.4). What is asked of the provider is the auth mode's to say.
"""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import GrantingMode, SetOut, Wish
from gateway.auth.secret_hosts import check_settings
from gateway.auth.words import short
from gateway.catalog.provider import Provider
from gateway.connections.arrived import LIFETIME
from gateway.connections.arriving import Arrivals, granting
from gateway.connections.failures import log_failure
from gateway.connections.flow_faults import error_type, not_for_reconnect
from gateway.connections.offered import check_offered, check_room, settings_of
from gateway.connections.outcomes import client_digest
from gateway.connections.renewed import as_before
from gateway.connections.settings import complete
from gateway.errors import GatewayError, InvalidRequest, UpstreamFailed
from gateway.oauth.authorize import chosen
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connecting import ConnectSession, NewFlow, Outcome
from gateway.secret import Secret, digest

CONFIRMED_WITHIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the browser goes next, and the cookie that shows on return that it is the same browser. `flow`: the digest of
    its `state`, by which the flow is known where `state` must not be."""

    url: str
    flow: str
    cookie_name: str
    cookie_value: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the browser, or the page it came from, may choose about a flow.

    `override`: a client of the end user's own (``client_id``, ``client_secret``), and a ``refresh_token``. `ws_client_id`:
    the WebSocket that waits for the outcome. `browser`: the digest by which the browser that confirmed is known. `lang`: of
    the pages that follow. `request_id`: for the log.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    authorization_params: Mapping[str, str] = field(default_factory=dict)
    user_scope: str | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    ws_client_id: str | None = None
    browser: str | None = None
    lang: str | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is known of an authorization before the provider is asked."""

    provider: Provider
    mode: GrantingMode
    context: Context
    scopes: tuple[str, ...] | None
    config: Mapping[str, Any]
    given: list[str]


class Flows(Arrivals):
    """Begins and ends authorizations."""

    async def ask(self, session: ConnectSession, integration_id: str, asked: Asked) -> str:
        """Check `asked` as `begin` does, without asking the provider, and keep it sealed until the end user confirms it.

        Returns the token by which `asked_for` finds it for an hour, while the session lives. Raises as `begin` does.
        """
        try:
            await self._prepared(session, integration_id, asked)
        except GatewayError as fault:
            await self.refused(session, integration_id, asked.ws_client_id, fault, asked.request_id)
            raise
        token = secrets.token_urlsafe(32)
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(token),
                browser_digest="",  # the digest of nothing: no browser comes back with it
                environment=session.environment,
                integration_id=integration_id,
                connection_id="",
                session_digest=session.digest,
                expires_at=min(session.expires_at, clock.now() + CONFIRMED_WITHIN),
                details={"asked": asdict(asked)},
            )
        )
        return token

    async def asked_for(self, session: ConnectSession, integration_id: str, token: str) -> Asked | None:
        """What `ask` has kept for this session and integration under `token`."""
        flow = await self._store.flows.get(digest(token), now=clock.now())
        if flow is None or (flow.session_digest, flow.integration_id) != (session.digest, integration_id):
            return None
        kept = self._store.open(flow.details).get("asked")
        return None if kept is None else Asked(**kept)

    async def under_way(self, flow_digest: str, cookies: Mapping[str, str]) -> tuple[str, str] | None:
        """The integration and the provider's address of an authorization that this browser has begun and not ended."""
        flow = await self._store.flows.get(flow_digest, now=clock.now())
        name = self.cookie_of(flow_digest)
        if flow is None or Secret(digest(cookies.get(name, ""))) != Secret(flow.browser_digest):
            return None
        url = self._store.open(flow.details).get("url")
        return None if url is None else (flow.integration_id, url)

    async def begin(self, session: ConnectSession, integration_id: str, asked: Asked) -> Departure:
        """Raises NotFound, Forbidden where the session does not offer this integration or has made all its connections,
        InvalidRequest on its settings; who waits for the outcome then hears of that.
        """
        try:
            return await self._begin(session, integration_id, asked)
        except GatewayError as fault:
            await self.refused(session, integration_id, asked.ws_client_id, fault, asked.request_id)
            raise

    async def refused(
        self,
        session: ConnectSession,
        integration_id: str,
        ws_client_id: str | None,
        fault: GatewayError,
        request_id: str = "",
    ) -> None:
        """Tell whoever waits that nothing was begun."""
        log_failure(
            fault,
            environment=session.environment,
            integration=integration_id,
            request_id=request_id,
            connection_id=session.connection_id,
        )
        await self._outcomes.tell(
            Outcome(
                environment=session.environment,
                session_digest=session.digest,
                integration_id=integration_id[:255],
                client_digest=client_digest(ws_client_id),
                error_type=error_type(fault),
                error_desc=fault.message,
                code=fault.code,
                at=clock.now(),
            )
        )

    async def _begin(self, session: ConnectSession, integration_id: str, asked: Asked) -> Departure:
        ready = await self._prepared(session, integration_id, asked)
        defaults = session.defaults.get(integration_id, {})
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        wish = Wish(
            state=state,
            scopes=ready.scopes,
            override=asked.override,
            user_scope=defaults.get("user_scopes") or asked.user_scope,
            params={**chosen(asked.authorization_params), **(defaults.get("authorization_params") or {})},
        )
        way = await self._set_out(ready.mode, ready.context, wish)
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
                    "provider": ready.provider.name,
                    "mode": ready.mode.name,
                    "kept": dict(way.kept),
                    "url": way.url,
                    "config": dict(ready.config),
                    "given": ready.given,
                    "end_user": asdict(session.end_user) if session.end_user else None,
                    "tags": dict(session.tags),
                    "webhook_url_override": session.webhook_url_override,
                    "client": client_digest(asked.ws_client_id),
                    "browser": asked.browser,
                    "reconnects": session.reconnects,
                    "pinned": session.pinned,
                    "lang": asked.lang,
                    "limited": session.max_connections is not None,
                    "code_challenge": session.code_challenge,
                },
            )
        )
        return Departure(way.url, digest(state), self.cookie_name(state), Secret(browser))

    async def _prepared(self, session: ConnectSession, integration_id: str, asked: Asked) -> _Prepared:
        integration = self._integrations.get(session.environment, integration_id)
        check_offered(session, integration_id)
        check_room(session)
        if fault := not_for_reconnect(session, integration_id):
            raise fault
        provider = self._creator.provider_of(integration)
        mode = granting(provider, integration_id)
        config, scopes = settings_of(session, provider, integration_id, asked.config)
        given = sorted(config)
        if session.reconnects:
            config = await as_before(self._store, session, provider, integration_id, config)
        complete(provider, config, ("params",))
        context = Context(provider, integration, config, public_url=self._public_url)
        check_settings(context, ("params",))
        return _Prepared(provider, mode, context, scopes, config, given)

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
