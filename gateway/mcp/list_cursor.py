"""Creates and reads the cursors with which a model pages through a list. No I/O.

A cursor contains the target of the next page, which comes from the catalog entry and the previous page. The request for
the next page is an ordinary call to this target. So the key's rules apply as for any call, and the result looks like
the result for the first page. If a result was cut, its cursor continues on the same page, after the items already
shown.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from gateway import clock
from gateway.catalog.api_operations import ApiOperation
from gateway.catalog.pagination import InvalidPagination, PaginationOptions, applies_to_path, paging_schemes
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Paginate
from gateway.connections.opened import OpenedConnection
from gateway.errors import UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.paging.next_page import PageUrl, parse_page, parse_page_url
from gateway.http.paging.resume_position import ForbiddenPageOrigin, point_at_page
from gateway.http.url import parameter_name
from gateway.records.proxied_call import Position, UpstreamRequest
from gateway.vault import SealedTokens, VaultError

CURSOR_LIFETIME_S: Final = 3600.0
MAX_TARGET_CHARS: Final = 8192  # maximum length of a target in a cursor


@dataclass(slots=True)
class NextPage:
    """The page that a cursor requests.

    `target`: the path and query of the page, below the provider's base URL. `skip`: the number of items at the start of
    the page that were already shown. `previous`: the digest of the items of the page before (`FoundList.digest`).
    """

    target: str
    skip: int = 0
    previous: str | None = None


class FoundList(NamedTuple):
    """A list in a response.

    - `path`: the dotted path of the list
    - `length`: the number of its items
    - `target`: the target of the next page; None on the last page, or if the next page cannot be requested
    - `is_next_unusable`: whether there is a next page that cannot be requested
    - `digest`: identifies the items, if only an empty page ends the list; otherwise None. A request that ignores the
      offset returns the same items again and again.
    """

    path: str
    length: int
    target: str | None
    is_next_unusable: bool
    digest: str | None


def seal_cursor(page: NextPage, seals: SealedTokens, key_id: str, call_digest: str) -> str:
    """Return a cursor for `page`, which only this key can use, for this call, within `CURSOR_LIFETIME_S` seconds.

    `call_digest`: the digest that identifies the call.
    """
    ends_at = int((clock.now() + timedelta(seconds=CURSOR_LIFETIME_S)).timestamp())
    facts = [key_id, call_digest, ends_at, page.target, page.skip, page.previous]
    return seals.seal(json.dumps(facts, separators=(",", ":")))


def open_cursor(cursor: str, seals: SealedTokens, key_id: str, call_digest: str) -> NextPage | None:
    """Return the page that the cursor requests; None if the cursor is not valid.

    A cursor is valid only for its own key and call, until it expires.
    """
    try:
        for_key, of_call, ends_at, target, skip, *others = json.loads(seals.open(cursor))
    except (VaultError, ValueError, TypeError):
        return None
    if (for_key, of_call) != (key_id, call_digest) or ends_at <= clock.now().timestamp():
        return None
    return NextPage(target, skip, *others[:1])  # another release's cursor can have fewer or more values


def is_list(provider: Provider | None, path: str, details: ApiOperation | None) -> bool:
    """Return whether a GET of `path` can return a list that the catalog entry can page.

    `path` must end in a literal segment. `details`: the catalog's details of the operation; None if unknown.
    """
    if provider is None:
        return False
    schemes = [scheme for scheme in _all_schemes(provider) if not scheme.in_body and scheme.type != "graphql"]
    if details is None or not details.query:
        return bool(schemes)
    return any(
        scheme.type == "link"
        or (scheme.applies_to is not None and applies_to_path(scheme.applies_to, path))
        or {scheme.cursor_name_in_request, scheme.offset_name_in_request, scheme.limit_name_in_request}
        & set(details.query)
        for scheme in schemes
    )


def _all_schemes(provider: Provider) -> Sequence[Paginate]:
    return [
        scheme
        for scheme in (provider.proxy.paginate, *(provider.proxy.paginate_alternatives or ()))
        if scheme is not None
    ]


def find_list(
    opened: OpenedConnection, target: str, body: bytes, fields: Fields, gateway_base_url: str
) -> FoundList | None:
    """Return the list in `body`.

    Return None if `body` has no list that can be paged. `target`: the target of the request for this page. `body`,
    `fields`: the body and the header fields of the response. `gateway_base_url`: the gateway's URL, which replaces the
    provider's base URL in links.
    """
    path, _, query = target.partition("?")
    proxy, base = opened.provider.proxy, opened.base
    names = {parameter_name(pair) for pair in query.split("&")} if query else set()
    try:
        options = PaginationOptions(path, names, {})
        schemes = paging_schemes(proxy.paginate, proxy.paginate_alternatives or (), options)
        page_url = PageUrl(base.scheme, base.host, base.port, base.path + target, None)
        page_result = parse_page(body, fields, schemes, page_url)
    except (InvalidPagination, UpstreamFailed, ValueError):
        return None
    length = len(page_result.records)
    if not length and page_result.next is None and page_result.next_page_fault is None:
        return None
    next_target = None if page_result.next is None else _next_target(opened, target, page_result.next, gateway_base_url)
    is_next_unusable = page_result.next_page_fault is not None or (page_result.next is not None and next_target is None)
    if next_target == target:  # a last page can name itself
        next_target = None
    digest = page_result.records.digest if length and page_result.scheme.type == "offset" else None
    return FoundList(page_result.scheme.response_path or "", length, next_target, is_next_unusable, digest)


def _next_target(opened: OpenedConnection, target: str, next_position: Position, gateway_base_url: str) -> str | None:
    """Return the target of the next page; None if it is not below the base URL, or is too long."""
    base = opened.base
    # `parse_page_url` adds the port, as in `next_position.at`
    if next_position.scheme.type == "link" and next_position.at.startswith(
        link_base := parse_page_url(gateway_base_url).url
    ):
        next_target = next_position.at.removeprefix(link_base)
    else:
        request = UpstreamRequest("GET", base.scheme, base.host, base.port, base.path + target, base_path=base.path)
        try:
            point_at_page(request, next_position, {base.origin})
        except (ForbiddenPageOrigin, ValueError):
            return None
        if request.origin != base.origin or not request.target.startswith(base.path):
            return None
        next_target = request.target.removeprefix(base.path)
    return next_target if next_target.startswith(("/", "?")) and len(next_target) <= MAX_TARGET_CHARS else None


def items_at(value: Any, path: str) -> list[Any] | None:
    """Return the list at a dotted path in `value`; None if there is no list. An empty path means `value` itself."""
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def without_shown_items(body: bytes, path: str, skip: int) -> bytes:
    """Return `body` without the first `skip` items of the list at `path`; unchanged if there is no list at `path`."""
    value = json.loads(body)
    items = items_at(value, path)
    if items is None:
        return body
    del items[:skip]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
