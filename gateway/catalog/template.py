"""The template language: text with ``${…}`` in it, parsed once into parts. Filling in is `interpolate`'s work.

    ${connectionConfig.x} ${metadata.x} ${credentials.x}     values of the connection
    ${apiKey} ${username} ${accessToken} ${clientId} …       values that the auth mode fills
    ${assertionOption.x} ${step1.x}                          values of a token request with several parts
    ${method} ${host} ${path} …                              of the request as it is sent, in header and query entries
    ${now} ${now:FORMAT} ${now+7:days:FORMAT} ${random}      one moment and one UUID a request
    ${base64(…)} ${sha256Hex(…)} ${hmacSha1Hex(message, key)}  functions; inside, templates again

What is inserted is never looked at again, so a value that holds ``${…}`` stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from gateway.catalog.functions import ARITY
from gateway.catalog.moment import UNITS

NAMESPACES: Final = ("connectionConfig", "metadata", "credentials", "assertionOption", "stepN")
DEEPEST: Final = 8

_CALL = re.compile(r"([A-Za-z][A-Za-z0-9]*)\(")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_STEP = re.compile(r"step[1-9]")
_NOW = re.compile(r"now(?:(?P<shift>[+-]\d{1,6}):(?P<unit>[a-z]+))?(?::(?P<format>.+))?", re.DOTALL)


class TemplateError(ValueError):
    """The text is not a template; the message says where it goes wrong."""


@dataclass(frozen=True, slots=True)
class Name:
    """A value known to the caller."""

    name: str


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of the request, moved by `shift_s` seconds; `format` None is ISO 8601 in UTC with milliseconds."""

    shift_s: int = 0
    format: str | None = None

    def moved(self, at: datetime) -> datetime:
        """The moment meant by this placeholder in a request made `at`."""
        return at + timedelta(seconds=self.shift_s)


@dataclass(frozen=True, slots=True)
class Random:
    """A UUID, one a request."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `functions.FUNCTIONS`, over templates."""

    function: str
    arguments: tuple["Template", ...]


Part = str | Name | Now | Random | Call


@dataclass(frozen=True, slots=True)
class Template:
    """Parts in order, literals as plain text."""

    parts: tuple[Part, ...]

    def names(self) -> Iterator[str]:
        """Names of the values it needs, functions' arguments included."""
        for part in self.parts:
            match part:
                case Name(name):
                    yield name
                case Call(_, arguments):
                    for argument in arguments:
                        yield from argument.names()


@lru_cache(maxsize=8192)
def parse(text: str) -> Template:
    """`text` as parts. Raises TemplateError."""
    parts, _ = _parts(text, 0, call=None, depth=0)
    return Template(parts)


def placeholders(template: str) -> frozenset[str]:
    """Names of the values that `template` needs, for example ``connectionConfig.cloudId``. Raises TemplateError."""
    return frozenset(parse(template).names())


def _parts(text: str, at: int, *, call: str | None, depth: int) -> tuple[tuple[Part, ...], int]:
    """Parts from `at` on: to the end, or, inside `call`, past the ``)}`` that closes it."""
    if depth > DEEPEST:
        raise TemplateError(f"functions are nested deeper than {DEEPEST}")
    parts: list[Part] = []
    start = at
    while at < len(text):
        closes = call is not None and text.startswith(")}", at)
        if not closes and not text.startswith("${", at):
            at += 1
            continue
        if at > start:
            parts.append(text[start:at])
        if closes:
            return tuple(parts), at + 2
        part, at = _placeholder(text, at + 2, depth)
        parts.append(part)
        start = at
    if call is not None:
        raise TemplateError(f"'${{{call}(' is not closed; end it with ')}}'")
    if at > start:
        parts.append(text[start:at])
    return tuple(parts), at


def _placeholder(text: str, at: int, depth: int) -> tuple[Part, int]:
    """The placeholder whose inside starts at `at`, and the place behind it."""
    if opened := _CALL.match(text, at):
        function = opened[1]
        if function not in ARITY:
            raise TemplateError(f"there is no function {function!r}; there are {', '.join(sorted(ARITY))}")
        parts, at = _parts(text, opened.end(), call=function, depth=depth + 1)
        return Call(function, _arguments(function, parts)), at
    end = text.find("}", at)
    if end < 0:
        raise TemplateError("'${' is not closed; end it with '}'")
    return _value(text[at:end]), end + 1


def _value(inside: str) -> Part:
    if inside == "random":
        return Random()
    if moment := _NOW.fullmatch(inside):
        unit = str(moment["unit"] or "second")
        if unit not in UNITS:
            raise TemplateError(f"'${{{inside}}}': {unit!r} is no unit; there are {', '.join(UNITS)}")
        return Now(int(moment["shift"] or 0) * UNITS[unit], moment["format"])
    if not _NAME.fullmatch(inside):
        raise TemplateError(f"'${{{inside}}}' is not a placeholder; write a name such as ${{connectionConfig.site}}")
    namespace, dot, _ = inside.partition(".")
    if dot and namespace not in NAMESPACES and not _STEP.fullmatch(namespace):
        raise TemplateError(f"'${{{inside}}}': there is no {namespace!r}; there are {', '.join(NAMESPACES)}")
    return Name(inside)


def _arguments(function: str, parts: tuple[Part, ...]) -> tuple[Template, ...]:
    """One template, or two around the last comma that stands in plain text."""
    if ARITY[function] == 1:
        return (Template(parts),)
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if isinstance(part, str) and "," in part:
            before, _, behind = part.rpartition(",")
            first = (*parts[:index], before.rstrip()) if before.rstrip() else parts[:index]
            second = (behind.lstrip(), *parts[index + 1 :]) if behind.lstrip() else parts[index + 1 :]
            return Template(first), Template(second)
    raise TemplateError(f"{function} takes two arguments: '${{{function}(message, key)}}'")
