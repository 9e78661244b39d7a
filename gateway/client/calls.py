"""Builds the URL, the header fields and the body of a request from a call's arguments. No I/O."""

import re
import string
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, TypedDict
from urllib.parse import quote

# ── Proxied calls: the URL and the header fields.

Param = str | int | float | bool | None
Params = Mapping[str, Param | Sequence[Param]] | Sequence[tuple[str, Param]]
Body = bytes | str | Mapping[str, str] | IO[bytes] | AsyncIterable[bytes] | Iterable[bytes]

# The characters that are not escaped, with '%': an endpoint is a path with an optional query that is already encoded.
_UNESCAPED: Final = "".join(c for c in string.printable if c.isprintable() and c not in ' "#<>\\^`{}')


_ABSOLUTE: Final = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


class Options(TypedDict, total=False):
    """The options of a call. For a missing option, the client's or the gateway's default applies.

    `params`: the query. A value None is left out, booleans become ``true`` and ``false``, and a list becomes a repeated
    parameter. `base_url_override`: the URL that replaces the provider's base URL for this call. `headers`: further
    header fields. `json`: a body that is sent as JSON. `data`: a body that is sent unchanged; a mapping is sent as a
    form, and an iterable in pieces. `retries`: how often the gateway may retry the call. `retry_on`: further statuses
    after which the gateway retries. `timeout_s`: the maximum time until the provider's response begins, in seconds.
    `decompress`: whether the gateway decompresses the response.
    """

    params: Params
    provider_config_key: str
    connection_id: str
    base_url_override: str
    headers: Mapping[str, str]
    json: Any
    data: Body
    retries: int
    retry_on: Sequence[int]
    timeout_s: float
    decompress: bool


def proxied_url(base_url: str, endpoint: str, params: Params | None) -> str:
    """Return the URL of a proxied call. Raises ValueError for an absolute URL."""
    target = f"{base_url}/proxy{quote(endpoint_path(base_url, endpoint), safe=_UNESCAPED)}"
    query = query_string(params)
    if not query:
        return target
    return f"{target}{'&' if '?' in target else '?'}{query}"


def endpoint_path(base_url: str, endpoint: str) -> str:
    """Return `endpoint` with a leading slash.

    The gateway's own base URL is removed, so that URLs from the gateway's Link and Location fields can be used. Raises
    ValueError for any other absolute URL: as a path, it would only get the provider's 404, without an explanation.
    """
    proxy_url = f"{base_url}/proxy"
    path = endpoint
    if endpoint.startswith((f"{proxy_url}/", f"{proxy_url}?")) or endpoint == proxy_url:
        path = endpoint.removeprefix(proxy_url)
    if _ABSOLUTE.match(path):
        raise ValueError(
            f"'{endpoint.partition('?')[0]}' is an absolute URL; an endpoint is the part after the provider's base URL, such "
            "as '/users/1'. To follow `next` links, use paginate(); to call another host, use base_url_override."
        )
    return f"/{path}" if path and not path.startswith(("/", "?")) else path


def query_string(params: Params | None) -> str:
    """Return `params` as a percent-encoded query. A space becomes ``%20``."""
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in _pairs(params or ()))


def _pairs(params: Params) -> Iterator[tuple[str, str]]:
    items: Iterable[tuple[str, Any]] = params.items() if isinstance(params, Mapping) else params
    for name, value in items:
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        for item in values:
            if item is not None:
                yield name, str(item).lower() if isinstance(item, bool) else str(item)


def header_fields(options: Options) -> dict[str, str]:
    """Return the header fields for the options, together with the caller's own header fields.

    Raises ValueError if the integration or the connection is missing.
    """
    headers = dict(options.get("headers", {}))
    for header, option in (("Provider-Config-Key", "provider_config_key"), ("Connection-Id", "connection_id")):
        name = options.get(option)
        if not name:
            raise ValueError(f"{option} is missing: give it to the call, or to the client for all calls")
        headers[header] = str(name)
    if options.get("base_url_override"):
        headers["Base-Url-Override"] = options["base_url_override"]
    if "retries" in options:
        headers["Retries"] = str(options["retries"])
    if options.get("retry_on"):
        headers["Retry-On"] = ",".join(map(str, options["retry_on"]))
    if "timeout_s" in options:
        headers["Gateway-Timeout"] = f"{options['timeout_s']:.3f}".rstrip("0").rstrip(".")
    if "decompress" in options:
        headers["Decompress"] = "true" if options["decompress"] else "false"
    return headers


def paginate_header(pages: int | None, limit: int | None, way: Mapping[str, str | int] | None) -> str:
    """Return the value of the header Gateway-Paginate.

    The value contains ``marks``, so that the gateway marks the end of each page in the list. `pages`: the maximum
    number of pages; None: all. Raises ValueError for characters that are not allowed in a header.
    """
    parts = ["all" if pages is None else str(pages), "marks"]
    if limit is not None:
        parts.append(f"limit={limit}")
    for name, value in (way or {}).items():
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"{name} must be printable ASCII")
        quoted = text.replace("\\", r"\\").replace('"', r"\"")
        parts.append(f'{name}="{quoted}"')
    return "; ".join(parts)


# ── Calls to the gateway's own API (docs/http-api.md).

Json = dict[str, Any]


class Filters(TypedDict, total=False):
    """The filters of a list of connections.

    `connection_id`: the exact id. `search`: a text in the connection's id, or in the end user's name or e-mail address.
    `tags`: the tags that a connection must have, all together. `missing_scopes`: if true, only connections that lack
    scopes.
    """

    connection_id: str
    search: str
    end_user_id: str
    organization_id: str
    integrations: Sequence[str]
    tags: Mapping[str, str]
    missing_scopes: bool


class ImportedConnection(TypedDict, total=False):
    """The members of an imported connection, without its credential.

    If the connection exists, missing members keep their value.
    """

    connection_id: str
    connection_config: Mapping[str, Any]
    metadata: Mapping[str, Any]
    tags: Mapping[str, str]
    end_user: Mapping[str, Any]
    webhook_url_override: str


class ConnectSessionCall(TypedDict, total=False):
    """The members of a connect session.

    `end_user`: ``{"id", "email"?, "display_name"?}``; `tags` can be given instead. `allowed_integrations`: the
    integrations that the end user may connect; if missing, all integrations. `integrations_config_defaults`: fixed
    settings by integration. `expires_in`: the lifetime in seconds, from 60 to 604800. `max_connections`: the maximum
    number of connections. `single_use`: whether the session works in a single browser only. `code_challenge`: the
    result of `code_challenge(new_code_verifier())`; connections then stay pending until you call
    `complete_connect_session`. `return_url`: the page of your application to which the end user returns, with the
    result and `state`. Verify the result with `verify_return`.
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


class IntegrationFields(TypedDict, total=False):
    """The members of an integration that is created or changed. At a change, missing members keep their value.

    `credentials`: the members that the auth mode needs, such as ``{"type": "OAUTH2", "client_id": "…",
    "client_secret": "…", "scopes": "a,b"}``.
    """

    display_name: str
    credentials: Mapping[str, Any]
    forward_webhooks: bool
    allowed_hosts: Sequence[str]
    allow_unsigned_webhooks: bool
    custom: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call to the gateway's API.

    `target`: the percent-encoded path and query; it begins with a slash. `body`: the members of the JSON body; None: no
    body.
    """

    method: str
    target: str
    body: Json | None = None


def connections(filters: Filters, limit: int, cursor: str | None) -> ApiCall:
    """Return the call for one page of at most `limit` connections. `cursor`: where the page begins; None: the start."""
    query: list[tuple[str, Param]] = [
        ("connectionId", filters.get("connection_id")),
        ("search", filters.get("search")),
        ("endUserId", filters.get("end_user_id")),
        ("endUserOrganizationId", filters.get("organization_id")),
        ("integrationId", ",".join(filters.get("integrations", ())) or None),
        *((f"tags[{key}]", text) for key, text in filters.get("tags", {}).items()),
        ("missingScopes", filters.get("missing_scopes")),
        ("limit", limit),
        ("cursor", cursor),
    ]
    return ApiCall("GET", f"/connections?{query_string(query)}")


def connection(key: str, connection_id: str, *, force_refresh: bool, refresh_token: bool, history: bool) -> ApiCall:
    query: dict[str, Param] = {
        "provider_config_key": key,
        "force_refresh": force_refresh,
        "refresh_token": refresh_token,
        "include": "history" if history else None,
    }
    return ApiCall("GET", f"{_connection_path(connection_id)}?{query_string(query)}")


def import_connection_call(key: str, credentials: Mapping[str, Any], fields: ImportedConnection) -> ApiCall:
    return ApiCall("POST", "/connections", {"provider_config_key": key, "credentials": dict(credentials), **fields})


def update_connection_call(key: str, connection_id: str, changes: Mapping[str, Any]) -> ApiCall:
    query = {"provider_config_key": key}
    return ApiCall("PATCH", f"{_connection_path(connection_id)}?{query_string(query)}", dict(changes))


def delete_connection_call(key: str, connection_id: str, *, revoke: bool) -> ApiCall:
    query = {"provider_config_key": key, "revoke": None if revoke else False}
    return ApiCall("DELETE", f"{_connection_path(connection_id)}?{query_string(query)}")


def metadata(key: str, connection_ids: str | Sequence[str], values: Mapping[str, Any], *, merge: bool) -> ApiCall:
    ids = connection_ids if isinstance(connection_ids, str) else list(connection_ids)
    body = {"provider_config_key": key, "connection_id": ids, "metadata": dict(values)}
    return ApiCall("PATCH" if merge else "POST", "/connections/metadata", body)


def connect_session_call(session: ConnectSessionCall) -> ApiCall:
    return ApiCall("POST", "/connect/sessions", dict(session))


def reconnect_session_call(key: str, connection_id: str, session: ConnectSessionCall) -> ApiCall:
    body = {"integration_id": key, "connection_id": connection_id, **session}
    return ApiCall("POST", "/connect/sessions/reconnect", body)


def complete_session_call(session_id: str, code_verifier: str, connection_id: str | None) -> ApiCall:
    target = f"/connect/sessions/{quote(session_id, safe='')}/complete"
    body = {"code_verifier": code_verifier, "connection_id": connection_id}
    return ApiCall("POST", target, {name: text for name, text in body.items() if text is not None})


def integrations() -> ApiCall:
    return ApiCall("GET", "/integrations")


def integration(key: str, include: Sequence[str]) -> ApiCall:
    query = query_string([("include", item) for item in include])
    return ApiCall("GET", _integration_path(key) + (f"?{query}" if query else ""))


def create_integration_call(provider: str, key: str | None, fields: IntegrationFields) -> ApiCall:
    return ApiCall("POST", "/integrations", {"provider": provider, **({"unique_key": key} if key else {}), **fields})


def change_integration_call(key: str, changes: IntegrationFields, new_key: str | None) -> ApiCall:
    return ApiCall("PATCH", _integration_path(key), {**changes, **({"unique_key": new_key} if new_key else {})})


def delete_integration_call(key: str) -> ApiCall:
    return ApiCall("DELETE", _integration_path(key))


def providers(search: str | None, category: str | None, auth_mode: str | None) -> ApiCall:
    query: dict[str, Param] = {"search": search, "category": category, "auth_mode": auth_mode}
    text = query_string(query)
    return ApiCall("GET", f"/providers?{text}" if text else "/providers")


def provider(name: str) -> ApiCall:
    return ApiCall("GET", f"/providers/{quote(name, safe='')}")


def _integration_path(key: str) -> str:
    return f"/integrations/{quote(key, safe='')}"


def _connection_path(connection_id: str) -> str:
    return f"/connections/{quote(connection_id, safe='')}"
