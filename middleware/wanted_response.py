"""Reads what the caller wants of the response: all pages of a list, a part of it, or decoding."""

import re
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.catalog.pagination import InvalidPagination, PaginationOptions, paging_schemes
from gateway.connections.opened import Opened
from gateway.http.content_coding import Decoder
from gateway.http.headers import RANGES
from gateway.http.paging.list_body import STALE
from gateway.http.paging.paginate_header import PaginateHeader, parse_paginate_header
from gateway.http.paging.resume_position import OffLimits, digest_of, point_at_page, read, set_query
from gateway.http.proxy_options import sent_once, wrong_header
from gateway.http.url import name_of
from gateway.middleware.facts import ASKED, CONNECTION, DECODER, PAGING, SHAPE, UPSTREAM
from gateway.records.proxied_call import Paging, PagingScheme, Position, ResponseShape, UpstreamRequest
from gateway.runtime import generation_of
from gateway.vault import VaultError

# ── ``Gateway-Paginate: all`` fetches all pages of a list.
#
# A POST is treated as a list only if the provider's entry or the caller declares it; the handler reads its body after
# the request has been admitted.

PAGINATE: Final = "Gateway-Paginate"
PAGINATE_FROM: Final = "Gateway-Paginate-From"
ALL_PAGES: Final = PaginateHeader(None, {})


@web.middleware
async def paginate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set PAGING, and make UPSTREAM request the first page. Raises InvalidRequest ``invalid_headers``."""
    wanted, begin = sent_once(request.headers, PAGINATE), sent_once(request.headers, PAGINATE_FROM)
    if not wanted and not begin:
        return await handler(request)
    posted = request.method == hdrs.METH_POST
    if not posted and (request.method != hdrs.METH_GET or request.body_exists):
        raise wrong_header(PAGINATE, "works only for a GET without a body and for a POST that requests a list")
    wish = _wish(wanted) if wanted else ALL_PAGES
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
            raise wrong_header(PAGINATE_FROM, "belongs to another request; send the method of the first request")
        _go_on(upstream, start, opened, path)
    elif posted:
        pass  # the handler counts in the body (proxy/posted_list.py)
    elif ways[0].offset_name_in_request is not None and ways[0].offset_start_value is not None and len(ways) == 1:
        _count_from(upstream, ways[0].offset_name_in_request, ways[0].offset_start_value)
    for name in (*RANGES, *(STALE if posted else ())):
        upstream.headers.popall(name, None)
    if any("ndjson" in value for value in upstream.headers.getall(hdrs.ACCEPT, ())):
        upstream.headers.popall(hdrs.ACCEPT)  # meant for us; no provider's list has this type
    named = any(name.startswith("cursor_path") for name in wish.fields)
    limit = wish.limit if posted else None
    request[PAGING] = Paging(wish.pages, ways, start, wish.marks, digest, named, path, limit)
    return await handler(request)


def _wish(text: str) -> PaginateHeader:
    try:
        return parse_paginate_header(text)
    except ValueError as fault:
        raise wrong_header(PAGINATE, str(fault)) from fault


def _start(request: web.Request, token: str, digest: str) -> Position:
    try:
        return read(generation_of(request).page_cursors.open(token), digest)
    except VaultError as fault:
        raise wrong_header(PAGINATE_FROM, "is not a valid cursor; send it exactly as a trailer returned it") from fault
    except ValueError as fault:
        raise wrong_header(PAGINATE_FROM, str(fault)) from fault


def _ways(opened: Opened, wish: PaginateHeader, below_base: str, *, posted: bool) -> list[PagingScheme]:
    path, _, query = below_base.partition("?")
    names = {name_of(pair) for pair in query.split("&")} if query else set()
    proxy = opened.provider.proxy
    try:
        options = PaginationOptions(path, names, wish.fields, posted)
        return paging_schemes(proxy.paginate, proxy.paginate_alternatives or (), options)
    except InvalidPagination as wrong:
        raise wrong_header(PAGINATE, *wrong.faults) from wrong


def _limit(upstream: UpstreamRequest, ways: list[PagingScheme], limit: int) -> None:
    names = dict.fromkeys(way.limit_name_in_request for way in ways if way.limit_name_in_request is not None)
    if not names:
        raise wrong_header(
            PAGINATE,
            "has a limit, but limit_name_in_request is not known; give it, or put the limit into the query or the body",
        )
    if not ways[0].in_body:
        set_query(upstream, next(iter(names)), str(limit))


def _go_on(upstream: UpstreamRequest, start: Position, opened: Opened, path: str) -> None:
    try:
        point_at_page(upstream, start, opened.allowed_origins | {opened.base.origin}, path)
    except OffLimits as fault:
        raise wrong_header(
            PAGINATE_FROM, f"leads to {fault.origin}, to which this credential may not be sent"
        ) from fault


def _count_from(upstream: UpstreamRequest, name: str, first: int) -> None:
    query = upstream.target.partition("?")[2]
    if name not in {name_of(pair) for pair in query.split("&")}:
        set_query(upstream, name, str(first))


# ── A part of a JSON response: ``Gateway-Select``, ``Gateway-Max-Bytes``.

SELECT: Final = "Gateway-Select"
MAX_BYTES: Final = "Gateway-Max-Bytes"
LONGEST_SELECT: Final = 512
LEAST_BYTES: Final = 100
MOST_BYTES: Final = 1 << 20
_BYTES: Final = re.compile(r"[0-9]{1,7}")


@web.middleware
async def shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set SHAPE, and DECODER with it. Raises InvalidRequest ``invalid_headers``."""
    expression, max_bytes = sent_once(request.headers, SELECT), sent_once(request.headers, MAX_BYTES)
    if not expression and not max_bytes:
        return await handler(request)
    if PAGING in request:
        raise wrong_header(
            SELECT if expression else MAX_BYTES,
            "cannot be combined with Gateway-Paginate, whose records are sent one by one",
        )
    select = None
    if expression:
        from gateway.http.json_select import UnfitExpression, parsed  # imported with the first such call

        if len(expression) > LONGEST_SELECT:
            raise wrong_header(SELECT, f"has more than {LONGEST_SELECT} characters")
        try:
            select = parsed(expression)
        except UnfitExpression as fault:
            raise wrong_header(SELECT, f"cannot be used: {fault}".rstrip(".")) from fault
    most = MOST_BYTES
    if max_bytes:
        if not _BYTES.fullmatch(max_bytes) or not LEAST_BYTES <= int(max_bytes) <= MOST_BYTES:
            raise wrong_header(MAX_BYTES, f"must be a whole number from {LEAST_BYTES} to {MOST_BYTES}")
        most = int(max_bytes)
    for name in RANGES:
        request[UPSTREAM].headers.popall(name, None)
    request[DECODER] = Decoder()
    request[SHAPE] = ResponseShape(select, most)
    return await handler(request)


# ── The response's coding: unchanged, or decoded if the entry or the caller requests it.


@web.middleware
async def decompress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set DECODER if the body is to be decoded: by the header, else by the entry. `forward` reads the actual coding
    from the response."""
    wanted = request[ASKED].decompress
    if wanted is None:
        wanted = bool(request[CONNECTION].provider.proxy.decompress)
    if wanted:
        request[DECODER] = Decoder()
    return await handler(request)
