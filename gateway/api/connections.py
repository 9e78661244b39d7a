"""Connections: list, read, delete (api-contract 1.4)."""

from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.access.refusals import lacking, with_more
from gateway.access.scopes import CONNECT
from gateway.api.addressed import ref_of
from gateway.api.body import empty_body, number, query_of, truth, wrong_query
from gateway.api.connection_json import listed, state_of, whole
from gateway.api.shapes import MAX_TAGS, TAG_KEY
from gateway.api.story_json import told
from gateway.errors import InvalidRequest, Issue, NotFound, ReconnectNeeded, Unavailable, told_together
from gateway.services import SERVICES
from gateway.store import ListFilter, cursor_after
from middleware.facts import CALLER, ENVIRONMENT
from middleware.scope import needs

FILTERS: Final = (
    "connectionId",
    "search",
    "endUserId",
    "endUserOrganizationId",
    "integrationId",
    "limit",
    "page",
    "cursor",
)
TRUTHS: Final = ("force_refresh", "refresh_token", "refresh_github_app_jwt_token")
READ: Final = "environment:connections:read"
READ_CREDENTIALS: Final = "environment:connections:read_credentials"
MOST: Final = 2000
WITHOUT_LIMIT: Final = 10_000
NOT_RENEWED: Final = "Gateway-Refresh-Failed"  # the answer is 200 all the same: the token in it is still valid


@needs("environment:connections:list", limits=True)
async def list_connections(request: web.Request) -> web.Response:
    empty_body(request)
    query = query_of(request, FILTERS, nested=("tags",), numbers={"limit": (1, MOST), "page": (0, 10**9)})
    limit, page = number(query, "limit"), number(query, "page")
    if page is not None and "cursor" in query:
        raise wrong_query("page", "Give either 'page' or 'cursor'.")
    wanted = ListFilter(
        connection_id=query.get("connectionId"),
        search=query.get("search"),
        end_user_id=query.get("endUserId"),
        organization_id=query.get("endUserOrganizationId"),
        integration_ids=tuple(key.strip() for key in query.get("integrationId", "").split(",") if key.strip()),
        tags=_tags(request),
        within=request[CALLER].policy.limits,
        limit=(limit or WITHOUT_LIMIT) + 1,
        offset=(page or 0) * (limit or WITHOUT_LIMIT),
        cursor=query.get("cursor"),
    )
    services = request.app[SERVICES]
    found = await services.store.connections.list(request[ENVIRONMENT].name, wanted)
    shown = found[: limit or WITHOUT_LIMIT]
    body: dict[str, Any] = {"connections": [listed(one) for one in shown]}
    if len(found) > len(shown):
        body["next_cursor"] = cursor_after(shown[-1])
    return web.json_response(body)


@needs("environment:connections:read", CONNECT, limits=True)
async def get_connection(request: web.Request) -> web.Response:
    """One connection with its credentials, renewed where needed (requirement 8)."""
    empty_body(request)
    query = query_of(request, ("provider_config_key", "include", *TRUTHS), truths=TRUTHS)
    with_history = _includes_history(query)
    services = request.app[SERVICES]
    ref = await ref_of(request, services, query)
    policy, key_id = request[CALLER].policy, request[CALLER].key_id
    with_refresh_token = truth(query, "refresh_token")
    force = truth(query, "force_refresh")
    readable, revealed = policy.allows(READ), policy.allows(READ_CREDENTIALS)
    if not revealed and (force or with_refresh_token):
        raise lacking(READ_CREDENTIALS)
    await services.store.connections.touch_fetched(ref, now=clock.now())
    try:
        connection, not_renewed = await services.live.current(ref, force=force)
    except NotFound as fault:
        raise await services.links.with_remedy(fault, policy, ref, key_id=key_id) from fault
    except (ReconnectNeeded, Unavailable) as fault:
        row = await services.store.connections.get(ref)
        if row is None:
            raise
        remedied = await services.links.with_remedy(fault, policy, ref, key_id=key_id)
        # A copy: the fault itself may be told to others who waited for the same renewal.
        shown = whole(services.store, row, credentials=False)
        if with_history:
            shown |= await told(services, row)
        raise with_more(remedied, {"connection": shown if readable else state_of(row)}) from fault
    headers = {NOT_RENEWED: not_renewed.code} if not_renewed else {}
    if not readable:  # who may only create sessions sees what became of them
        return web.json_response(state_of(connection), headers=headers)
    shown = whole(services.store, connection, credentials=revealed, with_refresh_token=with_refresh_token)
    if with_history:
        shown |= await told(services, connection)
    return web.json_response(shown, headers=headers)


@needs("environment:connections:delete", limits=True)
async def delete_connection(request: web.Request) -> web.Response:
    """Here at once, and its tokens at the provider; what became of each of these is told."""
    empty_body(request)
    query = query_of(request, ("provider_config_key", "revoke"), truths=("revoke",))
    services = request.app[SERVICES]
    ref = await ref_of(request, services, query)
    at_provider = "revoke" not in query or truth(query, "revoke")
    deleted = await services.deleter.delete(ref, at_provider=at_provider)
    if deleted is None:
        raise NotFound(
            "unknown_connection",
            f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was deleted.",
        )
    outcomes = [one.as_json() for one in deleted.revocation if one.outcome != "not_offered"]
    told = {"success": True, "at_provider": deleted.at_provider}
    return web.json_response({**told, **({"revocation": outcomes} if outcomes else {})})


def _tags(request: web.Request) -> dict[str, str]:
    """Of ``tags[<key>]=<value>``, keys in lower case. Raises InvalidRequest for what no tag could be."""
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
        raise InvalidRequest("invalid_query_params", told_together(issues), errors=issues)
    return tags


def _includes_history(query: dict[str, str]) -> bool:
    if query.get("include", "history") != "history":
        raise wrong_query("include", "It may be 'history'.")
    return "include" in query
