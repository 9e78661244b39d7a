"""The story of a connection as our API and the command line show it."""

from collections.abc import Mapping
from typing import Any

from gateway import clock
from gateway.api.connection_json import stamp
from gateway.connections.lifespan import ends_with_token
from gateway.connections.story import Story, story
from gateway.errors import CredentialUnreadable, Unavailable
from gateway.records.connection import Connection
from gateway.records.states import Change
from gateway.services import Services


async def told(services: Services, row: Connection) -> dict[str, Any]:
    """``history``: each change of state, oldest first. ``diagnosis``: time line, causes in order, and what helps."""
    changes = await services.store.history.of(row.id)
    provider, now = services.catalog.get(row.provider), clock.now()
    opens, readable = _opened(services, row)
    found = story(
        row,
        changes,
        provider,
        now,
        readable=readable,
        integration=services.integrations.find(*row.ref[:2]),
        failovers=await services.store.failover.times(),
        ends_with_token=provider is not None and opens is not None and ends_with_token(provider, opens),
    )
    return {"history": [_change(one) for one in changes], "diagnosis": _diagnosis(row, found)}


def _opened(services: Services, row: Connection) -> tuple[Mapping[str, Any] | None, bool]:
    """Its credential, and whether what is stored for it opens, as far as its keys are at hand."""
    try:
        held = services.store.open(row.credential)
        services.store.open(row.secret_config)
    except CredentialUnreadable:
        return None, False
    except Unavailable:  # a key is missing, which is no matter of this connection
        return None, True
    return held, True


def _change(one: Change) -> dict[str, Any]:
    return {
        "at": stamp(one.at),
        "state": one.state.value,
        "previous_state": one.before.value if one.before else None,
        "reason": one.reason,
        "detail": one.detail,
    }


def _diagnosis(row: Connection, found: Story) -> dict[str, Any]:
    return {
        "state": row.state.value,
        "since": stamp(row.state_since or row.created_at),
        "causes": [{"cause": one.name, "why": one.why} for one in found.causes],
        "action": {"do": found.action.name, "how": found.action.how},
        "timeline": [
            {"at": stamp(one.at), "what": one.what, "detail": one.detail, "ahead": one.ahead} for one in found.moments
        ],
    }
