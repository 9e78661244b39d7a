"""Filling in templates: `render_text` for headers, query and parameters, `render_url` for addresses.

`render_url` knows where in the URL a value lands and what may stand there; it lives in `placing` with that knowledge.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gateway import clock
from gateway.catalog.auth_modes import REQUEST
from gateway.catalog.functions import FUNCTIONS, BadArgument
from gateway.catalog.moment import write
from gateway.catalog.names import carries_credential, find
from gateway.catalog.placing import Unresolved, render_url
from gateway.catalog.template import Call, Name, Now, Random, Template, TemplateError, parse, placeholders
from gateway.catalog.value import BadValue, check_value, setting_values

__all__ = [
    "BadValue",
    "Moment",
    "TemplateError",
    "Unresolved",
    "carries_credential",
    "check_value",
    "differs_each_time",
    "needs_request",
    "placeholders",
    "render_text",
    "render_url",
    "setting_values",
]

# A control character ends or splits a header field (RFC 9110 §5.5); only a tab is harmless.
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def _now() -> datetime:
    return clock.now()


@dataclass(frozen=True, slots=True)
class Moment:
    """What ``${now}`` and ``${random}`` are: one moment and one UUID for all templates of a request."""

    at: datetime = field(default_factory=_now)
    random: str = field(default_factory=lambda: str(uuid.uuid4()))


def render_text(template: str, values: Mapping[str, str], *, moment: Moment | None = None, breaks: bool = False) -> str:
    """`template` with `values` filled in.

    `values` has the names as templates write them: ``accessToken``, ``connectionConfig.cloudId``, ``metadata.team``. A
    credential's name stands for ``credentials.name`` too, and ``accessToken`` for ``access_token``. An empty value is a
    value. Give the same `moment` to all templates of one request.

    Raises Unresolved naming every value that is not there, BadValue if a result holds CR, LF, NUL or another control
    character or a function cannot work with a value, TemplateError. With `breaks` it may hold them: a key in PEM has
    lines, and a body is not a header.
    """
    parsed = parse(template)
    missing = [name for name in dict.fromkeys(parsed.names()) if find(values, name) is None]
    if missing:
        raise Unresolved(tuple(missing))
    try:
        rendered = _fill(parsed, values, moment or Moment())
    except BadArgument as wrong:
        raise BadValue(next(parsed.names(), "the template itself"), str(wrong)) from None
    if not breaks and _FORBIDDEN.search(rendered):
        raise BadValue(_culprit(parsed, values), "holds a line break or another control character")
    return rendered


def differs_each_time(template: str) -> bool:
    """Whether ``${now}`` or ``${random}`` is in it, so that what it renders to is good for one request."""
    return _is_momentary(parse(template))


def needs_request(template: str) -> bool:
    """Whether it names the request it stands in (``${method}``, ``${path}`` …), so that each attempt renders it anew, with
    `request_values` among its values."""
    return not REQUEST.isdisjoint(placeholders(template))


def _is_momentary(template: Template) -> bool:
    return any(
        isinstance(part, Now | Random) or (isinstance(part, Call) and any(map(_is_momentary, part.arguments)))
        for part in template.parts
    )


def _fill(template: Template, values: Mapping[str, str], moment: Moment) -> str:
    filled: list[str] = []
    for part in template.parts:
        match part:
            case str():
                filled.append(part)
            case Name(name):
                filled.append(find(values, name) or "")
            case Now():
                filled.append(write(part.moved(moment.at), part.format))
            case Random():
                filled.append(moment.random)
            case Call(function, arguments):
                filled.append(FUNCTIONS[function](*(_fill(argument, values, moment) for argument in arguments)))
    return "".join(filled)


def _culprit(template: Template, values: Mapping[str, str]) -> str:
    names = (name for name in template.names() if _FORBIDDEN.search(find(values, name) or ""))
    return next(names, "the template itself")
