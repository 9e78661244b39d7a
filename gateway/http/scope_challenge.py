"""Reads the challenges of a 401 or 403 (RFC 9110 §11.6.1), and the scopes that a token lacks (RFC 6750 §3.1)."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.http.headers import TOKEN, Fields

MAX_SCOPES: Final = 20
MAX_SCOPE_CHARS: Final = 256
SCHEMES: Final = frozenset({"bearer", "dpop"})
_PART: Final = re.compile(rf'({TOKEN.pattern})(?:[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|{TOKEN.pattern}))?')
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749 §3.3
_MAX_FIELD_CHARS: Final = 8192


def refused_scopes(status: int, fields: Fields) -> tuple[str, ...] | None:
    """Return the scopes that the token lacks.

    Return None if the response is not about scopes, and an empty tuple if the response names no scope.
    """
    if status != 403:
        return None
    for scheme, params in challenges_in(fields):
        if scheme in SCHEMES and params.get("error") == "insufficient_scope":
            return well_formed_scopes(params.get("scope", "").split())
    return None


def challenges_in(fields: Iterable[tuple[str, str]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scheme and the parameters of each challenge, in the order of the response.

    Schemes and names of parameters are in lower case. A response can have several `WWW-Authenticate` fields, and each
    field one challenge or several.
    """
    for field, value in fields:
        if field.lower() != "www-authenticate":
            continue
        challenges = list[tuple[str, dict[str, str]]]()
        for part in _PART.finditer(value[:_MAX_FIELD_CHARS]):
            name, text = part[1].lower(), part[2]
            if text is None:
                challenges.append((name, {}))
            elif challenges:
                challenges[-1][1].setdefault(name, _unquote(text))
        yield from challenges


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def well_formed_scopes(scopes: list[str]) -> tuple[str, ...]:
    """Return the well-formed scopes in `scopes` without duplicates, at most `MAX_SCOPES`."""
    well_formed = (scope for scope in scopes if len(scope) <= MAX_SCOPE_CHARS and _SCOPE.fullmatch(scope))
    return tuple(dict.fromkeys(well_formed))[:MAX_SCOPES]
