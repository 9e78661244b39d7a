"""The scopes, and whether the scopes of a key cover a requested scope (docs/compatibility.md#scopes)."""

from collections.abc import Iterable
from typing import Final

from gateway.text import nearest

PREFIX: Final = "environment:"
EVERYTHING: Final = "environment:*"
PROXY: Final = "environment:proxy"
LIST_INTEGRATIONS: Final = "environment:integrations:list"
CONNECT: Final = "environment:connect_sessions:write"
AGENT_SESSIONS: Final = "environment:agent_sessions:write"
CONFIGURE: Final = "environment:connections:configure"
READ_CONNECTIONS: Final = "environment:connections:read"
READ_CONNECTION_CREDENTIALS: Final = "environment:connections:read_credentials"
REVOKE: Final = "environment:api_keys:delete"

_RESOURCE_ACTIONS: Final = ("list", "list_credentials", "read", "read_credentials", "create", "update", "delete")
SCOPES: Final = frozenset(
    {
        *(f"environment:integrations:{action}" for action in _RESOURCE_ACTIONS),
        *(f"environment:connections:{action}" for action in _RESOURCE_ACTIONS),
        CONNECT,
        AGENT_SESSIONS,
        CONFIGURE,
        PROXY,
        "environment:variables:read",
        "environment:webhook_signing_key:rotate",
        "environment:logs:read",
        "environment:audit:read",
        "environment:api_keys:list",
        "environment:api_keys:create",
        REVOKE,
    }
)
"""All scopes without wildcards. The wildcard ``<part>:*`` covers all scopes that begin with ``<part>:``."""

WILDCARDS: Final = frozenset(f"{scope.rpartition(':')[0]}:*" for scope in SCOPES if scope.count(":") == 2) | {
    EVERYTHING
}

# A key that is allowed to read credentials is also allowed to read the record without the credentials.
_IMPLIED_BY: Final = {
    f"environment:{resource}:{action}": f"environment:{resource}:{action}_credentials"
    for resource in ("integrations", "connections")
    for action in ("list", "read")
}


def covers(granted_scopes: Iterable[str], requested_scope: str) -> bool:
    """Return whether one of `granted_scopes` is `requested_scope`, a wildcard that covers it, or a scope that implies it.

    If `requested_scope` is a wildcard, only the same or a wider wildcard covers it.
    """
    implying_scope = _IMPLIED_BY.get(requested_scope)
    return any(
        _covers(scope, requested_scope) or (implying_scope is not None and _covers(scope, implying_scope))
        for scope in granted_scopes
    )


def _covers(scope: str, requested_scope: str) -> bool:
    return scope == requested_scope or (scope.endswith(":*") and requested_scope.startswith(scope[:-1]))


def is_scope(text: str) -> bool:
    """Return whether `text` is a scope or a wildcard that a key can have."""
    return text in SCOPES or text in WILDCARDS


def nearest_scope(text: str) -> str | None:
    """Return the scope that `text` is probably a typo of; None if no scope is similar."""
    scope_by_short_name = {scope.removeprefix(PREFIX): scope for scope in sorted(SCOPES | WILDCARDS)}
    nearest_name = nearest(
        text.removeprefix(PREFIX), scope_by_short_name
    )  # without the common prefix, which would make all scopes similar
    return scope_by_short_name[nearest_name] if nearest_name is not None else None
