"""Connects with credentials that an end user types in during a connect session: a key, a password, an OAuth client."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway import clock
from gateway.auth import modes
from gateway.authorization.connect_sessions import check_connection_limit, connection_settings
from gateway.authorization.outcomes import Outcomes
from gateway.authorization.session_connections import SessionConnections
from gateway.background import ShieldedTasks
from gateway.catalog.provider import Provider
from gateway.connections.create import Creator, settings_for_reconnect
from gateway.errors import Code, GatewayError, InvalidRequest, Issue, UpstreamFailed
from gateway.records.connecting import ConnectSession, Outcome, PendingConnection
from gateway.records.connection import Connection
from gateway.records.integration import Integration
from gateway.secret import digest
from gateway.store import Store

EXTERNAL_ID: Final = "external_id"


class TypedCredentialConnector:
    """Stores credentials that end users type in, through the endpoints of the Nango SDKs and on the connect page."""

    def __init__(
        self, store: Store, creator: Creator, session_connections: SessionConnections, outcomes: Outcomes
    ) -> None:
        self._store = store
        self._creator = creator
        self._session_connections = session_connections
        self._outcomes = outcomes
        self._tasks = ShieldedTasks()

    async def connect(
        self,
        session: ConnectSession,
        integration: Integration,
        typed: Mapping[str, Any],
        params: Mapping[str, str],
        request_id: str = "",
        browser: str | None = None,
    ) -> Connection | PendingConnection:
        """Store the typed credential, and return the new connection. The connection is pending if the session has a
        code challenge. `typed`: the credential's fields. `params`: the connection's settings. `browser`: the digest
        that identifies the browser in which the end user confirmed; None if the client sent no cookie.

        Raises the errors of `Creator.prepare`; the path of each issue begins with the field's name or with ``params``.
        Callers that poll the session also get the connection or the error. After too many failures of the session,
        TooManyRequests is raised, which these callers do not get. If the caller is cancelled, the work continues, so
        that a stored connection is always reported.
        """
        self._outcomes.attempts.add(session)
        return await self._tasks.run(self._connect_and_report(session, integration, typed, params, request_id, browser))

    async def close(self, within_s: float = 15) -> None:
        """Wait for connections in progress, at most `within_s` seconds."""
        await self._tasks.close(within_s)

    async def _connect_and_report(
        self,
        session: ConnectSession,
        integration: Integration,
        typed: Mapping[str, Any],
        params: Mapping[str, str],
        request_id: str,
        browser: str | None,
    ) -> Connection | PendingConnection:
        outcome = Outcome(
            environment=session.environment,
            session_digest=session.digest,
            integration_id=integration.integration_id,
            browser_digest=browser,
            at=clock.now(),
        )
        try:
            connection = await self._connect(session, integration, typed, params, browser)
        except GatewayError as fault:
            await self._outcomes.publish_failure(
                outcome, fault, request_id=request_id, connection_id=session.connection_id
            )
            raise
        self._outcomes.attempts.succeed(session.digest)
        is_pending = isinstance(connection, PendingConnection)
        connected = replace(outcome, connection_id=connection.ref.connection_id, is_pending=is_pending, at=clock.now())
        await self._outcomes.publish(connected)
        return connection

    async def _connect(
        self,
        session: ConnectSession,
        integration: Integration,
        typed: Mapping[str, Any],
        params: Mapping[str, str],
        browser: str | None,
    ) -> Connection | PendingConnection:
        check_connection_limit(session)
        provider = self._creator.provider_of(integration)
        mode = modes()[provider.auth_mode]
        if provider.auth_mode == "AWS_SIGV4":
            params = {name: text for name, text in params.items() if name.casefold() != EXTERNAL_ID}
        config, _ = connection_settings(session, provider, integration.integration_id, params)
        if session.reconnects:
            config = await settings_for_reconnect(self._store, session, provider, integration.integration_id, config)
        if provider.auth_mode == "AWS_SIGV4":
            config = {EXTERNAL_ID: external_id(session, integration), **config}
        try:
            credential = mode.accept({**typed, "type": mode.types()[0]}, provider, clock.now())
            row = await self._creator.prepare(
                integration,
                credential,
                connection_id=session.connection_id,
                config=config,
                path=("params",),
                tags=session.tags or None,
                end_user=session.end_user,
                webhook_url_override=session.webhook_url_override,
                reconnects=session.reconnects,
                pinned=session.pinned,
            )
        except GatewayError as fault:
            raise _fault_for_form(fault, provider, config) from fault
        return await self._session_connections.store(row, session.terms(browser), reconnects=session.reconnects)


def external_id(session: ConnectSession, integration: Integration) -> str:
    """Return the external ID with which the gateway assumes an AWS role. The ID is always the same for one end user,
    and the end user cannot choose it. Otherwise anyone who names another customer's role could use that role through
    the gateway (the confused deputy problem).

    If the session has no end user, the ID is derived from its tags. Without tags, for example in a reconnect link, the
    ID is derived from the connection, or from the session if there is no connection.
    """
    if session.end_user is not None:
        identity_text = session.end_user.id
    elif session.tags:
        identity_text = json.dumps(dict(session.tags), sort_keys=True)
    else:
        identity_text = json.dumps(
            ["connection", session.connection_id] if session.connection_id else ["session", session.digest]
        )
    return f"gw-{digest(json.dumps([session.environment, integration.integration_id, identity_text]))[:32]}"


def _fault_for_form(fault: GatewayError, provider: Provider, config: Mapping[str, Any]) -> GatewayError:
    """Return the error with the codes and paths that the endpoints for typed credentials use."""
    if isinstance(fault, InvalidRequest) and fault.errors:
        issues = [
            Issue(issue.code, issue.message, issue.path[1:] if issue.path[:1] == ("credentials",) else issue.path)
            for issue in fault.errors
        ]
        return InvalidRequest(fault.code, fault.message, errors=issues, payload=fault.payload)
    if provider.auth_mode == "OAUTH2_CC" and isinstance(fault, InvalidRequest | UpstreamFailed):
        code: Code = "client_credentials_fetch_error" if not fault.payload else fault.code
        return InvalidRequest(code, fault.message, payload=fault.payload)
    if fault.code == "connection_test_failed" and EXTERNAL_ID in config:
        hint = f" The role's trust policy must allow this account with the external ID '{config[EXTERNAL_ID]}'."
        return InvalidRequest(fault.code, fault.message + hint, payload={EXTERNAL_ID: config[EXTERNAL_ID]})
    return fault
