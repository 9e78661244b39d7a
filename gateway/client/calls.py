"""Calls to the gateway's own API (docs/http-api.md), from what a program says to what is sent. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict
from urllib.parse import quote

from gateway.client.message import Param, written

Json = dict[str, Any]


class Filters(TypedDict, total=False):
    """Which connections: `connection_id` exactly; `search` in it and in the end user's name and e-mail; all `tags`."""

    connection_id: str
    search: str
    end_user_id: str
    organization_id: str
    integrations: Sequence[str]
    tags: Mapping[str, str]


class Imported(TypedDict, total=False):
    """What an imported connection has besides its credential. What is left out keeps the value that it has."""

    connection_id: str
    connection_config: Mapping[str, Any]
    metadata: Mapping[str, Any]
    tags: Mapping[str, str]
    end_user: Mapping[str, Any]
    webhook_url_override: str


class Session(TypedDict, total=False):
    """Who may connect what. `end_user` is ``{"id", "email"?, "display_name"?}``; `tags` may stand in for it.

    `integrations_config_defaults` fixes settings by integration; `allowed_integrations` left out means all. `expires_in`:
    seconds, 60 to 604800. `max_connections`: how many it may make. `single_use`: for one browser. `code_challenge`: of
    `code_challenge(new_code_verifier())`; then complete what is connected with `complete_connect_session`. `return_url`:
    your page to which the end user returns, with `state`; verify it with `verify_return`.
    """

    end_user: Mapping[str, Any]
    organization: Mapping[str, Any]
    tags: Mapping[str, str]
    allowed_integrations: Sequence[str]
    integrations_config_defaults: Mapping[str, Mapping[str, Any]]
    overrides: Mapping[str, Mapping[str, Any]]
    webhook_url_override: str
    expires_in: int
    max_connections: int
    single_use: bool
    code_challenge: str
    code_challenge_method: str
    return_url: str
    state: str


class Configured(TypedDict, total=False):
    """What an integration is made or changed with. `credentials` are those of its auth mode: ``{"type": "OAUTH2",
    "client_id": "…", "client_secret": "…", "scopes": "a,b"}``. What is left out keeps the value that it has.
    """

    display_name: str
    credentials: Mapping[str, Any]
    forward_webhooks: bool
    allowed_hosts: Sequence[str]
    allow_unsigned_webhooks: bool
    custom: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """`target` is percent-encoded and begins with a slash; `body`, if any, is sent as JSON."""

    method: str
    target: str
    body: Json | None = None


def connections(filters: Filters, limit: int, cursor: str | None) -> Call:
    """A page of the list, `limit` connections long."""
    query: list[tuple[str, Param]] = [
        ("connectionId", filters.get("connection_id")),
        ("search", filters.get("search")),
        ("endUserId", filters.get("end_user_id")),
        ("endUserOrganizationId", filters.get("organization_id")),
        ("integrationId", ",".join(filters.get("integrations", ())) or None),
        *((f"tags[{key}]", text) for key, text in filters.get("tags", {}).items()),
        ("limit", limit),
        ("cursor", cursor),
    ]
    return Call("GET", f"/connections?{written(query)}")


def connection(key: str, connection_id: str, *, force_refresh: bool, refresh_token: bool, history: bool) -> Call:
    query: dict[str, Param] = {
        "provider_config_key": key,
        "force_refresh": force_refresh,
        "refresh_token": refresh_token,
        "include": "history" if history else None,
    }
    return Call("GET", f"{_at(connection_id)}?{written(query)}")


def imported(key: str, credentials: Mapping[str, Any], more: Imported) -> Call:
    return Call("POST", "/connections", {"provider_config_key": key, "credentials": dict(credentials), **more})


def patched(key: str, connection_id: str, changes: Mapping[str, Any]) -> Call:
    query = {"provider_config_key": key}
    return Call("PATCH", f"{_at(connection_id)}?{written(query)}", dict(changes))


def deleted(key: str, connection_id: str, *, revoke: bool) -> Call:
    query = {"provider_config_key": key, "revoke": None if revoke else False}
    return Call("DELETE", f"{_at(connection_id)}?{written(query)}")


def metadata(key: str, connection_ids: str | Sequence[str], values: Mapping[str, Any], *, merge: bool) -> Call:
    named = connection_ids if isinstance(connection_ids, str) else list(connection_ids)
    body = {"provider_config_key": key, "connection_id": named, "metadata": dict(values)}
    return Call("PATCH" if merge else "POST", "/connections/metadata", body)


def connect_session(session: Session) -> Call:
    return Call("POST", "/connect/sessions", dict(session))


def reconnect_session(key: str, connection_id: str, session: Session) -> Call:
    body = {"integration_id": key, "connection_id": connection_id, **session}
    return Call("POST", "/connect/sessions/reconnect", body)


def completed_session(session_id: str, code_verifier: str, connection_id: str | None) -> Call:
    target = f"/connect/sessions/{quote(session_id, safe='')}/complete"
    body = {"code_verifier": code_verifier, "connection_id": connection_id}
    return Call("POST", target, {name: text for name, text in body.items() if text is not None})


def integrations() -> Call:
    return Call("GET", "/integrations")


def integration(key: str, include: Sequence[str]) -> Call:
    query = written([("include", wish) for wish in include])
    return Call("GET", _integration(key) + (f"?{query}" if query else ""))


def new_integration(provider: str, key: str | None, more: Configured) -> Call:
    return Call("POST", "/integrations", {"provider": provider, **({"unique_key": key} if key else {}), **more})


def changed_integration(key: str, changes: Configured, new_key: str | None) -> Call:
    return Call("PATCH", _integration(key), {**changes, **({"unique_key": new_key} if new_key else {})})


def deleted_integration(key: str) -> Call:
    return Call("DELETE", _integration(key))


def providers(search: str | None, category: str | None, auth_mode: str | None) -> Call:
    query: dict[str, Param] = {"search": search, "category": category, "auth_mode": auth_mode}
    told = written(query)
    return Call("GET", f"/providers?{told}" if told else "/providers")


def provider(name: str) -> Call:
    return Call("GET", f"/providers/{quote(name, safe='')}")


def _integration(key: str) -> str:
    return f"/integrations/{quote(key, safe='')}"


def _at(connection_id: str) -> str:
    return f"/connections/{quote(connection_id, safe='')}"
