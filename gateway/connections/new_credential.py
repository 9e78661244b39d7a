"""What an entry's script may ask and set while a connection does not exist yet."""

import json
from collections.abc import Mapping
from typing import Any, Final

from gateway.auth.context import Context
from gateway.auth.mode import AuthMode
from gateway.auth.words import short
from gateway.catalog.provider import Provider
from gateway.connections.ready import base_url, placement
from gateway.egress.client import Egress
from gateway.egress.errors import EgressError
from gateway.records.connection import Account
from gateway.records.integration import Integration
from gateway.records.upstream import UpstreamRequest
from gateway.scripts.context import ProviderUnreadable
from gateway.wire.url import with_query

LIMIT_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 15.0


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
        self._context = Context(provider, integration, settings)
        self._egress = egress

    def set_config(self, **settings: str) -> None:
        self.config.update(settings)

    def set_account(self, *, id: str | None, label: str | None) -> None:  # noqa: A002 (as the API names it)
        self.account = Account(id, short(label) if label else None)

    async def get_json(self, path: str) -> Any:
        base = base_url(self.provider, self.config, self._mode, self._held)
        placed = placement(self._mode, self._held, self._context.toward(base.origin))
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
