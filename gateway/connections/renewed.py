"""What a connection that is renewed keeps of itself."""

from collections.abc import Mapping
from typing import Any

from gateway.catalog.provider import Provider
from gateway.connections.create import check_unchanged, gone
from gateway.records.connecting import ConnectSession
from gateway.records.connection import ConnectionRef
from gateway.store import Store

SITE = ("subdomain", "cloudId")


async def as_before(
    store: Store, session: ConnectSession, provider: Provider, integration_id: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of the connection that is renewed, below those that were given now: it stays on its site.

    Raises InvalidRequest where it is gone, or where the session pins its settings and another is given.
    """
    ref = ConnectionRef(session.environment, integration_id, session.connection_id or "")
    row = await store.connections.get(ref)
    if row is None:
        raise gone(ref)
    # A session that may change no setting is not to get round that by settings that were damaged.
    opened = store.open if session.pinned else store.open_or_nothing
    before = {**row.config, **opened(row.secret_config)}
    if session.pinned:
        check_unchanged(before, config, ("params",))
    if any(config.get(name) not in (None, before.get(name)) for name in SITE):
        own = {name for name, setting in provider.connection_config.items() if setting.automated}
        before = {name: text for name, text in before.items() if name not in {*own, *SITE}}
    return {**before, **config}
