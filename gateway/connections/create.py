"""From a credential to a stored connection: the script completes it, or refuses it, before anything is written."""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from gateway import clock
from gateway.auth import modes
from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.auth.words import short
from gateway.catalog.load import Catalog
from gateway.catalog.provider import Provider
from gateway.connections.account import account_of, check_same
from gateway.connections.dialogues import Dialogues
from gateway.connections.lifespan import lifespan
from gateway.connections.live import Live
from gateway.connections.ready import base_url, placement
from gateway.connections.settings import accepted, complete, parted
from gateway.connections.verify import Verifier
from gateway.egress.client import Egress
from gateway.egress.errors import EgressError
from gateway.errors import GatewayError, InvalidRequest, NotFound, UpstreamFailed
from gateway.oauth.token import TokenRefused, TokenUnavailable
from gateway.records.connection import Account, Connection, ConnectionRef, EndUser, NewConnection
from gateway.records.integration import Integration
from gateway.records.upstream import UpstreamRequest
from gateway.scripts import POST_CONNECTION
from gateway.scripts.context import ProviderUnreadable, Refused, Site, SiteOpen
from gateway.store import Store
from gateway.wire.url import with_query

LIMIT_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 15.0

log = structlog.get_logger(__name__)


class SiteWanted(InvalidRequest):
    """Several sites fit, and the integration leaves the choice to the end user: whoever has one asks, others are refused."""

    sites: tuple[Site, ...] = ()


class Creator:
    """Used by imports and by finished authorizations alike."""

    def __init__(
        self, store: Store, catalog: Catalog, live: Live, egress: Egress, dialogues: Dialogues, public_url: str
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._live = live
        self._egress = egress
        self._dialogues = dialogues
        self._public_url = public_url
        self.verifier = Verifier(egress)

    def provider_of(self, integration: Integration) -> Provider:
        """Raises NotFound: an integration made through the API outlives an entry that its operator takes away."""
        provider = self._catalog.get(integration.provider)
        if provider is None:
            raise NotFound(
                "unknown_provider_template",
                f"Integration '{integration.integration_id}' uses provider '{integration.provider}', which the catalog does "
                "not have any more. Put its entry back, or delete the integration.",
                payload={"provider_config_key": integration.integration_id},
            )
        return provider

    async def create(
        self,
        integration: Integration,
        held: Mapping[str, Any],
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
    ) -> tuple[Connection, bool]:
        """The stored connection, and whether it is new. `tested`: by the entry's verification, which a grant that has just
        been made does not need. `reconnects`: it must be there already, and be the same account's as far as both are known.

        Raises InvalidRequest where its settings, its site, its account or its credential are wrong, SiteWanted where one of
        several sites is to be chosen, UpstreamFailed where the provider could not be asked; then nothing is stored and an
        older connection stays as it was.
        """
        provider = self.provider_of(integration)
        mode = modes()[provider.auth_mode]
        ref = ConnectionRef(integration.environment, integration.integration_id, connection_id or str(uuid.uuid4()))
        before = await self._store.connections.get(ref) if reconnects or not config else None
        if reconnects and before is None:
            raise gone(ref)
        settings = accepted(provider, config, path) if config else self._settings_of(before)
        settings = {**mode.settings(held), **settings}
        complete(provider, settings, path)
        held = await self.obtained(mode, held, Context(provider, integration, settings, metadata, self._public_url))
        completed = await self.completed(provider, integration, mode, held, settings)
        settings = dict(completed.config)
        context = Context(provider, integration, settings, metadata, self._public_url)
        base_url(provider, settings, mode, held)  # refused now rather than at the first proxied call
        placement(mode, held, context)
        if tested or reconnects:
            await self.verifier.verify(mode, held, context)
        account = completed.account or await account_of(completed, held)
        if reconnects and before is not None:
            check_same(provider, before.account, account)
        plain, secret = parted(provider, settings)
        now = clock.now()
        new = NewConnection(
            ref=ref,
            provider=provider.name,
            credential=held,
            expires_at=mode.expires_at(held),
            config=plain,
            secret_config=secret or None,
            metadata=metadata,
            tags=tags,
            end_user=end_user,
            webhook_url_override=webhook_url_override,
            life=lifespan(provider, held, key="/".join(ref), granted_at=now, refreshed_at=now),
            account=account,
        )
        connection, created = await self._store.connections.put(new, now=now)
        self._live.replace(connection)
        log.info(
            "connection_stored",
            environment=ref.environment,
            integration=ref.integration_id,
            connection_id=ref.connection_id,
            created=created,
        )
        return connection, created

    async def obtained(self, mode: AuthMode, held: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """The credential with its first token, where the mode exchanges what was given for one."""
        name = context.provider.display_name
        try:
            return await self._dialogues.hold(mode.complete(held, context))
        except TokenRefused as fault:
            raise InvalidRequest(
                "connection_test_failed", f"{name} does not take this credential: {short(str(fault))}."
            ) from fault
        except TokenUnavailable as fault:
            raise UpstreamFailed(
                "upstream_unreachable", f"{name} gave no token: {short(str(fault))}. Nothing was stored; try again."
            ) from fault

    def _settings_of(self, row: Connection | None) -> dict[str, Any]:
        """What an existing connection was made with, so that a new credential alone does not move it to another site."""
        if row is None:
            return {}
        return {**row.config, **self._store.open(row.secret_config)}

    async def completed(
        self,
        provider: Provider,
        integration: Integration,
        mode: AuthMode,
        held: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> "NewCredential":
        """The credential with the settings that the entry's script finds. Raises as `create` does."""
        script = POST_CONNECTION.get(provider.post_connection_script or "")
        context = NewCredential(provider, integration, mode, held, settings, self._egress)
        if script is not None:
            try:
                await script(context)
            except Refused as refusal:
                raise InvalidRequest(
                    "connection_validation_failed", refusal.message, payload=refusal.payload or None
                ) from refusal
            except SiteOpen as choice:
                raise _site_wanted(choice) from None
            except ProviderUnreadable as fault:
                raise unreadable(provider, fault) from fault
        return context


def gone(ref: ConnectionRef) -> InvalidRequest:
    return InvalidRequest(
        "invalid_connection",
        f"The connection '{ref.connection_id}' that this session is to renew is gone. Connect anew.",
    )


def _site_wanted(choice: SiteOpen) -> SiteWanted:
    names = ", ".join(urlsplit(site.url).hostname or site.name for site in choice.sites)
    wanted = SiteWanted(
        "connection_validation_failed",
        f"This credential reaches several sites, and the integration leaves the choice to the end user: {names}. Name one "
        "by its subdomain or cloudId.",
        payload={"sites": [{**site.settings, "url": site.url} for site in choice.sites]},
    )
    wanted.sites = choice.sites
    return wanted


def unreadable(provider: Provider, fault: ProviderUnreadable) -> GatewayError:
    """A credential that its own provider refuses is the caller's fault; a provider that cannot be asked is not."""
    message = (
        f"{provider.display_name} could not be asked which sites this credential reaches: {fault.message.rstrip('.')}."
    )
    if fault.refused:
        return InvalidRequest(
            "connection_test_failed",
            f"{message} It does not take this credential: check that it is valid, not expired, and granted to this app.",
        )
    return UpstreamFailed("upstream_unreachable", f"{message} Nothing was stored; try again.")


class NewCredential:
    """The ScriptContext of a connection that does not exist yet."""

    def __init__(
        self,
        provider: Provider,
        integration: Integration,
        mode: AuthMode,
        held: Mapping[str, Any],
        settings: Mapping[str, Any],
        egress: Egress,
    ) -> None:
        self.provider = provider
        self.config: dict[str, Any] = dict(settings)
        self.ask = integration.site_selection == "ask"
        self.account: Account | None = None
        self._mode, self._held = mode, held
        self._placement = placement(mode, held, Context(provider, integration, settings))
        self._egress = egress

    def set_config(self, **settings: str) -> None:
        self.config.update(settings)

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        self.account = Account(id, short(label) if label else None)

    async def get_json(self, path: str) -> Any:
        base = base_url(self.provider, self.config, self._mode, self._held)
        placed = self._placement
        request = UpstreamRequest("GET", base.scheme, base.host, base.port, base.path + path)
        request.target = with_query(request.target, placed.query_slots, placed.query_defaults)
        request.headers.update({"accept": "application/json", **dict(placed.defaults), **dict(placed.slots)})
        if placed.signer is not None:
            placed.signer.sign(request, b"")
        try:
            answer = await self._egress.fetch(
                "GET",
                request.url,
                headers=request.headers,
                limit_bytes=LIMIT_BYTES,
                timeout_s=TIMEOUT_S,
                identity=self._mode.identity(self._held),
            )
        except EgressError as fault:
            raise ProviderUnreadable(fault.message) from fault
        where = path.partition("?")[0]  # without the base path, which may hold a secret setting
        if answer.status != 200:
            raise ProviderUnreadable(f"{where} answered {answer.status}", refused=answer.status in {401, 403})
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as fault:
            raise ProviderUnreadable(f"{where} did not answer with JSON") from fault
