"""Trouble on demand: what a provider does on a bad day, switched on by `POST /sandbox/faults` or by one header.

A new fault is one function in `trouble.py`, and one line in FAULTS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from gateway.sandbox import trouble

HEADER: Final = "Sandbox-Fault"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of trouble. `paths`: what it befalls, with all below if one ends in "/"; `options`: name ▸ default.

    `times`: how many requests it befalls where that is not said.
    """

    act: trouble.Act
    summary: str
    paths: tuple[str, ...]
    options: Mapping[str, float] = field(default_factory=dict)
    times: int = 1


_API: Final = ("/ex/", "/lists/")
_ALL: Final = ("/ex/", "/streams/", "/lists/")

FAULTS: Final[Mapping[str, Fault]] = {
    "slow-token": Fault(
        trouble.late, "the token endpoint works, but answers `seconds` late", ("/oauth/token",), {"seconds": 5}
    ),
    "slow-head": Fault(trouble.late, "the work is done, but the answer begins `seconds` late", _API, {"seconds": 5}),
    "slow-body": Fault(
        trouble.slow_body,
        "the head at once, the body in `pieces`, evenly over `seconds`",
        _API,
        {"seconds": 2, "pieces": 10},
    ),
    "truncated-body": Fault(
        trouble.truncated, "declares the whole body, sends `share` of it and hangs up", _API, {"share": 0.5}
    ),
    "reset": Fault(
        trouble.reset,
        "resets the connection before the head; with `head=1` after it and `share` of the body",
        _API,
        {"head": 0, "share": 0.5},
    ),
    "429-burst": Fault(
        trouble.too_many,
        "429 for three requests, with Retry-After of `retry_after` seconds; `date=1` writes it as a date",
        _ALL,
        {"retry_after": 1, "date": 0},
        times=3,
    ),
    "error": Fault(trouble.error, "answers `status` and does nothing", _ALL, {"status": 503}),
}


class BadFault(Exception):
    """What was asked for does not exist or makes no sense; the text names what does."""


@dataclass(slots=True)
class Armed:
    """A fault waiting for requests. `times` None: until it is taken off. `path`: only below this prefix.

    `after`: how many requests that it could befall pass unharmed first.
    """

    name: str
    times: int | None = 1
    path: str | None = None
    options: dict[str, float] = field(default_factory=dict)
    after: int = 0

    def befalls(self, path: str) -> bool:
        if self.path is not None:
            return path.startswith(self.path)
        return any(
            path.startswith(usual) if usual.endswith("/") else path == usual for usual in FAULTS[self.name].paths
        )

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "times": self.times, "path": self.path, "after": self.after, **self.options}


class Faults:
    """The armed ones, oldest first; each request takes at most one."""

    def __init__(self) -> None:
        self.armed: list[Armed] = []

    def arm(self, wish: Mapping[str, Any]) -> Armed:
        """Switch one on: ``{"name", "times"?: 1, "path"?, "after"?: 0, option…}``. Raises BadFault."""
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
                if armed.after:
                    armed.after -= 1
                    continue
                if armed.times is not None:
                    armed.times -= 1
                    self.armed = [kept for kept in self.armed if kept.times != 0]
                return armed
        return None


def parse(wish: Mapping[str, Any]) -> Armed:
    """A checked fault, with the options it leaves out. Raises BadFault."""
    name, path = wish.get("name"), wish.get("path")
    if not isinstance(name, str) or name not in FAULTS:
        raise BadFault(f"There is no fault {name!r}; there are: {', '.join(FAULTS)}.")
    times = wish.get("times", FAULTS[name].times)
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise BadFault("times is a whole number from 1, or null for 'until it is taken off'.")
    if path is not None and not (isinstance(path, str) and path.startswith("/")):
        raise BadFault("path is the beginning of a path, such as '/ex/'.")
    after = wish.get("after", 0)
    if isinstance(after, bool) or not isinstance(after, int) or after < 0:
        raise BadFault("after is how many requests pass first, a whole number from 0.")
    options = dict(FAULTS[name].options)
    for key in wish.keys() - {"name", "times", "path", "after"}:
        value = wish[key]
        if key not in options:
            raise BadFault(f"{name} has no option {key!r}; it has: {', '.join(options)}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise BadFault(f"{key} is a number from 0.")
        options[key] = value
    if "status" in options and not 400 <= options["status"] <= 599:
        raise BadFault("status is an error's, 400 to 599.")
    return Armed(name, times, path, options, after)


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
