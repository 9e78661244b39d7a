"""Connections: list, read, change, delete."""

import json
from dataclasses import replace
from typing import Annotated, Any, Final

from aiohttp import hdrs, web
from pydantic import Field

from gateway import clock
from gateway.access.refusals import missing_scope_error, with_payload
from gateway.access.scopes import CONNECT
from gateway.api import responses
from gateway.api.connect_endpoints import check_tags
from gateway.api.connection_json import add_history, listed, state_of, whole
from gateway.api.narrow import check_webhook
from gateway.api.path_ids import in_path, known_ref, ref_of
from gateway.api.request_body import (
    Strict,
    check_levels,
    empty_body,
    number,
    parsed,
    query_of,
    read_json,
    truth,
    wrong_query,
)
from gateway.api.shapes import (
    FREE_BYTES,
    MAX_TAGS,
    MOST_NAMED,
    TAG_KEY,
    ConnectionId,
    EndUserBody,
    FreeMembers,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    end_user,
    json_bytes,
    tags_asked,
)
from gateway.auth.revocation import RevocationOutcome
from gateway.connections.lacking_scopes import find_lacking
from gateway.errors import InvalidRequest, Issue, NotFound, ReconnectNeeded, Unavailable, joined_issues
from gateway.http.ids import CONNECTION_ID
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.off_loop import INLINE_BYTES
from gateway.records.audit import AuditAction
from gateway.records.connection import Connection, ConnectionRef
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.store import Edit, ListFilter, MetadataUnfit, UnknownConnection, cursor_after
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
TRUTHS: Final = ("force_refresh", "refresh_token", "refresh_github_app_jwt_token")
READ: Final = "environment:connections:read"
READ_CREDENTIALS: Final = "environment:connections:read_credentials"
MOST: Final = 2000
WITHOUT_LIMIT: Final = 10_000
ROWS_AT_ONCE: Final = 500  # read from the store
PAGE_BYTES: Final = 16 * 1024 * 1024
"""A page ends with the row with which it reaches this size; the list continues at `next_cursor`. Usual pages are far
smaller."""
NOT_REFRESHED: Final = "Gateway-Refresh-Failed"  # the status is still 200, since the token is still valid


@needs("environment:connections:list", limits=True)
async def list_connections(request: web.Request) -> web.Response:
    empty_body(request)
    numbers = {"limit": (1, MOST), "page": (0, 10**9)}
    query = query_of(request, FILTERS, nested=("tags",), numbers=numbers, truths=("missingScopes",))
    limit, page = number(query, "limit"), number(query, "page")
    if page is not None and "cursor" in query:
        raise wrong_query("page", "Send either 'page' or 'cursor'.")
    wanted = ListFilter(
        connection_id=query.get("connectionId"),
        search=query.get("search"),
        end_user_id=query.get("endUserId"),
        organization_id=query.get("endUserOrganizationId"),
        integration_ids=tuple(key.strip() for key in query.get("integrationId", "").split(",") if key.strip()),
        tags=tags_in(request),
        within=request[CALLER].policy.limits,
        limit=min((limit or WITHOUT_LIMIT) + 1, ROWS_AT_ONCE),
        offset=(page or 0) * (limit or WITHOUT_LIMIT),
        cursor=query.get("cursor"),
    )
    store, most = request.app[RUNTIME].store, limit or WITHOUT_LIMIT
    shown = _Page(most)
    if truth(query, "missingScopes"):
        if page is not None:
            raise wrong_query("page", "With 'missingScopes', use 'cursor' instead of 'page'.")
        lacking = await find_lacking(
            store, generation_of(request), request[ENVIRONMENT].name, replace(wanted, limit=most)
        )
        for row in lacking.rows:
            shown.add(row)
            await shown.give_way()
        return shown.response(goes_on=lacking.cursor is not None, cursor=lacking.cursor)
    while True:
        found = await store.connections.list(request[ENVIRONMENT].name, wanted)
        for row in found:
            if shown.is_full:
                return shown.response(goes_on=True)
            shown.add(row)
            await shown.give_way()
        if len(found) < wanted.limit:
            return shown.response(goes_on=False)
        wanted = replace(wanted, cursor=cursor_after(found[-1]), offset=0)


class _Page:
    """A page of rows as JSON: at most `most` rows, and none after the one that reaches `PAGE_BYTES`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[bytes] = []
        self._bytes = self._in_this_turn = 0
        self._last: Connection | None = None

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= self._most or self._bytes >= PAGE_BYTES

    def add(self, row: Connection) -> None:
        text = json.dumps(listed(row)).encode()
        self._rows.append(text)
        self._bytes += len(text)
        self._in_this_turn += len(text)
        self._last = row

    async def give_way(self) -> None:
        """Let other tasks run, if this one has written `INLINE_BYTES` since it last did so."""
        if self._in_this_turn >= INLINE_BYTES:
            self._in_this_turn = 0
            await clock.give_way()

    def response(self, *, goes_on: bool, cursor: str | None = None) -> web.Response:
        """Return the page. `goes_on`: the list has more rows. `cursor`: where it continues, if not after the last
        row."""
        if cursor is None and self._last is not None:
            cursor = cursor_after(self._last)
        around: responses.ConnectionList = {"connections": []}
        if goes_on and cursor is not None:
            around["next_cursor"] = cursor
        before, after = json.dumps(around).encode().split(b"[]", 1)  # the rows are JSON already
        body = before + b"[" + b", ".join(self._rows) + b"]" + after
        return web.Response(body=body, content_type="application/json", charset="utf-8")


@needs("environment:connections:read", CONNECT, limits=True)
async def get_connection(request: web.Request) -> web.Response:
    """Return one connection and its credential, refreshed if needed (docs/connections.md#refresh)."""
    empty_body(request)
    query = query_of(request, ("provider_config_key", "include", *TRUTHS), truths=TRUTHS)
    with_history = _includes_history(query)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await ref_of(request, runtime, generation, query)
    policy, key_id = request[CALLER].policy, request[CALLER].key_id
    with_refresh_token = truth(query, "refresh_token")
    force = truth(query, "force_refresh")
    readable, revealed = policy.allows(READ), policy.allows(READ_CREDENTIALS)
    if not revealed and (force or with_refresh_token):
        raise missing_scope_error(READ_CREDENTIALS)
    await runtime.store.connections.touch_fetched(ref, now=clock.now())
    try:
        connection, not_refreshed = await runtime.live.current(ref, force=force)
    except NotFound as fault:
        raise await runtime.links.with_remedy(fault, policy, ref, key_id=key_id) from fault
    except (ReconnectNeeded, Unavailable) as fault:
        row = await runtime.store.connections.get(ref)
        if row is None:
            raise
        remedied = await runtime.links.with_remedy(fault, policy, ref, key_id=key_id)
        # A copy: other callers that waited for the same refresh may get the fault itself.
        shown = whole(runtime.store, row, credentials=False)
        if with_history:
            await add_history(shown, runtime, generation, row)
        raise with_payload(remedied, {"connection": shown if readable else state_of(row)}) from fault
    headers = {NOT_REFRESHED: not_refreshed.code} if not_refreshed else {}
    if not readable:  # a key that may only create sessions sees their results
        return web.json_response(state_of(connection), headers=headers)
    if revealed:  # recorded first: a credential whose read cannot be recorded is not returned
        what = {"refresh_token": True} if with_refresh_token else {}
        await runtime.store.connections.record_read([connection], AuditAction.CREDENTIAL_READ, now=clock.now(), **what)
    shown = whole(runtime.store, connection, credentials=revealed, with_refresh_token=with_refresh_token)
    if with_history:
        await add_history(shown, runtime, generation, connection)
    return web.json_response(shown, headers=headers)


@needs("environment:connections:delete", limits=True)
async def delete_connection(request: web.Request) -> web.Response:
    """Delete the connection immediately and revoke its tokens at the provider; respond with the result for each
    token."""
    empty_body(request)
    query = query_of(request, ("provider_config_key", "revoke"), truths=("revoke",))
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await ref_of(request, runtime, generation, query)
    at_provider = "revoke" not in query or truth(query, "revoke")
    deleted = await runtime.deleter.delete(ref, at_provider=at_provider)
    if deleted is None:
        raise NotFound(
            "unknown_connection",
            f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was deleted.",
        )
    outcomes = [_revocation(one) for one in deleted.revocation if one.outcome != "not_offered"]
    body: responses.DeletedConnection = {"success": True, "at_provider": deleted.at_provider}
    if outcomes:
        body["revocation"] = outcomes
    return web.json_response(body)


def _revocation(one: RevocationOutcome) -> responses.Revocation:
    shown: responses.Revocation = {"token": one.token, "outcome": one.outcome}
    if one.detail:
        shown["detail"] = one.detail
    return shown


def tags_in(request: web.Request) -> dict[str, str]:
    """Return the tags in ``tags[<key>]=<value>``, with keys in lower case.

    Raises InvalidRequest for invalid tags.
    """
    tags: dict[str, str] = {}
    issues: list[Issue] = []
    for name, text in request.query.items():
        if not name.startswith("tags["):
            continue
        key = name[5:-1].lower()
        if not TAG_KEY.fullmatch(key):
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

    connection_id: ConnectionId | Annotated[list[ConnectionId], Field(min_length=1, max_length=MOST_NAMED)]
    provider_config_key: ProviderConfigKey
    metadata: FreeMembers


@needs("environment:connections:update", limits=True)
async def patch_connection(request: web.Request) -> web.Response:
    query = query_of(request, ("provider_config_key",))
    body = await read_json(request, ConnectionChanges)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    ref = await ref_of(request, runtime, generation, query)
    check_webhook(request[CALLER].policy, body.webhook_url_override)
    user = end_user(body.end_user)
    tags = tags_asked(user, body.tags)
    if tags is not None:
        check_tags(request[CALLER], tags)
    wanted = Edit(end_user=user, tags=tags, webhook_url_override=body.webhook_url_override)
    try:
        runtime.live.replace(await runtime.store.edits.edit(ref, wanted, now=clock.now()))
    except UnknownConnection as fault:
        raise _unknown(fault.ref) from fault
    return web.json_response(responses.Success(success=True))


@needs("environment:connections:update", limits=True)
async def set_metadata(request: web.Request) -> web.Response:
    """Replace the metadata; respond with 201 and the body that was sent."""
    return await _metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata(request: web.Request) -> web.Response:
    """Merge into the metadata; respond with 200 and the body that was sent. Other top-level members stay unchanged."""
    return await _metadata(request, merge=True)


@needs("environment:connections:update", limits=True)
async def set_metadata_of_one(request: web.Request) -> web.Response:
    """Replace the metadata, in the former form: connection in the path, integration in a header, metadata as the
    body."""
    return await _bare_metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata_of_one(request: web.Request) -> web.Response:
    return await _bare_metadata(request, merge=True)


async def _metadata(request: web.Request, *, merge: bool) -> web.Response:
    query_of(request, ())
    body = await read_json(request, NewMetadata)
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    ids = [body.connection_id] if isinstance(body.connection_id, str) else body.connection_id
    named = [ConnectionRef(environment, body.provider_config_key, one) for one in ids]
    refs = [await known_ref(runtime, generation, request[CALLER], ref) for ref in named]
    await _write_metadata(runtime, refs, body.metadata, merge=merge)
    sent: responses.MetadataOf = {
        "connection_id": body.connection_id,
        "provider_config_key": body.provider_config_key,
        "metadata": body.metadata,
    }
    return web.json_response(sent, status=200 if merge else 201)


async def _bare_metadata(request: web.Request, *, merge: bool) -> web.Response:
    query_of(request, ())
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    key = request.headers.get("Provider-Config-Key")
    if not key:
        message = "Name the integration in the header Provider-Config-Key."
        raise InvalidRequest("invalid_headers", message, errors=[Issue("custom", message, ("provider-config-key",))])
    ref = ConnectionRef(environment, key, in_path(request, "connection_id", CONNECTION_ID, "connectionId"))
    await known_ref(runtime, generation, request[CALLER], ref)
    metadata = await parsed(request)
    if not isinstance(metadata, dict):
        raise InvalidRequest(
            "invalid_body", "The body must be a JSON object.", errors=[Issue("invalid_type", "must be an object")]
        )
    check_levels({"": metadata})
    if json_bytes(metadata) > FREE_BYTES:
        raise _too_large(json_bytes(metadata), ())
    await _write_metadata(runtime, [ref], metadata, merge=merge)
    return web.json_response(metadata, status=200 if request.method == hdrs.METH_PATCH else 201)


async def _write_metadata(
    runtime: Runtime, refs: list[ConnectionRef], metadata: dict[str, Any], *, merge: bool
) -> None:
    rows: list[Connection]
    try:
        rows = await runtime.store.edits.set_metadata(
            refs, metadata, merge=merge, fits=lambda merged: json_bytes(merged) <= FREE_BYTES, now=clock.now()
        )
    except UnknownConnection as fault:
        raise _unknown(fault.ref) from fault
    except MetadataUnfit as fault:
        raise _too_large(json_bytes(fault.merged), ("metadata",), fault.ref.connection_id) from fault
    for row in rows:
        runtime.live.replace(row)


def _too_large(size: int, path: tuple[str, ...], connection_id: str | None = None) -> InvalidRequest:
    whose = (
        "The metadata"
        if connection_id is None
        else f"Together with its existing metadata, the metadata of connection '{connection_id}'"
    )
    message = f"{whose} would have {counted(size, 'byte')} as JSON; the limit is {FREE_BYTES:,}. Nothing was changed."
    return InvalidRequest("invalid_body", message, errors=[Issue("too_big", message, path)])


def _unknown(ref: ConnectionRef) -> NotFound:
    return NotFound(
        "unknown_connection",
        f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was changed.",
        payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
    )
