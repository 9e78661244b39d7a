"""The cursors with which a model pages through a list, made from the catalog entry and the previous page. No I/O.

A page is an ordinary call whose target is in the cursor. So the key's rules apply to it as to any call, and its result
has the form of the first page. If a page was cut, the cursor continues after the items already shown.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.catalog.api_operations import ApiOperation
from gateway.catalog.pagination import InvalidPagination, PaginationOptions, applies_to_path, paging_schemes
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Paginate
from gateway.connections.opened import Opened
from gateway.errors import UpstreamFailed
from gateway.http.headers import Fields
from gateway.http.paging.next_page import PageUrl, parse_page
from gateway.http.paging.resume_position import ForbiddenPageOrigin, point_at_page
from gateway.http.url import parameter_name
from gateway.records.proxied_call import Position, UpstreamRequest
from gateway.vault import SealedTokens, VaultError

KEPT_S: Final = 3600.0
LONGEST: Final = 8192  # maximum length of a target in a cursor


@dataclass(slots=True)
class NextPage:
    """The page that a cursor requests.

    `target`: path and query below the provider's base URL. `skip`: number of items of its list already shown.
    """

    target: str
    skip: int = 0


def sealed(page: NextPage, seals: SealedTokens, key_id: str, call: str) -> str:
    """Return the cursor, valid for this key and this call, for `KEPT_S`. `call`: digest that identifies the call."""
    ends_at = int((clock.now() + timedelta(seconds=KEPT_S)).timestamp())
    return seals.seal(json.dumps([key_id, call, ends_at, page.target, page.skip], separators=(",", ":")))


def opened_cursor(cursor: str, seals: SealedTokens, key_id: str, call: str) -> NextPage | None:
    """Return the page that the cursor requests; None if it is not ours, belongs to another call, or has expired."""
    try:
        for_key, of_call, ends_at, target, skip = json.loads(seals.open(cursor))
    except (VaultError, ValueError, TypeError):
        return None
    if (for_key, of_call) != (key_id, call) or ends_at <= clock.now().timestamp():
        return None
    return NextPage(target, skip)


def is_list(provider: Provider | None, path: str, details: ApiOperation | None) -> bool:
    """Return whether a GET of `path`, which ends in a literal segment, may be a list that the entry can page."""
    if provider is None:
        return False
    ways = [way for way in _all_ways(provider) if not way.in_body and way.type != "graphql"]
    if details is None or not details.query:
        return bool(ways)
    return any(
        way.type == "link"
        or (way.applies_to is not None and applies_to_path(way.applies_to, path))
        or {way.cursor_name_in_request, way.offset_name_in_request, way.limit_name_in_request} & set(details.query)
        for way in ways
    )


def _all_ways(provider: Provider) -> Sequence[Paginate]:
    return [way for way in (provider.proxy.paginate, *(provider.proxy.paginate_alternatives or ())) if way is not None]


def page_behind(
    opened: Opened, target: str, body: bytes, fields: Fields, shown_at: str
) -> tuple[str, str | None] | None:
    """Return the dotted path of the list in `body`, the response to `target`, and the next page's target, None at the
    end.

    Return None if the response is not a list that can be paged. `shown_at`: the gateway's URL that replaces the base
    URL in links.
    """
    path, _, query = target.partition("?")
    proxy, base = opened.provider.proxy, opened.base
    names = {parameter_name(pair) for pair in query.split("&")} if query else set()
    try:
        options = PaginationOptions(path, names, {})
        ways = paging_schemes(proxy.paginate, proxy.paginate_alternatives or (), options)
        here = PageUrl(base.scheme, base.host, base.port, base.path + target, None)
        turn = parse_page(body, fields, ways, here)
    except (InvalidPagination, UpstreamFailed, ValueError):
        return None
    if not len(turn.records):
        return None
    return turn.paging.response_path or "", None if turn.next is None else _target(opened, target, turn.next, shown_at)


def _target(opened: Opened, target: str, following: Position, shown_at: str) -> str | None:
    base = opened.base
    if following.way.type == "link" and following.at.startswith(shown_at):
        found = following.at.removeprefix(shown_at)
    else:
        request = UpstreamRequest("GET", base.scheme, base.host, base.port, base.path + target, base_path=base.path)
        try:
            point_at_page(request, following, {base.origin})
        except (ForbiddenPageOrigin, ValueError):
            return None
        if request.origin != base.origin or not request.target.startswith(base.path):
            return None
        found = request.target.removeprefix(base.path)
    return found if found.startswith(("/", "?")) and len(found) <= LONGEST and found != target else None


def items_at(value: Any, path: str) -> list[Any] | None:
    """Return the list at a dotted path (empty: the value itself), or None if there is no list."""
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def without_shown(body: bytes, path: str, skip: int) -> bytes:
    """Return `body` without the first `skip` items of its list; unchanged if it has no such list."""
    value = json.loads(body)
    items = items_at(value, path)
    if items is None:
        return body
    del items[:skip]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
