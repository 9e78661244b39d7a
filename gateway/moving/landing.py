"""One connection at a time finds its place here: is checked, and stored, or refused with a reason."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.catalog.provider import Provider
from gateway.connections.row import new_row
from gateway.connections.settings import accepted, complete
from gateway.errors import GatewayError
from gateway.moving.credentials import Hidden, credential_of
from gateway.moving.moved import Moved, Outcome, Result
from gateway.nearest import did_you_mean
from gateway.records.connection import Account, ConnectionRef, NewConnection
from gateway.records.integration import Integration
from gateway.services import Services

OnConflict = Literal["skip", "replace", "fail"]
AGAIN_FROM: Final = 500  # statuses of our own errors from which on trying again may help
SITE: Final = "jira_post_connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How connections are to be taken in. `named`: key of an integration there ▸ its key here."""

    environment: str
    named: Mapping[str, str] = field(default_factory=dict)
    on_conflict: OnConflict = "skip"
    dry_run: bool = False
    verify: bool = False


class Landing:
    """`land` never raises for what is wrong with one connection."""

    def __init__(self, services: Services, wish: Wish) -> None:
        self._services = services
        self._wish = wish
        self.planned: dict[str, Integration] = {}  # which a dry run would have made

    def ref(self, integration_id: str, connection_id: str) -> ConnectionRef:
        """Where a connection of there comes to stand here."""
        key = self._wish.named.get(integration_id, integration_id)
        return ConnectionRef(self._wish.environment, key, connection_id)

    async def settled(self, ref: ConnectionRef) -> Outcome | None:
        """What is clear from its address alone, so that its credential need not be fetched."""
        if self._wish.on_conflict == "replace" or await self._services.store.connections.get(ref) is None:
            return None
        return self._there(ref)

    async def land(self, moved: Moved) -> Outcome:
        """What became of it, or would become in a dry run."""
        ref = self.ref(moved.integration_id, moved.connection_id or str(uuid.uuid4()))
        try:
            return await self._landed(moved, ref)
        except Hidden:
            detail = "the source shows no credential; its key needs the scope environment:connections:read_credentials"
            return _outcome(ref, Result.REFUSED, "credentials_hidden", detail)
        except GatewayError as fault:
            result = Result.FAILED if fault.status >= AGAIN_FROM else Result.REFUSED
            place = f"line {moved.line}: " if moved.line else ""
            return _outcome(ref, result, fault.code, f"{place}{fault.message}")

    async def _landed(self, moved: Moved, ref: ConnectionRef) -> Outcome:
        there_is = self._services.integrations.find(ref.environment, ref.integration_id)
        integration = there_is or self.planned.get(ref.integration_id)
        if integration is None:
            known = [one.integration_id for one in self._services.integrations.of(ref.environment)]
            detail = f"there is no integration '{ref.integration_id}' here{did_you_mean(ref.integration_id, known)}"
            return _outcome(ref, Result.REFUSED, "unknown_integration", detail)
        provider = self._services.creator.provider_of(integration)
        mode = modes()[provider.auth_mode]
        held, config, notes = credential_of(moved, mode, provider, clock.now())
        if not moved.own:
            config = accepted(provider, config, ("connection_config",))
            config = {**mode.settings(held), **with_site(provider, config)}
            complete(provider, config, ("connection_config",))
        there = await self._services.store.connections.get(ref)
        if there is not None and self._wish.on_conflict != "replace":
            return self._there(ref)
        result = Result.IMPORTED if there is None else Result.REPLACED
        if self._wish.dry_run:
            return _outcome(ref, result, notes=notes)
        account = Account()
        if not moved.own or self._wish.verify:
            held, config, account = await self._proven(moved, integration, provider, mode, held, config)
        context = Context(provider, integration, config, moved.metadata)
        new = _new(moved, ref, mode, held, context, account)
        over = self._wish.on_conflict == "replace"
        stored = await self._services.store.connections.arrive(new, moved.past, over=over, now=clock.now())
        if stored is None:
            return self._there(ref)
        connection, created = stored
        self._services.live.replace(connection)
        return _outcome(ref, Result.IMPORTED if created else Result.REPLACED, notes=notes)

    async def _proven(
        self,
        moved: Moved,
        integration: Integration,
        provider: Provider,
        mode: AuthMode,
        held: dict[str, Any],
        config: dict[str, Any],
    ) -> tuple[dict[str, Any], dict[str, Any], Account]:
        """With its first token where it brought none, and the settings that the entry's script finds where it has none of
        them. The provider is asked only then, or for a verification."""
        creator, url = self._services.creator, self._services.config.server.public_url
        context = Context(provider, integration, config, moved.metadata, url)
        held, account = await creator.obtained(mode, held, context), Account()
        if provider.post_connection_script and not any(map(config.get, provider.connection_configuration or ())):
            completed = await creator.completed(mode, held, context)
            config, account = dict(completed.config), completed.account or account
        await creator.check(mode, held, replace(context, config=config), verified=self._wish.verify)
        return held, config, account

    def _there(self, ref: ConnectionRef) -> Outcome:
        if self._wish.on_conflict == "skip":
            return _outcome(ref, Result.SKIPPED, "already_there")
        detail = "a connection of that id is here already; --on-conflict skip or replace decides"
        return _outcome(ref, Result.REFUSED, "conflict", detail)


def with_site(provider: Provider, config: Mapping[str, Any]) -> dict[str, Any]:
    """The other gateway keeps an issue tracker's site by its id and address; its `subdomain` is the address's first label."""
    label = ""
    if provider.post_connection_script == SITE and not config.get("subdomain") and config.get("cloudId"):
        try:
            label = (urlsplit(str(config.get("baseUrl") or "")).hostname or "").partition(".")[0]
        except ValueError:
            label = ""
    return {**config, **({"subdomain": label} if label else {})}


def _new(
    moved: Moved, ref: ConnectionRef, mode: AuthMode, held: Mapping[str, Any], context: Context, account: Account
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
    ref: ConnectionRef, result: Result, reason: str = "", detail: str = "", notes: list[str] | tuple[()] = ()
) -> Outcome:
    return Outcome(
        integration_id=ref.integration_id,
        connection_id=ref.connection_id,
        result=result,
        reason=reason,
        detail=detail,
        notes=tuple(notes),
    )
