"""Creates a stored connection from a credential; in a reconnect, keeps settings of the existing connection."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

import structlog

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import AuthContext, check_settings
from gateway.auth.mode import AuthMode
from gateway.auth.provider_responses import safe_text
from gateway.catalog.provider import Provider
from gateway.catalog.template_places import URL_FIELDS
from gateway.connections.cache import ConnectionCache
from gateway.connections.completing import NewCredential, complete_credential
from gateway.connections.opened import base_url, placement
from gateway.connections.settings import accepted_settings, check_required_settings, split_secret_settings
from gateway.connections.verify import Verifier, account_of, check_same_account
from gateway.errors import InvalidRequest, Issue, UpstreamFailed
from gateway.generation import CurrentGeneration
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable
from gateway.records.connecting import ConnectSession, SessionTerms
from gateway.records.connection import Account, Connection, ConnectionRef, EndUser, NewConnection, log_fields
from gateway.records.integration import Integration
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.refresh.backoff import no_catalog_entry_error, token_end_failure
from gateway.refresh.schedule import ends_with_token, lifespan, refresh_token_advice
from gateway.store import Store

# ── Builds the row to store from a credential and its settings.


def new_row(
    ref: ConnectionRef,
    mode: AuthMode,
    credential: Mapping[str, Any],
    context: AuthContext,
    *,
    granted_at: datetime,
    refreshed_at: datetime,
    account: Account,
) -> NewConnection:
    """Return the row to store, without the application's data (tags, end user). The end of the grant is computed from
    `credential`, `granted_at` and `refreshed_at`."""
    plain_settings, secret_settings = split_secret_settings(context.provider, context.config)
    life = lifespan(context.provider, credential, key="/".join(ref), granted_at=granted_at, refreshed_at=refreshed_at)
    expires_at, now, managed_row = mode.expires_at(credential), clock.now(), context.integration.managed_row
    token_expired = not life.settled and expires_at is not None and expires_at <= now
    return NewConnection(
        ref=ref,
        provider=context.provider.name,
        credential=credential,
        expires_at=expires_at,
        integration_uid=managed_row.uid if managed_row is not None else None,
        config=plain_settings,
        secret_config=secret_settings or None,
        metadata=context.metadata,
        life=life,
        account=account,
        ended=token_end_failure(now) if token_expired else None,
        warning=_warning(context, credential),
    )


def _warning(context: AuthContext, credential: Mapping[str, Any]) -> str | None:
    if not ends_with_token(context.provider, credential):
        return None
    name, advice = context.provider.display_name, refresh_token_advice(context.provider, context.integration)
    return f"{name} gave no refresh token, so the connection ends with its access token. {advice}"


log = structlog.get_logger(__name__)


class ConnectionInput(TypedDict, total=False):
    """Optional arguments of `Creator.prepare`, in addition to the integration and its credential."""

    connection_id: str | None
    config: Mapping[str, Any] | None
    path: Sequence[str]
    metadata: Mapping[str, Any] | None
    tags: Mapping[str, str] | None
    end_user: EndUser | None
    webhook_url_override: str | None
    tested: bool
    reconnects: bool
    pinned: bool
    by_browser: Collection[str]


class Creator:
    """Creates connections, for imports and for finished authorizations."""

    def __init__(
        self, store: Store, current: CurrentGeneration, live: ConnectionCache, dialogues: AuthDialogueRunner
    ) -> None:
        self._store = store
        self._current = current
        self._live = live
        self._dialogues = dialogues

    def provider_of(self, integration: Integration) -> Provider:
        """Return the integration's catalog entry. Raises NotFound if the catalog has no such entry. An integration that
        was made through the API can outlive its entry."""
        provider = self._current.generation.catalog.get(integration.provider)
        if provider is None:
            raise no_catalog_entry_error(integration.integration_id, integration.provider)
        return provider

    async def create(
        self, integration: Integration, credential: Mapping[str, Any], **options: Unpack[ConnectionInput]
    ) -> tuple[Connection, bool]:
        """Store a connection, and return the connection and whether it is new. The arguments and errors are those of
        `prepare`. After an error, nothing is stored, and an existing connection is unchanged.
        """
        return await self.store(await self.prepare(integration, credential, **options))

    async def store(self, row: NewConnection, terms: SessionTerms | None = None) -> tuple[Connection, bool]:
        """Store `row`, and return the connection and whether it is new. `terms`: the terms of the connect session, None
        without a session. Raises Forbidden, and stores nothing, if the session has reached its maximum number of
        connections."""
        connection, created = await self._store.connections.put(row, now=clock.now(), terms=terms)
        self.record_stored(connection, row, created=created)
        return connection, created

    def record_stored(self, connection: Connection, row: NewConnection, *, created: bool) -> None:
        """Put `connection`, which was just stored from `row`, into the cache, and log it."""
        self._live.replace(connection)
        log.info("connection_stored", **log_fields(row.ref), created=created)
        if row.warning is not None:
            log.warning("no_refresh_token", **log_fields(row.ref), detail=row.warning)

    async def prepare(
        self,
        integration: Integration,
        credential: Mapping[str, Any],
        *,
        connection_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        path: Sequence[str] = ("connection_config",),
        metadata: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        end_user: EndUser | None = None,
        webhook_url_override: str | None = None,
        tested: bool = True,
        reconnects: bool = False,
        pinned: bool = False,
        by_browser: Collection[str] = (),
    ) -> NewConnection:
        """Return the connection to store, with complete settings and its account, after all checks.

        `tested`: whether to send the entry's verification request. A new grant does not need this test; a reconnect is
        always tested. `reconnects`: the connection must exist and, if both accounts are known, belong to the same
        account. `pinned`: an existing connection must keep its URLs. `by_browser`: names of settings that the end
        user's browser sent. If the URL of the account contains such a setting, the provider must not refuse this URL.

        Raises InvalidRequest if the settings, site, account or credential are wrong; SiteNotChosen if one of several
        sites must be chosen; UpstreamFailed if the provider could not be reached.
        """
        provider = self.provider_of(integration)
        mode = modes()[provider.auth_mode]
        ref = ConnectionRef(integration.environment, integration.integration_id, connection_id or str(uuid.uuid4()))
        needs_existing = reconnects or pinned or tested or not config
        existing = await self._store.connections.get(ref) if needs_existing else None
        if reconnects and existing is None:
            raise missing_connection_error(ref)
        settings = accepted_settings(provider, config, path) if config else self._settings_of(existing)
        settings = {**mode.settings(credential), **settings}
        check_required_settings(provider, settings, path)
        context = AuthContext(provider, integration, settings, metadata, self._current.generation.public_url)
        check_settings(context, path)
        credential = await self.obtain_credential(mode, credential, context)
        completed_credential = await self.complete_credential(mode, credential, context)
        context = replace(context, config=dict(completed_credential.config))
        # An untested grant must not replace one that possibly works.
        is_verified, is_replacement = tested or reconnects, existing is not None
        await self.check(mode, credential, context, verified=is_verified, refuse_untested_grant=is_replacement)
        account = completed_credential.account or await account_of(completed_credential, credential, by_browser)
        if pinned and existing is not None:
            existing_context = replace(context, config=self._settings_of(existing))
            if _urls(existing_context, mode, credential) != _urls(context, mode, credential):
                raise changed_url_error(path)
        if reconnects and existing is not None:
            check_same_account(provider, existing.account, account)
        now = clock.now()
        return replace(
            new_row(ref, mode, credential, context, granted_at=now, refreshed_at=now, account=account),
            tags=tags,
            end_user=end_user,
            webhook_url_override=webhook_url_override,
        )

    async def obtain_credential(
        self, mode: AuthMode, credential: Mapping[str, Any], context: AuthContext
    ) -> dict[str, Any]:
        """Return the credential to store. If the mode exchanges the given credential for a token, request the first token."""
        name = context.provider.display_name
        try:
            return await self._dialogues.run(mode.complete(credential, context))
        except TokenRefused as fault:
            raise InvalidRequest(
                "connection_test_failed", f"{name} rejected this credential: {safe_text(str(fault))}."
            ) from fault
        except TokenUnavailable as fault:
            raise UpstreamFailed(
                "upstream_unreachable", f"{name} gave no token: {safe_text(str(fault))}. Nothing was stored; try again."
            ) from fault

    async def complete_credential(
        self, mode: AuthMode, credential: Mapping[str, Any], context: AuthContext
    ) -> NewCredential:
        """Return the credential with the settings that the entry's script finds. Raises the same errors as `create`."""
        egress = self._current.generation.egress
        return await complete_credential(
            egress, context.provider, context.integration, mode, credential, context.config
        )

    async def check(
        self,
        mode: AuthMode,
        credential: Mapping[str, Any],
        context: AuthContext,
        *,
        verified: bool,
        refuse_untested_grant: bool = True,
    ) -> None:
        """Check that requests can carry the credential and, if `verified`, that the provider accepts the credential.
        This check finds errors now that otherwise only the first proxied call would show.

        `refuse_untested_grant`: as in `Verifier.verify`. Raises the same errors as `create`.
        """
        base = base_url(context.provider, context.config, mode, credential)
        placement(mode, credential, context.for_destinations(base.origin))
        if verified:
            verifier = Verifier(self._current.generation.egress)
            await verifier.verify(mode, credential, context, refuse_untested_grant=refuse_untested_grant)

    def _settings_of(self, row: Connection | None) -> dict[str, Any]:
        """Return an existing connection's settings, or no settings without a connection. With these settings, a new
        credential without settings stays on the same site."""
        return {} if row is None else self._store.settings_of(row, skip_damaged=True)


def _urls(context: AuthContext, mode: AuthMode, credential: Mapping[str, Any]) -> list[str | None]:
    """Return every URL of the entry, filled with these settings. A URL with a missing setting is returned as None."""
    urls: list[str | None] = []
    for key in (*URL_FIELDS, "proxy.base_url"):
        template = context.template(key)
        try:
            urls.append(context.fill_url(template, mode.values(credential)) if template else None)
        except InvalidRequest:
            urls.append(None)
    return urls


def check_unchanged(old_settings: Mapping[str, Any], new_settings: Mapping[str, Any], path: Sequence[str]) -> None:
    """Raise InvalidRequest if `new_settings` changes any setting of `old_settings`."""
    for name, value in new_settings.items():
        if old_settings.get(name) != value:
            raise changed_url_error((*path, name))


def changed_url_error(path: Sequence[str]) -> InvalidRequest:
    """Return the error for settings that would change a connection's URLs although the key or link may not change
    them."""
    setting = f"setting '{path[-1]}'" if len(path) > 1 else "settings"
    message = (
        f"This request may not change the {setting} or the site of this connection. Leave it unchanged, "
        "or use a connect session created with a key that has environment:connections:configure."
    )
    return InvalidRequest("connection_validation_failed", message, errors=[Issue("custom", message, tuple(path))])


def missing_connection_error(ref: ConnectionRef) -> InvalidRequest:
    return InvalidRequest(
        "invalid_connection",
        f"The connection '{ref.connection_id}' that this session is to reconnect is gone. Connect again.",
    )


# ── The settings that a reconnected connection keeps.

SITE = ("subdomain", "cloudId")


async def settings_for_reconnect(
    store: Store, session: ConnectSession, provider: Provider, integration_id: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings for a reconnect: the settings of the existing connection, overridden by `config`. If `config`
    names another site, settings of the old site are dropped.

    Raises InvalidRequest if the connection is gone, or if the session pins its settings and `config` changes one of
    them.
    """
    ref = ConnectionRef(session.environment, integration_id, session.connection_id or "")
    row = await store.connections.get(ref)
    if row is None:
        raise missing_connection_error(ref)
    # For a session that may not change settings, damaged settings are an error, so that the check below is complete.
    old_settings = store.settings_of(row, skip_damaged=not session.pinned)
    if session.pinned:
        check_unchanged(old_settings, config, ("params",))
    if any(config.get(name) not in (None, old_settings.get(name)) for name in SITE):
        automated_names = {name for name, setting in provider.connection_config.items() if setting.automated}
        old_settings = {name: text for name, text in old_settings.items() if name not in {*automated_names, *SITE}}
    return {**old_settings, **config}
