"""Reads how the caller wants the response: with all pages of a list, only a part of the response, or decoded."""

import re
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from gateway.catalog.pagination import InvalidPagination, PaginationOptions, paging_schemes
from gateway.connections.opened import OpenedConnection
from gateway.errors import InvalidRequest, Issue
from gateway.http.content_coding import Decoder
from gateway.http.headers import RANGES
from gateway.http.paging.list_body import BODY_BOUND_FIELDS
from gateway.http.paging.paginate_header import PaginateHeader, parse_paginate_header
from gateway.http.paging.resume_position import (
    ForbiddenPageOrigin,
    decode_position,
    digest_of_request,
    point_at_page,
    set_query,
)
from gateway.http.proxy_options import ProxyOptions, sent_once, wrong_header
from gateway.http.url import parameter_name
from gateway.middleware.facts import CONNECTION, DECODER, PAGING, PROXY_OPTIONS, SHAPE, UPSTREAM
from gateway.records.proxied_call import Paging, PagingScheme, Position, ResponseShape, UpstreamRequest
from gateway.runtime import generation_of
from gateway.vault import VaultError

# ── ``Gateway-Paginate: all`` fetches all pages of a list.
#
# A POST counts as a request for a list only if the provider's entry or the caller declares that. The handler reads the
# body of the POST after the request has been accepted.

PAGINATE: Final = "Gateway-Paginate"
PAGINATE_FROM: Final = "Gateway-Paginate-From"
ALL_PAGES: Final = PaginateHeader(None, {})


@web.middleware
async def paginate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set PAGING, and change UPSTREAM so that it requests the first page, or the page in ``Gateway-Paginate-From``.

    Raises InvalidRequest ``invalid_headers``.
    """
    header_text, cursor = sent_once(request.headers, PAGINATE), sent_once(request.headers, PAGINATE_FROM)
    if not header_text and not cursor:
        return await handler(request)
    by_post = request.method == hdrs.METH_POST
    if not by_post and (request.method != hdrs.METH_GET or request.body_exists):
        raise wrong_header(PAGINATE, "works only for a GET without a body and for a POST that requests a list")
    header = _parse_header(header_text) if header_text else ALL_PAGES
    opened, upstream = request[CONNECTION], request[UPSTREAM]
    below_base = upstream.target.removeprefix(upstream.base_path)
    digest = digest_of_request(*opened.connection.ref, upstream.origin, below_base)
    start_position = _start_position(request, cursor, digest) if cursor else None
    schemes = (
        [start_position.scheme]
        if start_position is not None
        else _paging_schemes(opened, header, below_base, by_post=by_post)
    )
    path = below_base.partition("?")[0]
    if header.limit is not None and (start_position is None or start_position.scheme.type != "link"):
        _set_limit(upstream, schemes, header.limit)
    if start_position is not None:
        if bool(start_position.scheme.in_body) != by_post:
            raise wrong_header(PAGINATE_FROM, "belongs to another request; send the method of the first request")
        _continue_from(upstream, start_position, opened, path)
    elif by_post:
        pass  # the handler writes limit and position into the body (proxy/posted_list.py)
    elif (
        schemes[0].offset_name_in_request is not None
        and schemes[0].offset_start_value is not None
        and len(schemes) == 1
    ):
        _set_first_offset(upstream, schemes[0].offset_name_in_request, schemes[0].offset_start_value)
    for name in (*RANGES, *(BODY_BOUND_FIELDS if by_post else ())):
        upstream.headers.popall(name, None)
    if any("ndjson" in value for value in upstream.headers.getall(hdrs.ACCEPT, ())):
        upstream.headers.popall(hdrs.ACCEPT)  # addressed to the gateway: no provider sends lists in NDJSON
    has_cursor_path = any(name.startswith("cursor_path") for name in header.fields)
    limit = header.limit if by_post else None
    request[PAGING] = Paging(header.pages, schemes, start_position, header.marks, digest, has_cursor_path, path, limit)
    return await handler(request)


def _parse_header(text: str) -> PaginateHeader:
    try:
        return parse_paginate_header(text)
    except ValueError as fault:
        raise wrong_header(PAGINATE, str(fault)) from fault


def _start_position(request: web.Request, cursor: str, digest: str) -> Position:
    try:
        return decode_position(generation_of(request).page_cursors.open(cursor), digest)
    except VaultError as fault:
        raise wrong_header(PAGINATE_FROM, "is not a valid cursor; send it exactly as a trailer returned it") from fault
    except ValueError as fault:
        raise wrong_header(PAGINATE_FROM, str(fault)) from fault


def _paging_schemes(
    opened: OpenedConnection, header: PaginateHeader, below_base: str, *, by_post: bool
) -> list[PagingScheme]:
    path, _, query = below_base.partition("?")
    names = {parameter_name(pair) for pair in query.split("&")} if query else set()
    proxy = opened.provider.proxy
    try:
        options = PaginationOptions(path, names, header.fields, by_post)
        return paging_schemes(proxy.paginate, proxy.paginate_alternatives or (), options)
    except InvalidPagination as fault:
        raise wrong_header(PAGINATE, *fault.faults) from fault


def _set_limit(upstream: UpstreamRequest, schemes: list[PagingScheme], limit: int) -> None:
    names = dict.fromkeys(
        scheme.limit_name_in_request for scheme in schemes if scheme.limit_name_in_request is not None
    )
    if not names:
        raise wrong_header(
            PAGINATE,
            "has a limit, but limit_name_in_request is not known; give it, or put the limit into the query or the body",
        )
    if not schemes[0].in_body:
        set_query(upstream, next(iter(names)), str(limit))


def _continue_from(upstream: UpstreamRequest, position: Position, opened: OpenedConnection, path: str) -> None:
    try:
        point_at_page(upstream, position, opened.allowed_origins | {opened.base.origin}, path)
    except ForbiddenPageOrigin as fault:
        raise wrong_header(
            PAGINATE_FROM, f"leads to {fault.origin}, to which this credential may not be sent"
        ) from fault


def _set_first_offset(upstream: UpstreamRequest, name: str, offset: int) -> None:
    query = upstream.target.partition("?")[2]
    if name not in {parameter_name(pair) for pair in query.split("&")}:
        set_query(upstream, name, str(offset))


# ── A part of a JSON response: ``Gateway-Select``, ``Gateway-Max-Bytes``.

SELECT_HEADER: Final = "Gateway-Select"
MAX_BYTES_HEADER: Final = "Gateway-Max-Bytes"
MAX_SELECT_CHARS: Final = 512
MIN_RESPONSE_BYTES: Final = 100
MAX_RESPONSE_BYTES: Final = 1 << 20
_BYTES: Final = re.compile(r"[0-9]{1,7}")


@web.middleware
async def shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read which part of the response the caller wants, and set SHAPE and DECODER.

    Raises InvalidRequest ``invalid_headers``.
    """
    expression, max_bytes = sent_once(request.headers, SELECT_HEADER), sent_once(request.headers, MAX_BYTES_HEADER)
    if not expression and not max_bytes:
        return await handler(request)
    if PAGING in request:
        raise wrong_header(
            SELECT_HEADER if expression else MAX_BYTES_HEADER,
            "cannot be combined with Gateway-Paginate, whose records are sent one by one",
        )
    select = None
    if expression:
        from gateway.http.json_select import UnusableExpression, parse_expression  # only such calls need this

        if len(expression) > MAX_SELECT_CHARS:
            raise wrong_header(SELECT_HEADER, f"has more than {MAX_SELECT_CHARS} characters")
        try:
            select = parse_expression(expression, SELECT_HEADER)
        except UnusableExpression as fault:
            issue = Issue("invalid_format", str(fault), (SELECT_HEADER.lower(),))
            raise InvalidRequest("invalid_headers", issue.message, errors=[issue]) from fault
    limit_bytes = MAX_RESPONSE_BYTES
    if max_bytes:
        if not _BYTES.fullmatch(max_bytes) or not MIN_RESPONSE_BYTES <= int(max_bytes) <= MAX_RESPONSE_BYTES:
            raise wrong_header(
                MAX_BYTES_HEADER, f"must be a whole number from {MIN_RESPONSE_BYTES} to {MAX_RESPONSE_BYTES}"
            )
        limit_bytes = int(max_bytes)
    for name in RANGES:
        request[UPSTREAM].headers.popall(name, None)
    request[DECODER] = Decoder()
    request[SHAPE] = ResponseShape(select, limit_bytes)
    return await handler(request)


# ── The response's coding: unchanged, or decoded if the entry or the caller requests it.


@web.middleware
async def decompress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set DECODER if the response is to be decoded. `forward` reads the actual content coding from the response."""
    if wants_decoding(request[PROXY_OPTIONS], request[CONNECTION]):
        request[DECODER] = Decoder()
    return await handler(request)


def wants_decoding(options: ProxyOptions, opened: OpenedConnection) -> bool:
    """Return whether the response is to be decoded: as the caller's header says, else as the provider's entry says."""
    return bool(opened.provider.proxy.decompress) if options.decompress is None else options.decompress
