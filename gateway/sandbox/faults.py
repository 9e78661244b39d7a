"""Faults on demand: failures of a provider that a test switches on, by `POST /sandbox/faults` or by a header.

To add a fault, add a function here and an entry in FAULTS.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from math import ceil
from sys import float_info
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.http.abort import LINGER_RESET

# ── The faults. Each function gets the request, its handler, and the options of the fault. All options are numbers.

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
FaultFunction = Callable[[web.Request, Handler, Mapping[str, float]], Awaitable[web.StreamResponse]]


async def delay_response(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Handle the request, then delay the response by `seconds`.

    A client that stops waiting does not get the result of the request, for example its rotated tokens.
    """
    response = await handler(request)
    await asyncio.sleep(options["seconds"])
    return response


async def truncate_body(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Send a Content-Length for the whole body, but only `share` of the body, and close the connection."""
    cut_response = await _send_head_and_share(request, handler, options["share"])
    if request.transport is not None:
        request.transport.close()
    return cut_response


async def reset_connection(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Reset the TCP connection before the first byte of the response.

    If the option `head` is 1, reset the connection after the head and `share` of the body.
    """
    response: web.StreamResponse = web.Response()
    if options["head"]:
        response = await _send_head_and_share(request, handler, options["share"])
    if request.transport is not None:
        client_socket: socket.socket = request.transport.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        request.transport.abort()
    return response


async def send_body_slowly(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Send the head immediately, then the body in `pieces` parts, evenly over `seconds`."""
    complete_response = await handler(request)
    body = _body(complete_response)
    response = _empty_response(complete_response, len(body))
    await response.prepare(request)
    pieces = max(1, int(options["pieces"]))
    size = max(1, ceil(len(body) / pieces))
    for start in range(0, len(body), size):
        await asyncio.sleep(options["seconds"] / pieces)
        await response.write(body[start : start + size])
    await response.write_eof()
    return response


async def return_429(_request: web.Request, _handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Return 429 with Retry-After (RFC 9110 §10.2.3), in seconds or as a date. The request is not handled."""
    after_s = ceil(options["retry_after"])
    retry_time = clock.now().timestamp() + after_s
    headers = {
        "Retry-After": formatdate(retry_time, usegmt=True) if options["date"] else str(after_s),
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(ceil(retry_time)),
    }
    body = {"errorMessages": ["Rate limit exceeded."], "errors": {}}
    return web.json_response(body, status=429, headers=headers)


async def return_error(_request: web.Request, _handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Return `status`, such as 503 for an outage or 401 for a revoked token. The request is not handled."""
    status = int(options["status"])
    return web.json_response({"errorMessages": [f"The sandbox is set to return {status}."]}, status=status)


async def _send_head_and_share(request: web.Request, handler: Handler, share: float) -> web.StreamResponse:
    """Send the head of the response and `share` of its body; return the response."""
    complete_response = await handler(request)
    body = _body(complete_response)
    response = _empty_response(complete_response, len(body))
    await response.prepare(request)
    await response.write(body[: int(len(body) * share)])
    return response


def _empty_response(response: web.StreamResponse, length: int) -> web.StreamResponse:
    head = web.StreamResponse(status=response.status)
    head.content_type = response.content_type
    head.content_length = length
    return head


def _body(response: web.StreamResponse) -> bytes:
    return response.body if isinstance(response, web.Response) and isinstance(response.body, bytes) else b""


HEADER: Final = "Sandbox-Fault"


@dataclass(frozen=True, slots=True)
class SandboxFault:
    """A fault that can be switched on.

    - `act`: the function that handles a request with the fault
    - `summary`: a description for people
    - `paths`: the paths to which the fault applies; a path that ends with "/" includes all paths below
    - `options`: the default value of each option by its name
    - `times`: the default number of requests to which the fault applies
    """

    act: FaultFunction
    summary: str
    paths: tuple[str, ...]
    options: Mapping[str, float] = field(default_factory=dict)
    times: int = 1


_API_PATHS: Final = ("/ex/", "/lists/")
_ALL_PATHS: Final = ("/ex/", "/streams/", "/lists/")

FAULTS: Final[Mapping[str, SandboxFault]] = {
    "slow-token": SandboxFault(
        delay_response, "the token endpoint works, but responds `seconds` late", ("/oauth/token",), {"seconds": 5}
    ),
    "slow-head": SandboxFault(
        delay_response, "the request is handled, but the response begins `seconds` late", _API_PATHS, {"seconds": 5}
    ),
    "slow-body": SandboxFault(
        send_body_slowly,
        "the head immediately, the body in `pieces`, evenly over `seconds`",
        _API_PATHS,
        {"seconds": 2, "pieces": 10},
    ),
    "truncated-body": SandboxFault(
        truncate_body,
        "declares the whole body, sends `share` of it and closes the connection",
        _API_PATHS,
        {"share": 0.5},
    ),
    "reset": SandboxFault(
        reset_connection,
        "resets the connection before the head; with `head=1` after it and `share` of the body",
        _API_PATHS,
        {"head": 0, "share": 0.5},
    ),
    "429-burst": SandboxFault(
        return_429,
        "429 for three requests, with Retry-After of `retry_after` seconds; `date=1` writes it as a date",
        _ALL_PATHS,
        {"retry_after": 1, "date": 0},
        times=3,
    ),
    "error": SandboxFault(return_error, "returns `status` and does nothing", _ALL_PATHS, {"status": 503}),
}


class InvalidFault(Exception):
    """A test asked for an unknown fault or an invalid option. The text lists the valid faults, options or values."""


@dataclass(slots=True)
class ArmedFault:
    """A fault that is switched on.

    - `times`: the number of further requests to which the fault applies; None: all
    - `path`: the prefix of the paths to which the fault applies; None: the usual paths of this fault
    - `after`: the number of matching requests that are first handled without the fault
    """

    name: str
    times: int | None = 1
    path: str | None = None
    options: dict[str, float] = field(default_factory=dict)
    after: int = 0

    def applies_to(self, path: str) -> bool:
        if self.path is not None:
            return path.startswith(self.path)
        return any(
            path.startswith(default_path) if default_path.endswith("/") else path == default_path
            for default_path in FAULTS[self.name].paths
        )

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "times": self.times, "path": self.path, "after": self.after, **self.options}


class SandboxFaults:
    """The armed faults, the oldest first. At most one fault applies to a request."""

    def __init__(self) -> None:
        self.armed: list[ArmedFault] = []

    def arm(self, fields: Mapping[str, Any]) -> ArmedFault:
        """Arm a fault. Raises InvalidFault. `fields`: ``{"name", "times"?: 1, "path"?, "after"?: 0, option…}``."""
        fault = parse(fields)
        self.armed.append(fault)
        return fault

    def clear(self) -> None:
        self.armed.clear()

    def take_next_fault(self, request: web.Request) -> ArmedFault | None:
        """Return the fault for this request, and reduce its remaining number of requests; None if no fault applies.

        A fault in the request's header has priority over armed faults. Of the armed faults, the oldest matching fault
        applies. Raises InvalidFault.
        """
        if HEADER in request.headers:
            return _from_header(request.headers[HEADER])
        for armed in self.armed:
            if armed.applies_to(request.path):
                if armed.after:
                    armed.after -= 1
                    continue
                if armed.times is not None:
                    armed.times -= 1
                    self.armed = [armed_fault for armed_fault in self.armed if armed_fault.times != 0]
                return armed
        return None


def parse(fields: Mapping[str, Any]) -> ArmedFault:
    """Check the requested fault, and return it with defaults for missing options. Raises InvalidFault."""
    name, path = fields.get("name"), fields.get("path")
    if not isinstance(name, str) or name not in FAULTS:
        raise InvalidFault(f"There is no fault {name!r}. The faults are: {', '.join(FAULTS)}.")
    times = fields.get("times", FAULTS[name].times)
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise InvalidFault("times must be a whole number from 1, or null for no limit.")
    if path is not None and not (isinstance(path, str) and path.startswith("/")):
        raise InvalidFault("path must be the beginning of a path, such as '/ex/'.")
    after = fields.get("after", 0)
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise InvalidFault("after must be a whole number from 0: how many requests pass first.")
    options = dict(FAULTS[name].options)
    for key in fields.keys() - {"name", "times", "path", "after"}:
        value = fields[key]
        if key not in options:
            raise InvalidFault(f"{name} has no option {key!r}. Its options are: {', '.join(options)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= float_info.max:
            raise InvalidFault(f"{key} must be a number from 0.")
        options[key] = value
    if "status" in options and not 400 <= options["status"] <= 599:
        raise InvalidFault("status must be an error status from 400 to 599.")
    return ArmedFault(name, times, path, options, after)


def _from_header(text: str) -> ArmedFault:
    """Return the fault in a header's value, such as ``truncated-body`` or ``slow-token; seconds=2``.

    Raises InvalidFault.
    """
    name, *pairs = (part.strip() for part in text.split(";"))
    fault: dict[str, Any] = {"name": name}
    for pair in pairs:
        key, _, value = pair.partition("=")
        try:
            fault[key.strip()] = float(value)
        except ValueError:
            raise InvalidFault(
                f"{HEADER} must be a name and numbers, such as 'slow-token; seconds=2', not {text!r}."
            ) from None
    return parse(fault)
