"""Reads the caller's whole body for a list that is requested by POST, and changes the body for each page."""

from dataclasses import replace
from typing import Final

from aiohttp import hdrs, web

from gateway.errors import BodyTooLarge, InvalidRequest, Issue
from gateway.http.paging.list_body import body_at, check_list_body, digest_of_body, first_body
from gateway.middleware.facts import PAGING, UPSTREAM
from gateway.middleware.wanted_response import PAGINATE, PAGINATE_FROM
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.caller_body import CallerBody
from gateway.records.proxied_call import Position

MAX_BYTES: Final = INLINE_BYTES


class PostedList:
    """A list that is requested by POST.

    `digest`: digest of the body as the caller sent it; a resume cursor is valid only with the same digest.
    `current_body`: the body that requests the current page.
    """

    def __init__(self, body: bytes, first_page_body: bytes) -> None:
        self.digest = digest_of_body(body)
        self._first_page_body = self.current_body = first_page_body

    def body_for(self, position: Position) -> bytes:
        """Set `current_body` to the body that requests the page at `position`, and return it."""
        self.current_body = body_at(self._first_page_body, position)
        return self.current_body


async def read_posted_list(request: web.Request, upload: CallerBody) -> PostedList | None:
    """Change the body of `upload`, so that it requests the first page of `request[PAGING]`.

    Return None if the list is not requested by POST. Raises BodyTooLarge, and InvalidRequest ``invalid_headers`` if the
    body or the resume cursor does not match the request.
    """
    paging = request[PAGING]
    if not paging.lists_by_post:
        return None
    body = await upload.read_whole(MAX_BYTES)
    if body is None:
        raise BodyTooLarge(
            "body_too_large",
            f"The body of a paged POST may have at most {MAX_BYTES >> 10} KiB, because it is sent for each page.",
            close=True,
        )
    content_type, coding = (
        request[UPSTREAM].headers.get(name, "") for name in (hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING)
    )
    try:
        paging = request[PAGING] = replace(paging, schemes=check_list_body(body, content_type, coding, paging.schemes))
    except ValueError as fault:
        raise _invalid_header(PAGINATE, str(fault)) from fault
    posted_list = PostedList(body, first_body(body, paging.schemes, paging.limit))
    start_position = paging.start
    if start_position is not None and start_position.body_digest != posted_list.digest:
        raise _invalid_header(PAGINATE_FROM, "belongs to another request; send the body of the first request")
    upload.replace(posted_list.current_body if start_position is None else posted_list.body_for(start_position))
    return posted_list


def _invalid_header(header: str, fault: str) -> InvalidRequest:
    message = f"{header} {fault}."
    return InvalidRequest("invalid_headers", message, errors=[Issue("invalid_format", message, (header.lower(),))])


def with_body_digest(position: Position, posted_list: PostedList | None) -> Position:
    """Return `position` with the digest of the caller's body, for a resume cursor."""
    return position if posted_list is None else replace(position, body_digest=posted_list.digest)
