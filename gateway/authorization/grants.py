"""Turns a grant into a connection. A grant for several sites is stored encrypted until the end user has chosen a
site."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.mode import Granted
from gateway.auth.provider_responses import safe_text
from gateway.authorization.results import LIFETIME, ConnectedResult, ReturnedFlow, SiteChoice
from gateway.authorization.session_connections import SessionConnections
from gateway.connections.completing import SiteNotChosen
from gateway.connections.create import Creator
from gateway.errors import InvalidRequest
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.connecting import NewFlow, PendingChoice, SessionTerms, Site
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.secret import Secret, digest
from gateway.store import Store


class Grants:
    """Turns grants into connections. `cookie_name`: a function that returns the name of a flow's cookie for the flow's
    `state`."""

    def __init__(
        self,
        store: Store,
        creator: Creator,
        session_connections: SessionConnections,
        dialogues: AuthDialogueRunner,
        cookie_name: Callable[[str], str],
    ) -> None:
        self._store = store
        self._creator = creator
        self._session_connections = session_connections
        self._dialogues = dialogues
        self._cookie_name = cookie_name

    async def exchange(self, returned_flow: ReturnedFlow, query: Mapping[str, str]) -> ConnectedResult | SiteChoice:
        """Exchange the callback's query for a token, and store the connection.

        Raises InvalidRequest if the provider refuses the exchange or returns no usable response. Also raises the errors
        of `connect`.
        """
        return await self.connect(returned_flow, await self._exchange_code(returned_flow, query))

    async def connect(self, returned_flow: ReturnedFlow, granted: Granted) -> ConnectedResult | SiteChoice:
        """Store the connection and return it, or return the sites from which the end user must choose. Raises the same
        errors as `Creator.prepare` and `SessionConnections.store`."""
        flow, pending = returned_flow.flow, returned_flow.pending
        config = pending.config
        given_settings = {name: config[name] for name in pending.given if name in config}
        try:
            row = await self._creator.prepare(
                returned_flow.context.integration,
                granted.held,
                connection_id=flow.connection_id,
                config={
                    **config,
                    **granted.config,
                    **given_settings,
                },  # the provider's settings replace all settings except `given_settings`
                path=("params",),
                tags=pending.tags or None,
                end_user=pending.end_user,
                webhook_url_override=pending.webhook_url_override,
                tested=False,
                reconnects=pending.reconnects,
                pinned=pending.pinned,
                by_browser=[
                    name
                    for name in _confirmable_settings(returned_flow.context)
                    if name in granted.config and name not in given_settings
                ],
            )
        except SiteNotChosen as fault:
            return await self._store_choice(returned_flow, granted, fault.sites)
        terms = SessionTerms(
            session_digest=flow.session_digest,
            limited=pending.limited,
            code_challenge=pending.code_challenge,
        )
        connection = await self._session_connections.store(row, terms, reconnects=pending.reconnects)
        return ConnectedResult(connection, flow.session_digest, pending.lang)

    async def _store_choice(self, returned_flow: ReturnedFlow, granted: Granted, sites: tuple[Site, ...]) -> SiteChoice:
        token, browser_token, flow = secrets.token_urlsafe(32), secrets.token_urlsafe(32), returned_flow.flow
        choice = PendingChoice(held=granted.held, provider_config=granted.config, sites=sites)
        pending = replace(returned_flow.pending, kept={}, began=flow.state_digest, choice=choice)
        await self._store.flows.add(
            NewFlow(
                state_digest=digest(token),
                browser_digest=digest(browser_token),
                environment=flow.environment,
                integration_id=flow.integration_id,
                connection_id=flow.connection_id,
                session_digest=flow.session_digest,
                expires_at=clock.now() + LIFETIME,
                details=pending,
            )
        )
        provider, lang = returned_flow.context.provider, pending.lang
        cookie_name = self._cookie_name(token)
        return SiteChoice(
            token, sites, provider, flow.integration_id, flow.session_digest, cookie_name, Secret(browser_token), lang
        )

    async def _exchange_code(self, returned_flow: ReturnedFlow, query: Mapping[str, str]) -> Granted:
        try:
            return await self._dialogues.run(
                returned_flow.mode.finish_consent(returned_flow.context, returned_flow.pending.kept, query)
            )
        except (TokenRefused, TokenUnavailable) as fault:
            name = returned_flow.context.provider.display_name
            cause = "the integration's client ID, client secret or callback URL is wrong"
            if isinstance(fault, TokenUnavailable) and fault.refused_with is None:
                cause = "the provider has an outage, or token_url of its catalog entry is wrong"
            raise InvalidRequest(
                "token_request_failed",
                f"{name} did not exchange the code for tokens ({safe_text(str(fault))}). Start again; if it happens "
                f"again, {cause}.",
            ) from fault


def _confirmable_settings(context: AuthContext) -> tuple[str, ...]:
    """Return the names of the callback's settings that a request to the account's endpoint can confirm. Return no names
    if the integration does not request all default scopes of the entry, because the endpoint might then refuse every
    account."""
    provider = context.provider
    if not set(provider.default_scopes or ()) <= set(context.scopes):
        return ()
    return tuple(provider.redirect_uri_metadata or ())
