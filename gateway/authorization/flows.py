"""Runs the authorization of one end user at one provider: the redirect to its page, then the callback to the gateway.

`state` has 256 random bits, and only its digest is stored. `state` can be used only once, within ten minutes, and only
by the browser that started the flow. A cookie identifies this browser (RFC 9700 §4.7). When the flow starts, the data
for the callback is stored: token URL, PKCE verifier and settings. Therefore nobody can replace this data before the
callback (RFC 9700 §4.4). The auth mode builds the requests to the provider.
"""

import secrets
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from multidict import MultiMapping

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import AuthContext, check_settings
from gateway.auth.mode import AuthorizationRequestInput, ConsentRedirect, Granted, GrantingMode
from gateway.auth.provider_responses import safe_text
from gateway.authorization.connect_sessions import check_connection_limit, check_offered, connection_settings
from gateway.authorization.grants import Grants
from gateway.authorization.outcomes import OutcomeReporter, Outcomes, client_digest
from gateway.authorization.results import (
    LIFETIME,
    CallbackFailed,
    CallbackRequest,
    ConnectedResult,
    ReturnedFlow,
    SiteChoice,
    failed_callback,
    reconnect_mismatch_error,
)
from gateway.authorization.session_connections import SessionConnections
from gateway.background import ShieldedTasks
from gateway.catalog.provider import Provider
from gateway.connections.create import Creator, settings_for_reconnect
from gateway.connections.refused_scopes import scopes_to_request
from gateway.connections.settings import check_required_settings
from gateway.errors import Forbidden, GatewayError, InvalidRequest, NotFound, UpstreamFailed
from gateway.generation import CurrentGeneration
from gateway.oauth.authorize import without_protocol_params
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.connecting import (
    ConnectSession,
    Flow,
    FlowDetails,
    FlowOptions,
    NewFlow,
    Outcome,
    PendingAuthorization,
    flow_details,
)
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.secret import Secret, digest
from gateway.store import Store

STATE_PARAMETERS: Final = (
    "state",
    "payload",
    "customField",
)  # the name that OAuth defines, then the names that other providers use
NOT_REPEATABLE: Final = (*STATE_PARAMETERS, "code", "error", "iss")  # RFC 6749 §3.1: a parameter must not be repeated
NO_CODE_OR_ERROR: Final = (
    "The provider sent neither a code nor an error back. Start again from the application; if it happens again, ask "
    "its operator for help."
)


def _count_parameter(query: Mapping[str, str], name: str) -> int:
    return len(query.getall(name, ())) if isinstance(query, MultiMapping) else int(name in query)


def state_in(query: Mapping[str, str]) -> str:
    """Return the `state` in a callback's query, or an empty text if the query has none. The `state` identifies the
    flow."""
    return next((query[name] for name in STATE_PARAMETERS if query.get(name)), "")


def granting_mode(provider: Provider, integration_id: str) -> GrantingMode:
    """Return the provider's auth mode. Raises InvalidRequest if this mode does not send the end user to the
    provider."""
    mode = modes()[provider.auth_mode]
    if not isinstance(mode, GrantingMode):
        raise InvalidRequest(
            "invalid_auth_mode",
            f"Integration '{integration_id}' uses {provider.auth_mode}, not OAuth. Import its connections with "
            "POST /connections.",
        )
    return mode


CONFIRMATION_TIME: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AuthorizationStart:
    """The URL to redirect the browser to, and the cookie that identifies the same browser at the callback. `flow`: the
    digest of `state`, for code that must identify the flow but must not know `state`."""

    url: str = field(repr=False)
    flow: str
    cookie_name: str
    cookie_value: Secret


@dataclass(frozen=True, slots=True)
class _PreparedAuthorization:
    """The checked input of an authorization, before any request to the provider. `given_names`: the names of the settings

    that the application fixed or the end user entered."""

    provider: Provider
    mode: GrantingMode
    context: AuthContext
    scopes: tuple[str, ...] | None
    config: Mapping[str, Any]
    given_names: tuple[str, ...]


class Flows:
    """Starts and finishes authorizations."""

    def __init__(
        self,
        store: Store,
        current: CurrentGeneration,
        creator: Creator,
        session_connections: SessionConnections,
        dialogues: AuthDialogueRunner,
        outcomes: Outcomes,
    ) -> None:
        self._store = store
        self._current = current
        self._creator = creator
        self._dialogues = dialogues
        self._outcomes = outcomes
        self._tasks = ShieldedTasks()
        self._outcome_reporter = OutcomeReporter(store, outcomes)
        self._grants = Grants(store, creator, session_connections, dialogues, self.cookie_name)

    # ── the start: the end user confirms, and the browser is sent to the provider ─────────────────────────────────────

    def count_start(self, session: ConnectSession) -> None:
        """Count an authorization that the session starts. An authorization that makes a connection is no longer
        counted. Raises TooManyRequests if the count is too high."""
        self._outcomes.attempts.add(session)

    async def store_options(self, session: ConnectSession, integration_id: str, options: FlowOptions) -> str:
        """Check `options` without a request to the provider, and store `options` encrypted until the end user confirms.

        Returns a token with which `read_options` finds the options. The token is valid for an hour, but not longer than
        the session. Raises the same errors as `begin`.
        """
        self.count_start(session)
        try:
            await self._prepare(session, integration_id, options)
        except GatewayError as fault:
            await self.report_refusal(session, integration_id, options.ws_client_id, fault, options.request_id)
            raise
        token = secrets.token_urlsafe(32)
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(token),
                browser_digest="",  # matches no cookie, so no browser can finish this flow
                environment=session.environment,
                integration_id=integration_id,
                connection_id="",
                session_digest=session.digest,
                expires_at=min(session.expires_at, clock.now() + CONFIRMATION_TIME),
                details=options,
            )
        )
        return token

    async def read_options(self, session: ConnectSession, integration_id: str, token: str) -> FlowOptions | None:
        """Return the options that `store_options` stored for this session and integration under `token`. Return None if
        there are no such options."""
        flow = await self._store.flows.get(digest(token), now=clock.now())
        if flow is None or (flow.session_digest, flow.integration_id) != (session.digest, integration_id):
            return None
        details = self._open_details(flow)
        return details if isinstance(details, FlowOptions) else None

    async def begin(self, session: ConnectSession, integration_id: str, options: FlowOptions) -> AuthorizationStart:
        """Start an authorization. If the start is refused, also report this to the window that waits for the outcome.

        Raises NotFound for an unknown integration. Raises Forbidden if the session does not offer this integration, or
        has reached its maximum number of connections. Raises InvalidRequest for invalid settings, and UpstreamFailed if
        the provider returns no usable response. Raises TooManyRequests, which is not reported to the window, if the
        session has started too many authorizations.
        """
        self.count_start(session)
        try:
            return await self._begin(session, integration_id, options)
        except GatewayError as fault:
            await self.report_refusal(session, integration_id, options.ws_client_id, fault, options.request_id)
            raise

    async def report_refusal(
        self,
        session: ConnectSession,
        integration_id: str,
        ws_client_id: str | None,
        fault: GatewayError,
        request_id: str = "",
    ) -> None:
        """Report to the waiting window that no authorization was started, and log the reason."""
        attempt = Outcome(
            environment=session.environment,
            session_digest=session.digest,
            integration_id=integration_id[:255],
            client_digest=client_digest(ws_client_id),
            at=clock.now(),
        )
        await self._outcomes.publish_failure(attempt, fault, request_id=request_id, connection_id=session.connection_id)

    async def _begin(self, session: ConnectSession, integration_id: str, options: FlowOptions) -> AuthorizationStart:
        authorization = await self._prepare(session, integration_id, options)
        defaults = session.defaults.get(integration_id, {})
        state, browser_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        consent_request = AuthorizationRequestInput(
            state=state,
            scopes=authorization.scopes,
            override=options.override,
            user_scope=defaults.get("user_scopes") or options.user_scope,
            params={
                **without_protocol_params(
                    options.authorization_params, authorization.provider.authorization_param_renames
                ),
                **(defaults.get("authorization_params") or {}),
            },
        )
        redirect = await self._start_consent(authorization.mode, authorization.context, consent_request)
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(state),
                browser_digest=digest(browser_token),
                environment=session.environment,
                integration_id=integration_id,
                connection_id=session.connection_id or str(uuid.uuid4()),
                session_digest=session.digest,
                expires_at=clock.now() + LIFETIME,
                details=PendingAuthorization(
                    provider=authorization.provider.name,
                    mode=authorization.mode.name,
                    kept=redirect.kept,
                    url=redirect.url,
                    config=authorization.config,
                    given=authorization.given_names,
                    end_user=session.end_user,
                    tags=session.tags,
                    webhook_url_override=session.webhook_url_override,
                    client=client_digest(options.ws_client_id),
                    browser=options.browser,
                    reconnects=session.reconnects,
                    pinned=session.pinned,
                    lang=options.lang,
                    limited=session.max_connections is not None,
                    code_challenge=session.code_challenge,
                ),
            )
        )
        return AuthorizationStart(redirect.url, digest(state), self.cookie_name(state), Secret(browser_token))

    async def _prepare(
        self, session: ConnectSession, integration_id: str, options: FlowOptions
    ) -> _PreparedAuthorization:
        integration = self._current.generation.integrations.get(session.environment, integration_id)
        check_offered(session, integration_id)
        check_connection_limit(session)
        if fault := reconnect_mismatch_error(session, integration_id):
            raise fault
        provider = self._creator.provider_of(integration)
        mode = granting_mode(provider, integration_id)
        config, scopes = connection_settings(session, provider, integration_id, options.config)
        given_names = tuple(sorted(config))
        if session.reconnects:
            config = await settings_for_reconnect(self._store, session, provider, integration_id, config)
            scopes = scopes or await self._scopes_for_reconnect(session, provider, integration)
        check_required_settings(provider, config, ("params",))
        context = AuthContext(provider, integration, config, public_url=self._current.generation.public_url)
        check_settings(context, ("params",))
        return _PreparedAuthorization(provider, mode, context, scopes, config, given_names)

    async def _scopes_for_reconnect(
        self, session: ConnectSession, provider: Provider, integration: Integration
    ) -> tuple[str, ...] | None:
        ref = ConnectionRef(session.environment, integration.integration_id, session.connection_id or "")
        return scopes_to_request(self._store, await self._store.connections.get(ref), provider, integration)

    async def _start_consent(
        self, mode: GrantingMode, context: AuthContext, authorization: AuthorizationRequestInput
    ) -> ConsentRedirect:
        name = context.provider.display_name
        try:
            return await self._dialogues.run(mode.start_consent(context, authorization))
        except TokenRefused as fault:
            raise InvalidRequest(
                "token_request_failed",
                f"{name} refused to start the authorization: {safe_text(str(fault))}. Check the integration's client "
                "ID, client secret and the callback URL that is registered at the provider.",
            ) from fault
        except TokenUnavailable as fault:
            raise UpstreamFailed(
                "upstream_unreachable", f"{name} returned no usable response: {safe_text(str(fault))}. Try again."
            ) from fault

    # ── the end: the browser returns from the provider, and the grant becomes a connection ────────────────────────────

    # The outcome is reported to everyone who waits for it.
    #
    # If the grant covers several sites and the integration needs one, the end user chooses first. Until then, the grant
    # is stored encrypted in a flow of its own. Only the same browser can use that flow, only once and within ten minutes.

    async def finish(
        self, query: Mapping[str, str], cookies: Mapping[str, str], request_id: str = ""
    ) -> ConnectedResult | SiteChoice:
        """Finish the authorization to which a callback belongs. Return the new connection, or the sites from which the
        end user must choose. Raises CallbackFailed with a text for the end user. If another browser started the flow,
        the flow is not used up, so that the other browser can still finish.
        """
        # In its own task, because the state is used up before the exchange: a browser that disconnects must not end the
        # authorization in between.
        return await self._tasks.run(self._finish(query, cookies, CallbackRequest(request_id, query)))

    async def _finish(
        self, query: Mapping[str, str], cookies: Mapping[str, str], callback: CallbackRequest
    ) -> ConnectedResult | SiteChoice:
        returned_flow = await self._consume_flow(query, cookies, callback)
        return await self._report_result(
            returned_flow.flow, returned_flow.pending, self._exchange(returned_flow, query), callback
        )

    async def _consume_flow(
        self, query: Mapping[str, str], cookies: Mapping[str, str], callback: CallbackRequest
    ) -> ReturnedFlow:
        repeated_name = next((name for name in NOT_REPEATABLE if _count_parameter(query, name) > 1), None)
        if repeated_name is not None:
            raise CallbackFailed("invalid_state", f"The provider sent '{repeated_name}' more than once. Start again.")
        state = state_in(query)
        if not state:
            raise CallbackFailed("invalid_state", "The provider sent no state back. Start again from the application.")
        flow = await self._store.flows.get(digest(state), now=clock.now())
        pending = self._pending_authorization(flow)
        if flow is None or pending is None:
            raise CallbackFailed(
                "invalid_state",
                "This authorization is unknown, was used already, or is older than ten minutes. Start again.",
            )
        try:
            self._check_browser(flow, state, cookies)
            if pending.choice is not None:
                raise failed_callback(
                    flow, InvalidRequest("invalid_state", "Go back to the page that lists the sites, and choose one.")
                )
            _, mode, context = self._load_context(flow, pending)
            if not mode.has_provider_response(context, query):
                await self._store.flows.consume(flow.state_digest, now=clock.now())
                failure = failed_callback(flow, InvalidRequest("invalid_state", NO_CODE_OR_ERROR), "callback_err")
                failure.is_state_used = True
                raise failure
            if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
                raise failed_callback(
                    flow, InvalidRequest("invalid_state", "This authorization was used already. Start again.")
                )
        except (CallbackFailed, NotFound) as fault:
            await self._outcome_reporter.failure(flow, pending, fault, callback)
            raise
        return ReturnedFlow(flow, mode, context, pending)

    async def _exchange(self, returned_flow: ReturnedFlow, query: Mapping[str, str]) -> ConnectedResult | SiteChoice:
        """Return the result of the callback. Raises the same errors as `Grants.exchange`."""
        if returned_flow.pending.reconnects and query.get("error") == "invalid_scope":
            # The provider does not grant this app the scopes that its API requires. Forget these scopes, so that the
            # next reconnect link does not request them again.
            flow = returned_flow.flow
            ref = ConnectionRef(flow.environment, flow.integration_id, flow.connection_id)
            await self._store.rejections.forget_scopes(ref, now=clock.now())
        return await self._grants.exchange(returned_flow, query)

    async def choose(
        self, token: str, site_id: str, cookies: Mapping[str, str], request_id: str = ""
    ) -> ConnectedResult | SiteChoice:
        """Return the connection for the chosen site. Raises CallbackFailed. If the site is unknown, the flow is not
        used up, so that the end user can choose again."""
        return await self._tasks.run(self._choose(token, site_id, cookies, CallbackRequest(request_id)))

    async def _choose(
        self, token: str, site_id: str, cookies: Mapping[str, str], callback: CallbackRequest
    ) -> ConnectedResult | SiteChoice:
        flow = await self._store.flows.get(digest(token), now=clock.now()) if token else None
        pending = self._pending_authorization(flow)
        if flow is None or pending is None:
            raise CallbackFailed(
                "invalid_state", "This choice was made already, or is older than ten minutes. Start again."
            )
        self._check_browser(flow, token, cookies)
        choice = pending.choice
        sites = choice.sites if choice is not None else ()
        site = next((offered_site for offered_site in sites if offered_site.id == site_id), None)
        if choice is None or site is None:
            raise failed_callback(flow, InvalidRequest("invalid_state", "Choose one of the sites that are shown."))
        try:
            _, mode, context = self._load_context(flow, pending)
        except (CallbackFailed, NotFound) as fault:
            await self._outcome_reporter.failure(flow, pending, fault, callback)
            raise
        if await self._store.flows.consume(flow.state_digest, now=clock.now()) is None:
            raise failed_callback(flow, InvalidRequest("invalid_state", "This choice was made already. Start again."))
        granted = Granted(choice.held, choice.provider_config)
        config = {name: text for name, text in pending.config.items() if name not in site.settings}
        pending_with_site = replace(pending, config={**config, **site.settings}, given=(*pending.given, *site.settings))
        returned_flow = ReturnedFlow(flow, mode, context, pending_with_site)
        return await self._report_result(flow, pending, self._grants.connect(returned_flow, granted), callback)

    def _load_context(self, flow: Flow, pending: PendingAuthorization) -> tuple[Provider, GrantingMode, AuthContext]:
        integration = self._current.generation.integrations.get(flow.environment, flow.integration_id)
        provider = self._creator.provider_of(integration)
        if (provider.name, provider.auth_mode) != (pending.provider, pending.mode):
            changed_message = f"Integration '{flow.integration_id}' was changed while you authorized. Start again."
            raise failed_callback(flow, InvalidRequest("invalid_state", changed_message))
        mode = granting_mode(provider, flow.integration_id)
        return (
            provider,
            mode,
            AuthContext(provider, integration, pending.config, public_url=self._current.generation.public_url),
        )

    async def _report_result(
        self,
        flow: Flow,
        pending: PendingAuthorization,
        work: Coroutine[Any, Any, ConnectedResult | SiteChoice],
        callback: CallbackRequest,
    ) -> ConnectedResult | SiteChoice:
        try:
            result = await self._outcome_reporter.report_result(flow, pending, work, callback)
        except (InvalidRequest, Forbidden, UpstreamFailed) as fault:
            raise failed_callback(flow, fault) from fault
        if isinstance(result, ConnectedResult):
            self._outcomes.attempts.succeed(flow.session_digest)
        return result

    async def close(self, within_s: float = 15) -> None:
        """Wait until authorizations in progress have finished, at most `within_s` seconds."""
        await self._tasks.close(within_s)

    # ── the stored flow, and the cookie of its browser ────────────────────────────────────────────────────────────────

    async def started_authorization(self, flow_digest: str, cookies: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the integration's ID and the provider's URL of the authorization that this browser started and has not
        finished. Return None if there is no such authorization."""
        flow = await self._store.flows.get(flow_digest, now=clock.now())
        if flow is None:
            return None
        name = self.cookie_name_for(flow_digest)
        if Secret(digest(cookies.get(name, ""))) != Secret(flow.browser_digest):
            return None
        details = self._open_details(flow)
        return (flow.integration_id, details.url) if isinstance(details, PendingAuthorization) and details.url else None

    def _open_details(self, flow: Flow) -> FlowDetails:
        return flow_details(self._store.open(flow.details))

    def _pending_authorization(self, flow: Flow | None) -> PendingAuthorization | None:
        """Return the flow's pending authorization. Return None if the flow is unknown, or if the end user has not
        confirmed yet."""
        details = self._open_details(flow) if flow is not None else None
        return details if isinstance(details, PendingAuthorization) else None

    def _check_browser(self, flow: Flow, state: str, cookies: Mapping[str, str]) -> None:
        if Secret(digest(cookies.get(self.cookie_name(state), ""))) != Secret(flow.browser_digest):
            raise failed_callback(
                flow,
                InvalidRequest(
                    "invalid_state",
                    "This authorization was started in another browser, or this browser blocks cookies. Continue in "
                    "the first browser, or start again here.",
                ),
                "state_cookie_err",
            )

    def cookie_name(self, state: str) -> str:
        """Return the name of the flow's cookie. Each flow has its own cookie, so that two windows of one browser can
        authorize in parallel."""
        return self.cookie_name_for(digest(state))

    def cookie_name_for(self, state_digest: str) -> str:
        """Return the name of the cookie of the flow with this digest of its `state`."""
        secure = self._current.generation.public_url.startswith("https://")
        return f"{'__Host-' if secure else ''}gw-flow-{int(state_digest[:12], 16)}"
