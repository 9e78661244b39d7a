"""Writes and parses a position, for the resume cursor; points a request at the page of a position."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, fields
from typing import Final
from urllib.parse import quote

from gateway.http.origin import covers
from gateway.http.paging.next_page import place_of
from gateway.http.url import with_query
from gateway.records.proxied_call import PagingScheme, Position, UpstreamRequest

VERSION: Final = 1
_KNOWN: Final = frozenset(field.name for field in fields(PagingScheme))


class OffLimits(Exception):
    """The page is on an origin that must not get the credential: `origin`."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin


def digest_of(*parts: str) -> str:
    """Return a digest of everything that identifies a call: 128 bits in hex."""
    framed = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def encode_position(position: Position, request_digest: str) -> str:
    """Return the position as text; the caller encrypts it before sending it out."""
    way = {name: value for name, value in asdict(position.way).items() if value is not None}
    of_body = {"body": position.body_digest} if position.body_digest else {}
    sealed = {"v": VERSION, "for": request_digest, **of_body, "way": way, "at": position.at}
    return json.dumps(sealed, separators=(",", ":"))


def read(text: str, request_digest: str) -> Position:
    """Parse the output of `encode_position`. Raises ValueError, whose message continues a sentence that begins with the
    header's name."""
    position = json.loads(text)
    if position.get("v") != VERSION or not position["way"].keys() <= _KNOWN:
        raise ValueError("was made by another version of the gateway; start again with the first page")
    if position["for"] != request_digest:
        raise ValueError("belongs to another request; send the path, query and connection of the first request")
    return Position(PagingScheme(**position["way"]), position["at"], position.get("body", ""))


def point_at_page(
    upstream: UpstreamRequest, position: Position, allowed_origins: Collection[str], first_path: str = ""
) -> None:
    """Set the URL of `upstream` to the page at `position`; `list_body` handles positions in a body. `first_path`: path
    of the caller's request, below the base URL.

    Raises OffLimits, and ValueError if the position is not a valid URL.
    """
    way = position.way
    if way.in_body:
        if way.next_path_in_request is not None:
            path = way.next_path_in_request.replace("{path}", first_path)
            upstream.target = place_of(f"{upstream.origin}{upstream.base_path}{path}").target
        return
    if way.type == "link":
        place = place_of(position.at)
        if not covers(allowed_origins, place.origin):
            raise OffLimits(place.origin)
        upstream.scheme, upstream.host, upstream.port = place.scheme, place.host, place.port
        upstream.target = place.target
        if not place.target.startswith(upstream.base_path):
            upstream.base_path = ""
        return
    name = way.cursor_name_in_request if way.type == "cursor" else way.offset_name_in_request
    assert name is not None  # a `PagingScheme` has all names that its type needs
    set_query(upstream, name, position.at)


def set_query(upstream: UpstreamRequest, name: str, value: str) -> None:
    """Set `name` in the query, replacing it in any spelling; the other pairs stay byte for byte."""
    upstream.target = with_query(upstream.target, [(quote(name, safe=""), quote(value, safe=""))], ())
