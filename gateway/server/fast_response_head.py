"""Composes the head of a response on the fast path, with the same result as `proxy.passed_response`."""

from functools import lru_cache
from typing import Final

from aiohttp import HttpVersion11
from aiohttp.helpers import rfc822_formatted_time

from gateway.http.headers import Fields, decoded_fields
from gateway.http.passed_head import (
    ATTEMPTS,
    SERVER_TIMING,
    PlainHead,
    framing,
    head_bytes,
    printable,
    server_timing,
    with_protection_fields,
)
from gateway.http.response_head import ResponseHead
from gateway.middleware.key_limits import rate_limit_fields
from gateway.middleware.response_shape import REQUEST_ID_FIELD, new_id
from gateway.middleware.who_calls import REFERRER_POLICY
from gateway.proxy.passed_response import (
    UNBUFFERED,
    is_live,
    passed_fields,
    with_gateway_referrer_policy,
)
from gateway.records.proxied_call import PROXY_PATH
from gateway.server.fast_plan import FastPlan

_OWN_LINES: Final = f"{REQUEST_ID_FIELD}: %s\r\n{ATTEMPTS}: 1\r\n{SERVER_TIMING}: %s"
_NO_REFERRER: Final = ": ".join(REFERRER_POLICY).encode()


def response_head(
    head: ResponseHead, plan: FastPlan, gateway_s: float, upstream_s: float, *, last: bool, decoded: bool = False
) -> tuple[bytes, bool]:
    """Return the head's bytes, and whether the body is to be sent chunked. Raises MalformedResponse.

    Sets `plan.request_id` if it is None. `gateway_s`, `upstream_s`: seconds spent in the gateway and at the provider.
    `last`: whether the connection closes after this response. `decoded`: whether the body is passed on decoded.
    """
    request_id = plan.request_id = plan.request_id or new_id()
    timing = server_timing(gateway_s * 1000, 0.0, upstream_s * 1000)
    if isinstance(head, PlainHead):
        if not decoded and plan.rate_state is None:
            if plan.mount != PROXY_PATH:
                head.lines = [line for line in head.lines if line[:16].lower() != b"referrer-policy:"] + [_NO_REFERRER]
            return _encode_plain_head(
                head,
                plan.method,
                _OWN_LINES % (request_id, timing),
                connection_in_headers=plan.mount == PROXY_PATH,
                last=last,
            )
        head = head.with_fields()
    fields = provider_fields(head, plan, decoded=decoded)
    if plan.mount != PROXY_PATH:
        fields = with_gateway_referrer_policy(fields)
    fields = with_protection_fields(fields, connection_in_headers=plan.mount == PROXY_PATH)
    if is_live(head.fields):
        fields.append(UNBUFFERED)
    if plan.rate_state is not None:
        fields += rate_limit_fields(plan.rate_state, fields)
    fields += [(REQUEST_ID_FIELD, request_id), (ATTEMPTS, "1"), (SERVER_TIMING, timing)]
    length = None if decoded else head.length
    frame = framing(plan.method, HttpVersion11, head.status, length, keep_alive=not last)
    fields += frame.fields
    if not any(len(name) == 4 and name.lower() == "date" for name, _ in fields):
        fields.append(_date_field())
    return head_bytes(HttpVersion11, head.status, printable(head.reason), fields), frame.chunked


def provider_fields(head: ResponseHead, plan: FastPlan, *, decoded: bool) -> Fields:
    """Return the fields of the provider's head that are passed on. Raises MalformedResponse."""
    opened = plan.opened
    fields = passed_fields(head.fields, opened.base, opened, plan.route.generation.public_url + plan.mount)
    return decoded_fields(fields) if decoded else fields


def _encode_plain_head(
    head: PlainHead, method: str, own_lines: str, *, connection_in_headers: bool, last: bool
) -> tuple[bytes, bool]:
    lines = [head.status_line, *head.lines, _lines_to_add(head.media_type, head.vary, connection_in_headers)]
    if head.length is not None and not last and method == "GET" and head.status not in (204, 304):
        own_lines, chunked = f"{own_lines}\r\nContent-Length: {head.length}", False  # the usual case
    else:
        frame = framing(method, HttpVersion11, head.status, head.length, keep_alive=not last)
        own_lines, chunked = _append_fields(own_lines, frame.fields), frame.chunked
    if not head.has_date:
        own_lines = _append_fields(own_lines, [_date_field()])
    lines += (own_lines.encode(), b"\r\n")
    return b"\r\n".join(lines), chunked


def _append_fields(own_lines: str, fields: Fields) -> str:
    return own_lines + "".join(f"\r\n{name}: {value}" for name, value in fields)


def _date_field() -> tuple[str, str]:
    return "Date", rfc822_formatted_time()


@lru_cache(maxsize=256)
def _lines_to_add(media_type: bytes, vary: bytes, connection_in_headers: bool) -> bytes:
    """Return the lines to add to a response with these ``Content-Type`` and ``Vary`` lines.

    An empty argument means that the response has no such line.
    """
    fields = with_protection_fields([_field(vary)] if vary else [], connection_in_headers=connection_in_headers)
    if media_type and is_live([_field(media_type)]):
        fields = [*fields, UNBUFFERED]
    return "\r\n".join(f"{name}: {value}" for name, value in fields).encode("utf-8", "surrogateescape")


def _field(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("utf-8", "surrogateescape").partition(": ")
    return name, value
