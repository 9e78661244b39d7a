"""Trouble on demand: what a provider does on a bad day, switched on by `POST /sandbox/faults` or by one header.

A new fault is one function, which gets the request, its handler and its options, and one line in FAULTS.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Act = Callable[[web.Request, Handler, Mapping[str, float]], Awaitable[web.StreamResponse]]
HEADER: Final = "Sandbox-Fault"


async def _slow(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Do the work, then keep the answer back: a rotated pair that a hasty client never sees."""
    response = await handler(request)
    await asyncio.sleep(options["seconds"])
    return response


async def _truncated(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Declare the whole length, send a part, hang up."""
    whole = await handler(request)
    body = whole.body if isinstance(whole, web.Response) and isinstance(whole.body, bytes) else b""
    cut = web.StreamResponse(status=whole.status)
    cut.content_type = whole.content_type
    cut.content_length = len(body)
    await cut.prepare(request)
    await cut.write(body[: int(len(body) * options["share"])])
    if request.transport is not None:
        request.transport.close()
    return cut


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of trouble. `paths`: what it befalls, with all below if one ends in "/"; `options`: name ▸ default."""

    act: Act
    summary: str
    paths: tuple[str, ...]
    options: Mapping[str, float] = field(default_factory=dict)


FAULTS: Final[Mapping[str, Fault]] = {
    "slow-token": Fault(
        _slow, "the token endpoint works, but answers `seconds` late", ("/oauth/token",), {"seconds": 5}
    ),
    "truncated-body": Fault(
        _truncated,
        "declares the whole body, sends `share` of it and hangs up",
        ("/ex/",),
        {"share": 0.5},
    ),
}


class BadFault(Exception):
    """What was asked for does not exist or makes no sense; the text names what does."""


@dataclass(slots=True)
class Armed:
    """A fault waiting for requests. `times` None: until it is taken off. `path`: only below this prefix."""

    name: str
    times: int | None = 1
    path: str | None = None
    options: dict[str, float] = field(default_factory=dict)

    def befalls(self, path: str) -> bool:
        if self.path is not None:
            return path.startswith(self.path)
        return any(
            path.startswith(usual) if usual.endswith("/") else path == usual for usual in FAULTS[self.name].paths
        )

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "times": self.times, "path": self.path, **self.options}


class Faults:
    """The armed ones, oldest first; each request takes at most one."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []

    def arm(self, wish: Mapping[str, Any]) -> Armed:
        """Switch one on: ``{"name", "times"?: 1, "path"?, option…}``. Raises BadFault."""
        fresh = parse(wish)
        self.armed.append(fresh)
        return fresh

    def clear(self) -> None:
        self.armed.clear()

    def take(self, request: web.Request) -> Armed | None:
        """The fault its header names, else the oldest armed one that fits, counted down. Raises BadFault."""
        if HEADER in request.headers:
            return _from_header(request.headers[HEADER])
        for armed in self.armed:
            if armed.befalls(request.path):
                if armed.times is not None:
                    armed.times -= 1
                    self.armed = [kept for kept in self.armed if kept.times != 0]
                return armed
        return None


def parse(wish: Mapping[str, Any]) -> Armed:
    """A checked fault, with the options it leaves out. Raises BadFault."""
    name, times, path = wish.get("name"), wish.get("times", 1), wish.get("path")
    if not isinstance(name, str) or name not in FAULTS:
        raise BadFault(f"There is no fault {name!r}; there are: {', '.join(FAULTS)}.")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise BadFault("times is a whole number from 1, or null for 'until it is taken off'.")
    if path is not None and not (isinstance(path, str) and path.startswith("/")):
        raise BadFault("path is the beginning of a path, such as '/ex/'.")
    options = dict(FAULTS[name].options)
    for key in wish.keys() - {"name", "times", "path"}:
        value = wish[key]
        if key not in options:
            raise BadFault(f"{name} has no option {key!r}; it has: {', '.join(options)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise BadFault(f"{key} is a number from 0.")
        options[key] = value
    return Armed(name, times, path, options)


def _from_header(text: str) -> Armed:
    """``truncated-body`` or ``slow-token; seconds=2``, for the request that carries it."""
    name, *pairs = (part.strip() for part in text.split(";"))
    wish: dict[str, Any] = {"name": name}
    for pair in pairs:
        key, _, value = pair.partition("=")
        try:
            wish[key.strip()] = float(value)
        except ValueError:
            raise BadFault(f"{HEADER} is a name and numbers: 'slow-token; seconds=2', not {text!r}.") from None
    return parse(wish)
