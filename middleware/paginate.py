"""Whether one answer is requested or a whole list: ``Gateway-Paginate: all`` has all its pages fetched.

A POST is taken for a list only where the provider's entry or the caller says that it is one; its body is looked at by the
handler, when the request has been admitted.
"""

from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.catalog.pagination import BadWay, PaginationOptions, ways_of
from gateway.connections.opened import Opened
from gateway.http.headers import RANGES
from gateway.http.paging.list_body import STALE
from gateway.http.paging.paginate_header import PaginateHeader, parse_wish
from gateway.http.paging.resume_position import OffLimits, aim, digest_of, read, set_query
from gateway.http.proxy_options import sent_once, wrong_header
from gateway.http.url import name_of
from gateway.middleware.facts import CONNECTION, PAGING, UPSTREAM
from gateway.records.proxied_call import Paging, Position, UpstreamRequest, Way
from gateway.runtime import generation_of
from gateway.vault import VaultError

HEADER: Final = "Gateway-Paginate"
FROM: Final = "Gateway-Paginate-From"
ALL: Final = PaginateHeader(None, {})


@web.middleware
async def paginate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn PAGING, and let UPSTREAM ask for the page to begin with. Raises InvalidRequest ``invalid_headers``."""
    wanted, begin = sent_once(request.headers, HEADER), sent_once(request.headers, FROM)
    if not wanted and not begin:
        return await handler(request)
    posted = request.method == hdrs.METH_POST
    if not posted and (request.method != hdrs.METH_GET or request.body_exists):
        raise wrong_header(HEADER, "goes with a GET without a body, and with a POST that requests a list, only")
    wish = _wish(wanted) if wanted else ALL
    opened, upstream = request[CONNECTION], request[UPSTREAM]
    below_base = upstream.target.removeprefix(upstream.base_path)
    digest = digest_of(*opened.connection.ref, upstream.origin, below_base)
    start = _start(request, begin, digest) if begin else None
    ways = [start.way] if start is not None else _ways(opened, wish, below_base, posted=posted)
    path = below_base.partition("?")[0]
    if wish.limit is not None and (start is None or start.way.type != "link"):
        _limit(upstream, ways, wish.limit)
    if start is not None:
        if bool(start.way.in_body) != posted:
            raise wrong_header(FROM, "belongs to another request; send the same method as at first")
        _go_on(upstream, start, opened, path)
    elif posted:
        pass  # the handler counts in the body (proxy/posted_list.py)
    elif ways[0].offset_name_in_request is not None and ways[0].offset_start_value is not None and len(ways) == 1:
        _count_from(upstream, ways[0].offset_name_in_request, ways[0].offset_start_value)
    for name in (*RANGES, *(STALE if posted else ())):
        upstream.headers.popall(name, None)
    if any("ndjson" in value for value in upstream.headers.getall(hdrs.ACCEPT, ())):
        upstream.headers.popall(hdrs.ACCEPT)  # meant for us, and no provider's list comes like that
    named = any(name.startswith("cursor_path") for name in wish.fields)
    limit = wish.limit if posted else None
    request[PAGING] = Paging(wish.pages, ways, start, wish.marks, digest, named, path, limit)
    return await handler(request)


def _wish(text: str) -> PaginateHeader:
    try:
        return parse_wish(text)
    except ValueError as fault:
        raise wrong_header(HEADER, str(fault)) from fault


def _start(request: web.Request, token: str, digest: str) -> Position:
    try:
        return read(generation_of(request).page_cursors.open(token), digest)
    except VaultError as fault:
        raise wrong_header(FROM, "is no cursor of ours; send it exactly as a trailer gave it") from fault
    except ValueError as fault:
        raise wrong_header(FROM, str(fault)) from fault


def _ways(opened: Opened, wish: PaginateHeader, below_base: str, *, posted: bool) -> list[Way]:
    path, _, query = below_base.partition("?")
    names = {name_of(pair) for pair in query.split("&")} if query else set()
    proxy = opened.provider.proxy
    try:
        options = PaginationOptions(path, names, wish.fields, posted)
        return ways_of(proxy.paginate, proxy.paginate_alternatives or (), options)
    except BadWay as wrong:
        raise wrong_header(HEADER, *wrong.faults) from wrong


def _limit(upstream: UpstreamRequest, ways: list[Way], limit: int) -> None:
    names = dict.fromkeys(way.limit_name_in_request for way in ways if way.limit_name_in_request is not None)
    if not names:
        raise wrong_header(
            HEADER,
            "has a limit, but limit_name_in_request is not known; give it, or put the limit into the query or the body",
        )
    if not ways[0].in_body:
        set_query(upstream, next(iter(names)), str(limit))


def _go_on(upstream: UpstreamRequest, start: Position, opened: Opened, path: str) -> None:
    try:
        aim(upstream, start, opened.allowed_origins | {opened.base.origin}, path)
    except OffLimits as fault:
        raise wrong_header(
            FROM, f"leads to {fault.origin}, where this credential does not travel (any more)"
        ) from fault


def _count_from(upstream: UpstreamRequest, name: str, first: int) -> None:
    query = upstream.target.partition("?")[2]
    if name not in {name_of(pair) for pair in query.split("&")}:
        set_query(upstream, name, str(first))
