"""Imports one connection: converts and checks its credential, then stores it or refuses it with a reason."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import AuthContext, check_settings
from gateway.auth.mode import AuthMode
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider
from gateway.connections.create import new_row
from gateway.connections.settings import accepted_settings, check_required_settings
from gateway.errors import GatewayError, InvalidRequest
from gateway.moving.moved_connection import ImportOutcome, ImportResult, MovedConnection
from gateway.records.connection import Account, ConnectionRef, NewConnection
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.text import did_you_mean, whole_number
from gateway.timestamps import iso, parse_time

# ── Converting another gateway's credential to the credential that the auth mode stores.

APP_MODES: Final = frozenset(name for name, mode in AUTH_MODES.items() if mode.needs_app)
USER_CREDENTIALS: Final = "userCredentials"
SUBJECT: Final = "The integration here"
TOKEN_MEMBERS: Final = ("access_token", "expires_at", "raw")


class CredentialsHidden(Exception):
    """The response of the other gateway has no credential at all."""


def credential_of(
    moved: MovedConnection, mode: AuthMode, provider: Provider, now: datetime
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the credential to store, the connection's settings, and a note for each change.

    Raises CredentialsHidden if the source returned no credential, and InvalidRequest with every fault.
    """
    config = dict(moved.config)
    if moved.from_bundle:
        mode.check_type(moved.credentials.get("type"), SUBJECT)
        return dict(moved.credentials), config, []
    credential = {name: value for name, value in moved.credentials.items() if value is not None}
    if not credential and moved.from_api and mode.name != "NONE":
        raise CredentialsHidden
    mode.check_type(moved.credentials.get("type"), SUBJECT)
    credential.setdefault("type", mode.types()[0])
    notes: list[str] = []
    if mode.name in APP_MODES:
        for name in ("installation_id", "app_id"):
            if name not in credential and config.get(name):
                credential[name] = str(config[name])
    _normalize_expiry(credential, now, notes)
    members = (
        _accepted_by_mode(credential, mode, provider, now, notes)
        if moved.from_api
        else mode.accept(credential, provider, now)
    )
    if mode.name in APP_MODES:
        members |= {name: credential[name] for name in TOKEN_MEMBERS if credential.get(name)}
        user = config.pop(USER_CREDENTIALS, None)
        if mode.name == "CUSTOM" and isinstance(user, Mapping):
            members["user"] = dict(user)
    elif isinstance(credential.get("raw"), Mapping) and "raw" in members:
        members["raw"] = dict(credential["raw"])  # keep the provider's token response, which catalog entries can read
    return members, config, notes


def _normalize_expiry(credential: dict[str, Any], now: datetime, notes: list[str]) -> None:
    """Normalize ``expires_at`` in `credential`. Replace an unreadable value by `now`.

    The token then counts as expired, so the first call refreshes it. Without an expiry, it would not be refreshed before
    it expires.
    """
    expires_at = credential.get("expires_at")
    if isinstance(expires_at, str) and parse_time(expires_at) is None:
        if (seconds := whole_number(expires_at.strip())) is not None:
            credential["expires_at"] = seconds
            return
        if not expires_at.strip():
            del credential["expires_at"]
            return
        credential["expires_at"] = iso(now)
        notes.append("expires_at could not be read; the token counts as expired, so the first call refreshes it")


def _accepted_by_mode(
    credential: Mapping[str, Any], mode: AuthMode, provider: Provider, now: datetime, notes: list[str]
) -> dict[str, Any]:
    """Return the credential as the auth mode accepts it, without members that the mode does not know.

    Other gateways store more members in a credential.
    """
    try:
        return mode.accept(credential, provider, now)
    except InvalidRequest as fault:
        unknown_names = {
            str(error.path[1]) for error in fault.errors if error.code == "unrecognized_keys" and len(error.path) == 2
        }
        if not unknown_names or not unknown_names <= set(credential):
            raise
        known_members = {name: value for name, value in credential.items() if name not in unknown_names}
        accepted_credential = mode.accept(known_members, provider, now)
        notes.append(f"left out, because nothing here uses them: {', '.join(sorted(unknown_names))}")
        return accepted_credential


OnConflict = Literal["skip", "replace", "fail"]
RETRYABLE_FROM_STATUS: Final = 500  # a retry can help if the gateway's own error has this status or a higher one
JIRA_SCRIPT: Final = "jira_post_connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import.

    - `integration_keys`: maps the key of an integration in the source to its key in this gateway, if the keys differ
    - `on_conflict`: what happens to a connection that exists already
    - `dry_run`: whether nothing is stored
    - `verify`: whether each credential is verified at its provider
    """

    environment: str
    integration_keys: Mapping[str, str] = field(default_factory=dict)
    on_conflict: OnConflict = "skip"
    dry_run: bool = False
    verify: bool = False


class ConnectionImporter:
    """Imports single connections. For a faulty connection, `import_one` returns an outcome and raises no exception."""

    def __init__(self, runtime: Runtime, options: ImportOptions) -> None:
        self._runtime = runtime
        self._options = options
        self.planned: dict[str, Integration] = {}  # integrations that a dry run would create

    def ref(self, integration_id: str, connection_id: str) -> ConnectionRef:
        """Return the reference that a connection of the source has in this gateway."""
        key = self._options.integration_keys.get(integration_id, integration_id)
        return ConnectionRef(self._options.environment, key, connection_id)

    async def existing_outcome(self, ref: ConnectionRef) -> ImportOutcome | None:
        """Return the outcome if the connection exists and must not be replaced; None if it must be imported.

        The importer calls this method first, so that no credential of an existing connection is fetched.
        """
        if self._options.on_conflict == "replace" or await self._runtime.store.connections.get(ref) is None:
            return None
        return self._conflict(ref)

    async def import_one(self, moved: MovedConnection) -> ImportOutcome:
        """Import `moved` and return the outcome. In a dry run, store nothing and return the expected outcome."""
        ref = self.ref(moved.integration_id, moved.connection_id or str(uuid.uuid4()))
        try:
            return await self._check_and_store(moved, ref)
        except CredentialsHidden:
            detail = (
                "the source returned no credential; the key needs the scope environment:connections:read_credentials"
            )
            return _outcome(ref, ImportResult.REFUSED, "credentials_hidden", detail)
        except GatewayError as fault:
            result = ImportResult.FAILED if fault.status >= RETRYABLE_FROM_STATUS else ImportResult.REFUSED
            line_prefix = f"line {moved.line}: " if moved.line else ""
            return _outcome(ref, result, fault.code, f"{line_prefix}{fault.message}")

    async def _check_and_store(self, moved: MovedConnection, ref: ConnectionRef) -> ImportOutcome:
        existing_integration = self._runtime.generation.integrations.find(ref.environment, ref.integration_id)
        integration = existing_integration or self.planned.get(ref.integration_id)
        if integration is None:
            known_ids = [
                integration.integration_id
                for integration in self._runtime.generation.integrations.list_in(ref.environment)
            ]
            detail = f"there is no integration '{ref.integration_id}' here{did_you_mean(ref.integration_id, known_ids)}"
            return _outcome(ref, ImportResult.REFUSED, "unknown_integration", detail)
        provider = self._runtime.creator.provider_of(integration)
        mode = modes()[provider.auth_mode]
        credential, config, notes = credential_of(moved, mode, provider, clock.now())
        if not moved.from_bundle:
            config = accepted_settings(provider, config, ("connection_config",))
            config = {**mode.settings(credential), **with_site(provider, config)}
            check_required_settings(provider, config, ("connection_config",))
        check_settings(AuthContext(provider, integration, config, moved.metadata), ("connection_config",))
        existing_row = await self._runtime.store.connections.get(ref)
        if existing_row is not None and self._options.on_conflict != "replace":
            return self._conflict(ref)
        result = ImportResult.IMPORTED if existing_row is None else ImportResult.REPLACED
        if self._options.dry_run:
            return _outcome(ref, result, notes=notes)
        account = Account()
        if not moved.from_bundle or self._options.verify:
            credential, config, account = await self._with_token_and_settings(
                moved, integration, provider, mode, credential, config
            )
        context = AuthContext(provider, integration, config, moved.metadata)
        new_connection = _new_connection(moved, ref, mode, credential, context, account)
        replaces = self._options.on_conflict == "replace"
        stored_connection = await self._runtime.store.connections.put_moved(
            new_connection, moved.past, replaces=replaces, now=clock.now()
        )
        if stored_connection is None:
            return self._conflict(ref)
        connection, created = stored_connection
        self._runtime.live.replace(connection)
        return _outcome(ref, ImportResult.IMPORTED if created else ImportResult.REPLACED, notes=notes)

    async def _with_token_and_settings(
        self,
        moved: MovedConnection,
        integration: Integration,
        provider: Provider,
        mode: AuthMode,
        credential: dict[str, Any],
        config: dict[str, Any],
    ) -> tuple[dict[str, Any], dict[str, Any], Account]:
        """Return the credential, the settings and the account of the connection, after completing missing values.

        Missing values are a first token, and the settings that the entry's script or account call returns, if the
        connection has none of them. The provider is called only for these, or for a verification.
        """
        creator, url = self._runtime.creator, self._runtime.generation.public_url
        context = AuthContext(provider, integration, config, moved.metadata, url)
        credential, account = await creator.obtain_credential(mode, credential, context), Account()
        account_settings = tuple(provider.account.settings) if provider.account is not None else ()
        lacks_settings = not any(map(config.get, (*(provider.connection_configuration or ()), *account_settings)))
        if (provider.post_connection_script or account_settings) and lacks_settings:
            completed = await creator.complete_credential(mode, credential, context)
            config, account = dict(completed.config), completed.account or account
        await creator.check(mode, credential, replace(context, config=config), verified=self._options.verify)
        return credential, config, account

    def _conflict(self, ref: ConnectionRef) -> ImportOutcome:
        if self._options.on_conflict == "skip":
            return _outcome(ref, ImportResult.SKIPPED, "already_there")
        detail = "a connection with this id exists here; choose --on-conflict skip or --on-conflict replace"
        return _outcome(ref, ImportResult.REFUSED, "conflict", detail)


def with_site(provider: Provider, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with the setting `subdomain` for a Jira site, because Nango stores only the site's id and URL.

    The subdomain is the first label of the site's host name.
    """
    label = ""
    if provider.post_connection_script == JIRA_SCRIPT and not config.get("subdomain") and config.get("cloudId"):
        try:
            label = (urlsplit(str(config.get("baseUrl") or "")).hostname or "").partition(".")[0]
        except ValueError:
            label = ""
    return {**config, **({"subdomain": label} if label else {})}


def _new_connection(
    moved: MovedConnection,
    ref: ConnectionRef,
    mode: AuthMode,
    credential: Mapping[str, Any],
    context: AuthContext,
    account: Account,
) -> NewConnection:
    now = clock.now()
    granted_at, refreshed_at = moved.past.granted_at or now, moved.past.last_refreshed_at or now
    return replace(
        new_row(ref, mode, credential, context, granted_at=granted_at, refreshed_at=refreshed_at, account=account),
        tags=moved.tags,
        end_user=moved.end_user,
        webhook_url_override=moved.webhook_url_override,
    )


def _outcome(
    ref: ConnectionRef, result: ImportResult, reason: str = "", detail: str = "", notes: list[str] | tuple[()] = ()
) -> ImportOutcome:
    return ImportOutcome(
        integration_id=ref.integration_id,
        connection_id=ref.connection_id,
        result=result,
        reason=reason,
        detail=detail,
        notes=tuple(notes),
    )
