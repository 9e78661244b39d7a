"""Connections: list, read, change, delete."""

import json
from dataclasses import replace
from typing import Annotated, Any, Final

from aiohttp import hdrs, web
from pydantic import Field

from gateway import clock
from gateway.access.refusals import missing_scope_error, with_payload
from gateway.access.scopes import CONNECT, READ_CONNECTION_CREDENTIALS, READ_CONNECTIONS
from gateway.api import responses
from gateway.api.connect_endpoints import check_required_tags
from gateway.api.connection_json import add_history, connection_state_json, full_connection_json, listed_connection_json
from gateway.api.minted_key_limits import check_webhook
from gateway.api.path_ids import check_usable, connection_in_path, path_part
from gateway.api.request_body import (
    Strict,
    check_levels,
    query_boolean,
    query_number,
    read_any_json,
    read_json,
    read_query,
    require_empty_body,
    wrong_query,
)
from gateway.api.shapes import (
    FREE_BYTES,
    MAX_NAMES,
    MAX_TAGS,
    TAG_KEY_FORM,
    ConnectionId,
    EndUserBody,
    FreeMembers,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    end_user,
    json_bytes,
    replacing_tags,
)
from gateway.auth.revocation import RevocationOutcome
from gateway.connections.lacking_scopes import find_lacking
from gateway.errors import InvalidRequest, Issue, NotFound, ReconnectNeeded, Unavailable, joined_issues
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.off_loop import INLINE_BYTES
from gateway.records.audit import AuditAction
from gateway.records.connection import CONNECTION_ID, Connection, ConnectionRef
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.store import Edit, InvalidMetadata, ListFilter, UnknownConnection, cursor_after
from gateway.text import counted

FILTERS: Final = (
    "connectionId",
    "search",
    "endUserId",
    "endUserOrganizationId",
    "integrationId",
    "limit",
    "page",
    "cursor",
    "missingScopes",
)
BOOLEANS: Final = ("force_refresh", "refresh_token", "refresh_github_app_jwt_token")
MAX_LIMIT: Final = 2000
DEFAULT_LIMIT: Final = 10_000
ROWS_PER_READ: Final = 500  # maximum number of rows that are read from the store in one query
PAGE_BYTES: Final = 16 * 1024 * 1024
"""Size in bytes. A page ends with the row that brings the page to this size, and `next_cursor` continues the list.
Usual pages are far smaller."""
NOT_REFRESHED_HEADER: Final = "Gateway-Refresh-Failed"  # sent with status 200: the token is still valid


@needs("environment:connections:list", limits=True)
async def list_connections(request: web.Request) -> web.Response:
    require_empty_body(request)
    numbers = {"limit": (1, MAX_LIMIT), "page": (0, 10**9)}
    query = read_query(request, FILTERS, nested=("tags",), numbers=numbers, booleans=("missingScopes",))
    limit, page = query_number(query, "limit"), query_number(query, "page")
    if page is not None and "cursor" in query:
        raise wrong_query("page", "Send either 'page' or 'cursor'.")
    list_filter = ListFilter(
        connection_id=query.get("connectionId"),
        search=query.get("search"),
        end_user_id=query.get("endUserId"),
        organization_id=query.get("endUserOrganizationId"),
        integration_ids=tuple(key.strip() for key in query.get("integrationId", "").split(",") if key.strip()),
        tags=tags_in_query(request),
        within=request[CALLER].policy.limits,
        limit=min((limit or DEFAULT_LIMIT) + 1, ROWS_PER_READ),
        offset=(page or 0) * (limit or DEFAULT_LIMIT),
        cursor=query.get("cursor"),
    )
    store, row_limit = request.app[RUNTIME].store, limit or DEFAULT_LIMIT
    connection_page = _ConnectionPage(row_limit)
    if query_boolean(query, "missingScopes"):
        if page is not None:
            raise wrong_query("page", "With 'missingScopes', use 'cursor' instead of 'page'.")
        lacking_page = await find_lacking(
            store, generation_of(request), request[ENVIRONMENT].name, replace(list_filter, limit=row_limit)
        )
        for row in lacking_page.rows:
            connection_page.add(row)
            await connection_page.give_way()
        return connection_page.response(has_more=lacking_page.cursor is not None, cursor=lacking_page.cursor)
    while True:
        rows = await store.connections.list(request[ENVIRONMENT].name, list_filter)
        for row in rows:
            if connection_page.is_full:
                return connection_page.response(has_more=True)
            connection_page.add(row)
            await connection_page.give_way()
        if len(rows) < list_filter.limit:
            return connection_page.response(has_more=False)
        list_filter = replace(list_filter, cursor=cursor_after(rows[-1]), offset=0)


class _ConnectionPage:
    """A page of the list as JSON. A page ends after `row_limit` rows, or after the row that brings the page to
    `PAGE_BYTES`."""

    def __init__(self, row_limit: int) -> None:
        self._row_limit = row_limit
        self._rows: list[bytes] = []
        self._bytes = self._bytes_since_pause = 0
        self._last_row: Connection | None = None

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= self._row_limit or self._bytes >= PAGE_BYTES

    def add(self, row: Connection) -> None:
        text = json.dumps(listed_connection_json(row)).encode()
        self._rows.append(text)
        self._bytes += len(text)
        self._bytes_since_pause += len(text)
        self._last_row = row

    async def give_way(self) -> None:
        """Let other tasks run after every `INLINE_BYTES` of JSON, so that a large page does not block the event
        loop."""
        if self._bytes_since_pause >= INLINE_BYTES:
            self._bytes_since_pause = 0
            await clock.give_way()

    def response(self, *, has_more: bool, cursor: str | None = None) -> web.Response:
        """Return the response with the added connections. `has_more`: whether the list has more rows. `cursor`: the
        position at which the next page begins; None: after the last row of this page."""
        if cursor is None and self._last_row is not None:
            cursor = cursor_after(self._last_row)
        empty_page: responses.ConnectionList = {"connections": []}
        if has_more and cursor is not None:
            empty_page["next_cursor"] = cursor
        start, end = json.dumps(empty_page).encode().split(b"[]", 1)  # the rows are JSON already
        body = start + b"[" + b", ".join(self._rows) + b"]" + end
        return web.Response(body=body, content_type="application/json", charset="utf-8")


@needs(READ_CONNECTIONS, CONNECT, limits=True)
async def get_connection(request: web.Request) -> web.Response:
    """Return one connection and its credential, refreshed if needed (docs/connections.md#refresh)."""
    require_empty_body(request)
    query = read_query(request, ("provider_config_key", "include", *BOOLEANS), booleans=BOOLEANS)
    with_history = _includes_history(query)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await connection_in_path(request, runtime, generation, query)
    policy, key_id = request[CALLER].policy, request[CALLER].key_id
    with_refresh_token = query_boolean(query, "refresh_token")
    force = query_boolean(query, "force_refresh")
    may_read, may_read_credentials = policy.allows(READ_CONNECTIONS), policy.allows(READ_CONNECTION_CREDENTIALS)
    if not may_read_credentials and (force or with_refresh_token):
        raise missing_scope_error(READ_CONNECTION_CREDENTIALS)
    await runtime.store.connections.touch_fetched(ref, now=clock.now())
    try:
        connection, refresh_fault = await runtime.live.fresh_row(ref, force=force)
    except NotFound as fault:
        raise await runtime.links.with_remedy(fault, policy, ref, key_id=key_id) from fault
    except (ReconnectNeeded, Unavailable) as fault:
        row = await runtime.store.connections.get(ref)
        if row is None:
            raise
        fault_with_remedy = await runtime.links.with_remedy(fault, policy, ref, key_id=key_id)
        # `with_payload` below makes a copy of the error, because other callers that waited for the same refresh get the
        # same error object.
        connection_json = full_connection_json(runtime.store, row, credentials=False)
        if with_history:
            await add_history(connection_json, runtime, generation, row)
        raise with_payload(
            fault_with_remedy, {"connection": connection_json if may_read else connection_state_json(row)}
        ) from fault
    headers = {NOT_REFRESHED_HEADER: refresh_fault.code} if refresh_fault else {}
    if not may_read:  # a key that may create connect sessions but not read connections
        return web.json_response(connection_state_json(connection), headers=headers)
    if may_read_credentials:  # the read is recorded first: if recording fails, no credential is returned
        detail = {"refresh_token": True} if with_refresh_token else {}
        await runtime.store.connections.record_read(
            [connection], AuditAction.CREDENTIAL_READ, now=clock.now(), **detail
        )
    connection_json = full_connection_json(
        runtime.store, connection, credentials=may_read_credentials, with_refresh_token=with_refresh_token
    )
    if with_history:
        await add_history(connection_json, runtime, generation, connection)
    return web.json_response(connection_json, headers=headers)


@needs("environment:connections:delete", limits=True)
async def delete_connection(request: web.Request) -> web.Response:
    """Delete the connection immediately and revoke its tokens at the provider; respond with the result for each
    token."""
    require_empty_body(request)
    query = read_query(request, ("provider_config_key", "revoke"), booleans=("revoke",))
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await connection_in_path(request, runtime, generation, query)
    at_provider = "revoke" not in query or query_boolean(query, "revoke")
    deletion = await runtime.deleter.delete(ref, at_provider=at_provider)
    if deletion is None:
        raise NotFound(
            "unknown_connection",
            f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was deleted.",
        )
    outcomes = [_revocation_json(result) for result in deletion.revocation if result.outcome != "not_offered"]
    body: responses.DeletedConnection = {"success": True, "at_provider": deletion.at_provider}
    if outcomes:
        body["revocation"] = outcomes
    return web.json_response(body)


def _revocation_json(outcome: RevocationOutcome) -> responses.Revocation:
    revocation: responses.Revocation = {"token": outcome.token, "outcome": outcome.outcome}
    if outcome.detail:
        revocation["detail"] = outcome.detail
    return revocation


def tags_in_query(request: web.Request) -> dict[str, str]:
    """Return the tags in ``tags[<key>]=<value>``, with keys in lower case.

    Raises InvalidRequest for invalid tags.
    """
    tags: dict[str, str] = {}
    issues: list[Issue] = []
    for name, text in request.query.items():
        if not name.startswith("tags["):
            continue
        key = name[5:-1].lower()
        if not TAG_KEY_FORM.fullmatch(key):
            issues.append(Issue("invalid_format", f"'{key[:64]}' cannot be the key of a tag.", ("tags", key)))
        elif key in tags:
            issues.append(Issue("custom", f"Tag '{key}' was given twice.", ("tags", key)))
        tags[key] = text
    if len(tags) > MAX_TAGS:
        issues.append(Issue("too_big", f"Give at most {MAX_TAGS} tags, since no connection has more.", ("tags",)))
    if issues:
        raise InvalidRequest("invalid_query_params", joined_issues(issues), errors=issues)
    return tags


def _includes_history(query: dict[str, str]) -> bool:
    if query.get("include", "history") != "history":
        raise wrong_query("include", "'include' may be 'history'.")
    return "include" in query


# ── Changes without a new credential: tags, end user, metadata (docs/compatibility.md#connections).


class ConnectionChanges(Strict):
    """Changes to a connection. Members that are left out stay unchanged.

    `tags` and `end_user` replace all tags. An empty `webhook_url_override` removes the override.
    """

    end_user: EndUserBody | None = None
    tags: Tags | None = None
    webhook_url_override: WebhookUrl | None = None


class NewMetadata(Strict):
    """Metadata for one or several connections. All of them are changed, or none."""

    connection_id: ConnectionId | Annotated[list[ConnectionId], Field(min_length=1, max_length=MAX_NAMES)]
    provider_config_key: ProviderConfigKey
    metadata: FreeMembers


@needs("environment:connections:update", limits=True)
async def patch_connection(request: web.Request) -> web.Response:
    query = read_query(request, ("provider_config_key",))
    body = await read_json(request, ConnectionChanges)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await connection_in_path(request, runtime, generation, query)
    check_webhook(request[CALLER].policy, body.webhook_url_override)
    user = end_user(body.end_user)
    tags = replacing_tags(user, body.tags)
    if tags is not None:
        check_required_tags(request[CALLER], tags)
    edit = Edit(end_user=user, tags=tags, webhook_url_override=body.webhook_url_override)
    try:
        runtime.live.replace(await runtime.store.edits.edit(ref, edit, now=clock.now()))
    except UnknownConnection as fault:
        raise _unknown_connection(fault.ref) from fault
    return web.json_response(responses.Success(success=True))


@needs("environment:connections:update", limits=True)
async def set_metadata(request: web.Request) -> web.Response:
    """Replace the metadata; respond with 201 and the body that was sent."""
    return await _change_metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata(request: web.Request) -> web.Response:
    """Merge the sent metadata into the existing metadata; respond with 200 and the body that was sent. Top-level
    members that are not sent stay unchanged."""
    return await _change_metadata(request, merge=True)


@needs("environment:connections:update", limits=True)
async def set_metadata_of_one(request: web.Request) -> web.Response:
    """Replace the metadata of one connection, by a request in the former format: the path names the connection, a
    header names the integration, and the body is the metadata."""
    return await _change_bare_metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata_of_one(request: web.Request) -> web.Response:
    return await _change_bare_metadata(request, merge=True)


async def _change_metadata(request: web.Request, *, merge: bool) -> web.Response:
    read_query(request, ())
    body = await read_json(request, NewMetadata)
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    ids = [body.connection_id] if isinstance(body.connection_id, str) else body.connection_id
    named_refs = [ConnectionRef(environment, body.provider_config_key, id_) for id_ in ids]
    refs = [await check_usable(runtime, generation, request[CALLER], ref) for ref in named_refs]
    await _write_metadata(runtime, refs, body.metadata, merge=merge)
    changed_metadata: responses.MetadataOf = {
        "connection_id": body.connection_id,
        "provider_config_key": body.provider_config_key,
        "metadata": body.metadata,
    }
    return web.json_response(changed_metadata, status=200 if merge else 201)


async def _change_bare_metadata(request: web.Request, *, merge: bool) -> web.Response:
    read_query(request, ())
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    key = request.headers.get("Provider-Config-Key")
    if not key:
        message = "Name the integration in the header Provider-Config-Key."
        raise InvalidRequest("invalid_headers", message, errors=[Issue("custom", message, ("provider-config-key",))])
    ref = ConnectionRef(environment, key, path_part(request, "connection_id", CONNECTION_ID, "connectionId"))
    await check_usable(runtime, generation, request[CALLER], ref)
    metadata = await read_any_json(request)
    if not isinstance(metadata, dict):
        raise InvalidRequest(
            "invalid_body", "The body must be a JSON object.", errors=[Issue("invalid_type", "must be an object")]
        )
    check_levels({"": metadata})
    if json_bytes(metadata) > FREE_BYTES:
        raise _too_large_error(json_bytes(metadata), ())
    await _write_metadata(runtime, [ref], metadata, merge=merge)
    return web.json_response(metadata, status=200 if request.method == hdrs.METH_PATCH else 201)


async def _write_metadata(
    runtime: Runtime, refs: list[ConnectionRef], metadata: dict[str, Any], *, merge: bool
) -> None:
    rows: list[Connection]
    try:
        rows = await runtime.store.edits.set_metadata(
            refs, metadata, merge=merge, is_acceptable=lambda merged: json_bytes(merged) <= FREE_BYTES, now=clock.now()
        )
    except UnknownConnection as fault:
        raise _unknown_connection(fault.ref) from fault
    except InvalidMetadata as fault:
        raise _too_large_error(json_bytes(fault.merged), ("metadata",), fault.ref.connection_id) from fault
    for row in rows:
        runtime.live.replace(row)


def _too_large_error(size: int, path: tuple[str, ...], connection_id: str | None = None) -> InvalidRequest:
    subject = (
        "The metadata"
        if connection_id is None
        else f"Together with its existing metadata, the metadata of connection '{connection_id}'"
    )
    message = f"{subject} would have {counted(size, 'byte')} as JSON; the limit is {FREE_BYTES:,}. Nothing was changed."
    return InvalidRequest("invalid_body", message, errors=[Issue("too_big", message, path)])


def _unknown_connection(ref: ConnectionRef) -> NotFound:
    return NotFound(
        "unknown_connection",
        f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was changed.",
        payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
    )
