"""`GET /providers/{provider}/operations`: the catalog's operations of a provider's API (docs/catalog.md)."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import Final, cast

from aiohttp import web

from gateway.api import responses
from gateway.api.providers import listing_response, provider_in_path
from gateway.api.request_body import query_number, read_query, require_empty_body, wrong_query
from gateway.catalog.api_operations import RISKS, ApiOperation, api_operation_json, provenance, scopes_json
from gateway.catalog.listing import ListingBody, cursor_after, name_in
from gateway.catalog.yaml_file import UnreadableFile
from gateway.errors import NotFound
from gateway.middleware.key_limits import needs
from gateway.runtime import generation_of

MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100


@needs(limits=True)
async def list_operations(request: web.Request) -> web.Response:
    """List the operations of a provider's API, in the order of the catalog's file. Raises NotFound, InvalidRequest."""
    parameter_names = ("search", "risk", "scope", "starter", "granted", "limit", "cursor")
    query = read_query(request, parameter_names, numbers={"limit": (1, MAX_LIMIT)})
    require_empty_body(request)
    name = request.match_info["provider"]
    provider_in_path(request)
    if (risk := query.get("risk")) is not None and risk not in RISKS:
        raise wrong_query("risk", f"'risk' may be {', '.join(RISKS)}.")
    if query.get("starter", "true") != "true":
        raise wrong_query("starter", "'starter' may be 'true'.")
    try:
        provider_operations = await asyncio.to_thread(generation_of(request).catalog.operations, name)
    except UnreadableFile as fault:
        raise NotFound(
            "not_found",
            f"The operations of {name!r} cannot be read. Run `gateway catalog lint` on your catalog folder.",
        ) from fault
    if provider_operations is None:
        raise NotFound("not_found", f"The catalog has no operations of {name!r}. You can still call its API.")
    operations = provider_operations.find(query.get("search", ""), risk, query.get("scope"), starter="starter" in query)
    page, has_more = _operations_page(operations, query.get("cursor"), query_number(query, "limit") or DEFAULT_LIMIT)
    prefix = provider_operations.prefix
    body: responses.ApiOperationList = {
        "data": [cast(responses.ApiOperationJson, api_operation_json(operation, prefix)) for operation in page],
        "source": provenance(provider_operations),
        "scopes": cast(responses.OperationScopes, scopes_json(provider_operations, operations, query.get("granted"))),
    }
    if has_more:
        body["next_cursor"] = cursor_after(page[-1].id)
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return listing_response(request, ListingBody(content, hashlib.sha256(content).hexdigest()[:32]))


def _operations_page(
    operations: Sequence[ApiOperation], cursor: str | None, limit: int
) -> tuple[Sequence[ApiOperation], bool]:
    """Return at most `limit` operations after `cursor`, and whether more follow. Raises InvalidRequest."""
    start = 0
    if cursor:
        try:
            start = [operation.id for operation in operations].index(name_in(cursor)) + 1
        except ValueError:
            raise wrong_query(
                "cursor", "Invalid cursor: send next_cursor unchanged and with the same filters."
            ) from None
    page = operations[start : start + limit]
    return page, start + limit < len(operations)
