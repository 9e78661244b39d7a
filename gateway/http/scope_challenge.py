"""Reads the missing scopes from a 403 to a token without them (RFC 6750 §3.1)."""

import re
from typing import Final

from gateway.http.headers import Fields

MOST_SCOPES: Final = 20
SCOPE_CHARS: Final = 256
SCHEMES: Final = frozenset({"bearer", "dpop"})
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART: Final = re.compile(rf'({_WORD})(?:[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|{_WORD}))?')
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749 §3.3
_FIELD_CHARS: Final = 8192


def refused_scopes(status: int, fields: Fields) -> tuple[str, ...] | None:
    """Return the scopes that the token lacks; None if the response is not about scopes, empty if it names none."""
    if status != 403:
        return None
    for name, value in fields:
        if name.lower() == "www-authenticate" and (found := _scopes_in(value[:_FIELD_CHARS])) is not None:
            return found
    return None


def _scopes_in(value: str) -> tuple[str, ...] | None:
    """Return the scopes in a `WWW-Authenticate` value, which has one challenge or several (RFC 9110 §11.6.1)."""
    scheme, challenges = "", list[tuple[str, dict[str, str]]]()
    for part in _PART.finditer(value):
        name, text = part[1].lower(), part[2]
        if text is None:
            scheme = name
            challenges.append((scheme, {}))
        elif challenges:
            challenges[-1][1].setdefault(name, _unquote(text))
    for scheme, params in challenges:
        if scheme in SCHEMES and params.get("error") == "insufficient_scope":
            return scopes_of(params.get("scope", "").split())
    return None


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def scopes_of(named: list[str]) -> tuple[str, ...]:
    """Return the names that are well-formed scopes, each once, at most `MOST_SCOPES` of them."""
    well_formed = (scope for scope in named if len(scope) <= SCOPE_CHARS and _SCOPE.fullmatch(scope))
    return tuple(dict.fromkeys(well_formed))[:MOST_SCOPES]
