"""The authorization of one end user at one provider: out to its own page, back to our callback, once.

`state` is 256 random bits, stored as a digest, good for one use and ten minutes, and bound by a cookie to the browser
that began (RFC 9700 §4.7). What the callback needs (token address, PKCE verifier, settings) is pinned in the stored
flow, so nothing of it can be swapped on the way (RFC 9700 §4.4). What is asked of the provider is the auth mode's to say.
"""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from gateway import clock
from gateway.auth.context import Context
from gateway.auth.mode import GrantingMode, SetOut, Wish
from gateway.auth.secret_hosts import check_settings
from gateway.auth.words import short
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


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the browser goes next, and the cookie that shows on return that it is the same browser."""

    url: str
    cookie_name: str
    cookie_value: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the browser, or the page it came from, may choose about a flow.

    `override`: a client of the end user's own (``client_id``, ``client_secret``), and a ``refresh_token``. `ws_client_id`:
    the WebSocket that waits for the outcome. `lang`: of the pages that follow. `request_id`: for the log.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    authorization_params: Mapping[str, str] = field(default_factory=dict)
    user_scope: str | None = None
    override: Mapping[str, str] = field(default_factory=dict, repr=False)
    ws_client_id: str | None = None
    lang: str | None = None
    request_id: str = ""


class Flows(Arrivals):
    """Begins and ends authorizations."""

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
        integration = self._integrations.get(session.environment, integration_id)
        check_offered(session, integration_id)
        check_room(session)
        if fault := not_for_reconnect(session, integration_id):
            raise fault
        provider = self._creator.provider_of(integration)
        mode = granting(provider, integration_id)
        defaults = session.defaults.get(integration_id, {})
        config, scopes = settings_of(session, provider, integration_id, asked.config)
        given = sorted(config)
        if session.reconnects:
            config = await as_before(self._store, session, provider, integration_id, config)
        complete(provider, config, ("params",))
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        context = Context(provider, integration, config, public_url=self._public_url)
        check_settings(context, ("params",))
        wish = Wish(
            state=state,
            scopes=scopes,
            override=asked.override,
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
                    "given": given,
                    "end_user": asdict(session.end_user) if session.end_user else None,
                    "tags": dict(session.tags),
                    "webhook_url_override": session.webhook_url_override,
                    "client": client_digest(asked.ws_client_id),
                    "reconnects": session.reconnects,
                    "pinned": session.pinned,
                    "lang": asked.lang,
                    "limited": session.max_connections is not None,
                    "code_challenge": session.code_challenge,
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
