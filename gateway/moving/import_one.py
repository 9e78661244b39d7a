"""Import one connection: convert and check its credential, then store it or refuse it with a reason."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import AuthContext
from gateway.auth.mode import AuthMode
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider
from gateway.connections.create import new_row
from gateway.connections.settings import accepted, complete
from gateway.errors import GatewayError, InvalidRequest, Issue
from gateway.moving.moved_connection import ImportOutcome, ImportResult, Moved
from gateway.records.connection import Account, ConnectionRef, NewConnection
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.text import did_you_mean, whole_number
from gateway.timestamps import iso, moment

# ── Converting another gateway's credential to the form that the auth mode stores.

INSTALLED: Final = frozenset(name for name, mode in AUTH_MODES.items() if mode.needs_app)
USER: Final = "userCredentials"
BROUGHT: Final = ("access_token", "expires_at", "raw")


class CredentialsHidden(Exception):
    """Raised if the other gateway's response has no credential at all."""


def credential_of(
    moved: Moved, mode: AuthMode, provider: Provider, now: datetime
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the credential to store, the connection's settings, and a note for each change.

    Raises CredentialsHidden, and InvalidRequest with every fault.
    """
    config = dict(moved.config)
    if moved.own:
        _check_type(moved, mode)
        return dict(moved.credentials), config, []
    given = {name: value for name, value in moved.credentials.items() if value is not None}
    if not given and moved.shown and mode.name != "NONE":
        raise CredentialsHidden
    _check_type(moved, mode)
    given.setdefault("type", mode.types()[0])
    notes: list[str] = []
    if mode.name in INSTALLED:
        for name in ("installation_id", "app_id"):
            if name not in given and config.get(name):
                given[name] = str(config[name])
    _date(given, now, notes)
    held = _accepted(given, mode, provider, now, notes) if moved.shown else mode.accept(given, provider, now)
    if mode.name in INSTALLED:
        held |= {name: given[name] for name in BROUGHT if given.get(name)}
        user = config.pop(USER, None)
        if mode.name == "CUSTOM" and isinstance(user, Mapping):
            held["user"] = dict(user)
    elif isinstance(given.get("raw"), Mapping) and "raw" in held:
        held["raw"] = dict(given["raw"])  # keep the provider's token response, which catalog entries may read
    return held, config, notes


def _check_type(moved: Moved, mode: AuthMode) -> None:
    kind = moved.credentials.get("type")
    if kind is not None and kind not in (mode.name, *mode.types()):
        message = f"The integration here takes credentials of type '{mode.name}', not {str(kind)[:40]!r}."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("credentials", "type"))])


def _date(given: dict[str, Any], now: datetime, notes: list[str]) -> None:
    """Normalize ``expires_at``. An unreadable value becomes now: without an expiry, the token would never be refreshed
    before it expires."""
    when = given.get("expires_at")
    if isinstance(when, str) and moment(when) is None:
        if (seconds := whole_number(when.strip())) is not None:
            given["expires_at"] = seconds
            return
        if not when.strip():
            del given["expires_at"]
            return
        given["expires_at"] = iso(now)
        notes.append("expires_at could not be read; the token counts as expired, so the first call refreshes it")


def _accepted(
    given: Mapping[str, Any], mode: AuthMode, provider: Provider, now: datetime, notes: list[str]
) -> dict[str, Any]:
    """Return the credential as the mode accepts it, without members that the mode does not know; other gateways store
    more members."""
    try:
        return mode.accept(given, provider, now)
    except InvalidRequest as fault:
        unknown = {str(one.path[1]) for one in fault.errors if one.code == "unrecognized_keys" and len(one.path) == 2}
        if not unknown or not unknown <= set(given):
            raise
        known = {name: value for name, value in given.items() if name not in unknown}
        held = mode.accept(known, provider, now)
        notes.append(f"left out, because nothing here uses them: {', '.join(sorted(unknown))}")
        return held


OnConflict = Literal["skip", "replace", "fail"]
AGAIN_FROM: Final = 500  # from this status of our own errors on, a retry may help
SITE: Final = "jira_post_connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import. `integration_keys`: the integration's key in the source ▸ its key in this gateway, if they
    differ."""

    environment: str
    integration_keys: Mapping[str, str] = field(default_factory=dict)
    on_conflict: OnConflict = "skip"
    dry_run: bool = False
    verify: bool = False


class ConnectionImporter:
    """Imports connections one by one. `import_one` returns an outcome for a faulty connection and does not raise."""

    def __init__(self, runtime: Runtime, wish: ImportOptions) -> None:
        self._runtime = runtime
        self._wish = wish
        self.planned: dict[str, Integration] = {}  # integrations that a dry run would create

    def ref(self, integration_id: str, connection_id: str) -> ConnectionRef:
        """Return the reference that a connection of the source gets in this gateway."""
        key = self._wish.integration_keys.get(integration_id, integration_id)
        return ConnectionRef(self._wish.environment, key, connection_id)

    async def settled(self, ref: ConnectionRef) -> ImportOutcome | None:
        """Return the outcome if the connection exists and is not replaced, so its credential need not be fetched; else
        None."""
        if self._wish.on_conflict == "replace" or await self._runtime.store.connections.get(ref) is None:
            return None
        return self._conflict(ref)

    async def import_one(self, moved: Moved) -> ImportOutcome:
        """Import `moved` and return the outcome; in a dry run, return the outcome that it would have."""
        ref = self.ref(moved.integration_id, moved.connection_id or str(uuid.uuid4()))
        try:
            return await self._checked_and_stored(moved, ref)
        except CredentialsHidden:
            detail = (
                "the source returned no credential; the key needs the scope environment:connections:read_credentials"
            )
            return _outcome(ref, ImportResult.REFUSED, "credentials_hidden", detail)
        except GatewayError as fault:
            result = ImportResult.FAILED if fault.status >= AGAIN_FROM else ImportResult.REFUSED
            place = f"line {moved.line}: " if moved.line else ""
            return _outcome(ref, result, fault.code, f"{place}{fault.message}")

    async def _checked_and_stored(self, moved: Moved, ref: ConnectionRef) -> ImportOutcome:
        there_is = self._runtime.generation.integrations.find(ref.environment, ref.integration_id)
        integration = there_is or self.planned.get(ref.integration_id)
        if integration is None:
            known = [one.integration_id for one in self._runtime.generation.integrations.of(ref.environment)]
            detail = f"there is no integration '{ref.integration_id}' here{did_you_mean(ref.integration_id, known)}"
            return _outcome(ref, ImportResult.REFUSED, "unknown_integration", detail)
        provider = self._runtime.creator.provider_of(integration)
        mode = modes()[provider.auth_mode]
        held, config, notes = credential_of(moved, mode, provider, clock.now())
        if not moved.own:
            config = accepted(provider, config, ("connection_config",))
            config = {**mode.settings(held), **with_site(provider, config)}
            complete(provider, config, ("connection_config",))
        there = await self._runtime.store.connections.get(ref)
        if there is not None and self._wish.on_conflict != "replace":
            return self._conflict(ref)
        result = ImportResult.IMPORTED if there is None else ImportResult.REPLACED
        if self._wish.dry_run:
            return _outcome(ref, result, notes=notes)
        account = Account()
        if not moved.own or self._wish.verify:
            held, config, account = await self._with_token_and_settings(
                moved, integration, provider, mode, held, config
            )
        context = AuthContext(provider, integration, config, moved.metadata)
        new = _new(moved, ref, mode, held, context, account)
        over = self._wish.on_conflict == "replace"
        stored = await self._runtime.store.connections.put_moved(new, moved.past, over=over, now=clock.now())
        if stored is None:
            return self._conflict(ref)
        connection, created = stored
        self._runtime.live.replace(connection)
        return _outcome(ref, ImportResult.IMPORTED if created else ImportResult.REPLACED, notes=notes)

    async def _with_token_and_settings(
        self,
        moved: Moved,
        integration: Integration,
        provider: Provider,
        mode: AuthMode,
        held: dict[str, Any],
        config: dict[str, Any],
    ) -> tuple[dict[str, Any], dict[str, Any], Account]:
        """Return credential, settings and account, with a first token if the connection has none, and the settings that the
        entry's script finds if it has none of them. Calls the provider only for these, or for a verification."""
        creator, url = self._runtime.creator, self._runtime.generation.public_url
        context = AuthContext(provider, integration, config, moved.metadata, url)
        held, account = await creator.obtained(mode, held, context), Account()
        asked = tuple(provider.account.settings) if provider.account is not None else ()
        lacks = not any(map(config.get, (*(provider.connection_configuration or ()), *asked)))
        if (provider.post_connection_script or asked) and lacks:
            completed = await creator.completed(mode, held, context)
            config, account = dict(completed.config), completed.account or account
        await creator.check(mode, held, replace(context, config=config), verified=self._wish.verify)
        return held, config, account

    def _conflict(self, ref: ConnectionRef) -> ImportOutcome:
        if self._wish.on_conflict == "skip":
            return _outcome(ref, ImportResult.SKIPPED, "already_there")
        detail = "a connection with this id exists here; choose --on-conflict skip or --on-conflict replace"
        return _outcome(ref, ImportResult.REFUSED, "conflict", detail)


def with_site(provider: Provider, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with the `subdomain` of a Jira site, the first label of its host name.

    Nango stores only the site's id and URL.
    """
    label = ""
    if provider.post_connection_script == SITE and not config.get("subdomain") and config.get("cloudId"):
        try:
            label = (urlsplit(str(config.get("baseUrl") or "")).hostname or "").partition(".")[0]
        except ValueError:
            label = ""
    return {**config, **({"subdomain": label} if label else {})}


def _new(
    moved: Moved, ref: ConnectionRef, mode: AuthMode, held: Mapping[str, Any], context: AuthContext, account: Account
) -> NewConnection:
    now = clock.now()
    granted_at, refreshed_at = moved.past.granted_at or now, moved.past.last_refreshed_at or now
    return replace(
        new_row(ref, mode, held, context, granted_at=granted_at, refreshed_at=refreshed_at, account=account),
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
