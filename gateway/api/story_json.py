"""The story of a connection as our API and the command line show it."""

from typing import Any

from gateway import clock
from gateway.api.connection_json import stamp
from gateway.connections.story import Story, story
from gateway.errors import CredentialUnreadable, Unavailable
from gateway.records.connection import Connection
from gateway.records.states import Change
from gateway.services import Services


async def told(services: Services, row: Connection) -> dict[str, Any]:
    """``history``: each change of state, oldest first. ``diagnosis``: time line, causes in order, and what helps."""
    changes = await services.store.history.of(row.id)
    found = story(row, changes, services.catalog.get(row.provider), clock.now(), readable=_readable(services, row))
    return {"history": [_change(one) for one in changes], "diagnosis": _diagnosis(row, found)}


def _readable(services: Services, row: Connection) -> bool:
    """Whether what is stored for it opens, as far as its keys are at hand."""
    try:
        for sealed in (row.credential, row.secret_config):
            services.store.open(sealed)
    except CredentialUnreadable:
        return False
    except Unavailable:  # a key is missing, which is no matter of this connection
        return True
    return True


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
