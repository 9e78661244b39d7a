"""Whether one answer is asked for or a whole list: ``Gateway-Paginate: all`` has all its pages fetched."""

from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.catalog.pagination import BadWay, PaginationOptions, ways_of
from gateway.connections.opened import Opened
from gateway.errors import InvalidRequest, Issue
from gateway.http.paging.paginate_header import PaginateHeader, parse_wish
from gateway.http.paging.resume_position import OffLimits, aim, digest_of, read, set_query
from gateway.http.url import name_of
from gateway.middleware.facts import CONNECTION, PAGING, UPSTREAM
from gateway.records.proxied_call import Paging, Position, UpstreamRequest, Way
from gateway.runtime import generation_of
from gateway.vault import VaultError

HEADER: Final = "Gateway-Paginate"
FROM: Final = "Gateway-Paginate-From"
ALL: Final = PaginateHeader(None, {})
_OF_PARTS: Final = (hdrs.RANGE, hdrs.IF_RANGE)  # a part of a page is no JSON


@web.middleware
async def paginate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn PAGING, and let UPSTREAM ask for the page to begin with. Raises InvalidRequest ``invalid_headers``."""
    wanted, begin = _once(request, HEADER), _once(request, FROM)
    if not wanted and not begin:
        return await handler(request)
    if request.method != hdrs.METH_GET or request.body_exists:
        raise _bad(HEADER, "goes with a GET without a body only; other requests are sent one by one")
    wish = _wish(wanted) if wanted else ALL
    opened, upstream = request[CONNECTION], request[UPSTREAM]
    below_base = upstream.target.removeprefix(upstream.base_path)
    digest = digest_of(*opened.connection.ref, upstream.origin, below_base)
    start = _start(request, begin, digest) if begin else None
    ways = [start.way] if start is not None else _ways(opened, wish, below_base)
    if wish.limit is not None and (start is None or start.way.type != "link"):
        _limit(upstream, ways, wish.limit)
    if start is not None:
        _go_on(upstream, start, opened)
    elif ways[0].offset_name_in_request is not None and ways[0].offset_start_value is not None and len(ways) == 1:
        _count_from(upstream, ways[0].offset_name_in_request, ways[0].offset_start_value)
    for name in _OF_PARTS:
        upstream.headers.popall(name, None)
    if any("ndjson" in value for value in upstream.headers.getall(hdrs.ACCEPT, ())):
        upstream.headers.popall(hdrs.ACCEPT)  # meant for us, and no provider's list comes like that
    named = any(name.startswith("cursor_path") for name in wish.fields)
    request[PAGING] = Paging(wish.pages, ways, start, wish.marks, digest, named)
    return await handler(request)


def _once(request: web.Request, name: str) -> str:
    """Its value, empty if there is none."""
    values = request.headers.getall(name, ())
    if len(values) > 1:
        raise _bad(name, f"is there {len(values)} times; send it once")
    return values[0].strip() if values else ""


def _wish(text: str) -> PaginateHeader:
    try:
        return parse_wish(text)
    except ValueError as fault:
        raise _bad(HEADER, str(fault)) from fault


def _start(request: web.Request, token: str, digest: str) -> Position:
    try:
        return read(generation_of(request).page_cursors.open(token), digest)
    except VaultError as fault:
        raise _bad(FROM, "is no cursor of ours; send it exactly as a trailer gave it") from fault
    except ValueError as fault:
        raise _bad(FROM, str(fault)) from fault


def _ways(opened: Opened, wish: PaginateHeader, below_base: str) -> list[Way]:
    path, _, query = below_base.partition("?")
    names = {name_of(pair) for pair in query.split("&")} if query else set()
    proxy = opened.provider.proxy
    try:
        return ways_of(proxy.paginate, proxy.paginate_alternatives or (), PaginationOptions(path, names, wish.fields))
    except BadWay as wrong:
        raise _bad(HEADER, *wrong.faults) from wrong


def _limit(upstream: UpstreamRequest, ways: list[Way], limit: int) -> None:
    names = dict.fromkeys(way.limit_name_in_request for way in ways if way.limit_name_in_request is not None)
    if not names:
        raise _bad(
            HEADER, "has a limit, but limit_name_in_request is not known; give it, or put the limit into the query"
        )
    set_query(upstream, next(iter(names)), str(limit))


def _go_on(upstream: UpstreamRequest, start: Position, opened: Opened) -> None:
    try:
        aim(upstream, start, opened.allowed_origins | {opened.base.origin})
    except OffLimits as fault:
        raise _bad(FROM, f"leads to {fault.origin}, where this credential does not travel (any more)") from fault


def _count_from(upstream: UpstreamRequest, name: str, first: int) -> None:
    query = upstream.target.partition("?")[2]
    if name not in {name_of(pair) for pair in query.split("&")}:
        set_query(upstream, name, str(first))


def _bad(header: str, *faults: str) -> InvalidRequest:
    issues = [Issue("invalid_format", f"{header} {fault}.", (header.lower(),)) for fault in faults]
    return InvalidRequest("invalid_headers", " ".join(issue.message for issue in issues), errors=issues)
