"""Writes and parses positions in a list, for resume cursors.

Also sets the URL of a request to the page at a position.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, fields
from typing import Final
from urllib.parse import quote

from gateway.http.paging.next_page import parse_page_url
from gateway.http.url import with_query
from gateway.origin import covers
from gateway.records.proxied_call import PagingScheme, Position, UpstreamRequest

VERSION: Final = 1
_SCHEME_FIELDS: Final = frozenset(field.name for field in fields(PagingScheme))


class ForbiddenPageOrigin(Exception):
    """The page is on an origin that must not get the credential. `origin`: this origin."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin


def digest_of_request(*parts: str) -> str:
    """Return a digest of `parts`, which identify a call: 128 bits in hexadecimal."""
    framed_parts = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed_parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def encode_position(position: Position, request_digest: str) -> str:
    """Return the position as text. The caller must encrypt the text before the gateway sends it."""
    scheme_json = {name: value for name, value in asdict(position.scheme).items() if value is not None}
    body_entry = {"body": position.body_digest} if position.body_digest else {}
    members = {"v": VERSION, "for": request_digest, **body_entry, "way": scheme_json, "at": position.at}
    return json.dumps(members, separators=(",", ":"))


def decode_position(text: str, request_digest: str) -> Position:
    """Parse the output of `encode_position`.

    Raises ValueError; its message is the rest of a sentence that begins with the name of the header.
    """
    members = json.loads(text)
    if members.get("v") != VERSION or not members["way"].keys() <= _SCHEME_FIELDS:
        raise ValueError("was made by another version of the gateway; start again with the first page")
    if members["for"] != request_digest:
        raise ValueError("belongs to another request; send the path, query and connection of the first request")
    return Position(PagingScheme(**members["way"]), members["at"], members.get("body", ""))


def point_at_page(
    upstream: UpstreamRequest, position: Position, allowed_origins: Collection[str], first_path: str = ""
) -> None:
    """Set the URL of `upstream` to the page at `position`. For positions in a body, `list_body` sets the body.

    `first_path`: the path of the caller's request, below the base URL.

    Raises ForbiddenPageOrigin, and ValueError if the position is not a valid URL.
    """
    scheme = position.scheme
    if scheme.in_body:
        if scheme.next_path_in_request is not None:
            path = scheme.next_path_in_request.replace("{path}", first_path)
            upstream.target = parse_page_url(f"{upstream.origin}{upstream.base_path}{path}").target
        return
    if scheme.type == "link":
        page = parse_page_url(position.at)
        if not covers(allowed_origins, page.origin):
            raise ForbiddenPageOrigin(page.origin)
        upstream.scheme, upstream.host, upstream.port = page.scheme, page.host, page.port
        upstream.target = page.target
        if not page.target.startswith(upstream.base_path):
            upstream.base_path = ""
        return
    name = scheme.cursor_name_in_request if scheme.type == "cursor" else scheme.offset_name_in_request
    assert name is not None  # a `PagingScheme` has all names that its type needs
    set_query(upstream, name, position.at)


def set_query(upstream: UpstreamRequest, name: str, value: str) -> None:
    """Set the parameter `name` in the query to `value`.

    Replaces the parameter in any encoding; all other parameters keep their bytes.
    """
    upstream.target = with_query(upstream.target, [(quote(name, safe=""), quote(value, safe=""))], ())
