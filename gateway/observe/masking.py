"""Masks secrets in log lines: values with a secret's name, and other libraries' texts that look like a secret."""

import re
import sys
import traceback
from collections.abc import MutableMapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

from gateway.secret import MASK

SECRET_NAME: Final = re.compile(
    r"authorization|cookie|secret|passw(or)?d|^pwd$|bearer|token$|verifier$|credentials?$|capability$|assertion$"
    r"|(api|signing|private|encryption|master|data)[_-]?keys?$|auth\w*_code$|^(code|state|key)$",
    re.IGNORECASE,
)
_BEFORE_VALUE: Final = r"(?:['\"]?\s*+[=:]\s*+|['\"]\s*+,\s*+)(?:b(?=['\"]))?+"
_QUOTED: Final = r"'(?:[^'\\]++|\\.)*+|\"(?:[^\"\\]++|\\.)*+"
# Words that can follow "token " in a sentence, where no token follows. `_NO_TOKEN` also allows an error code of RFC
# 6749 in parentheses. Every other word is masked, because an end user's key can be a plain word.
_PLAIN_WORDS: Final = (
    "is|was|has|had|are|were|be|been|may|must|can|cannot|could|would|should|will|does|did|do|not|no|that|which|the|a|an|this"
    "|it|its|and|or|but|nor|of|in|on|at|to|by|for|from|with|without|within|before|after|until|when|where|while|if|as|than"
    "|then|only|yet|now|again|already|else|came|comes|ends|ended|expires|expired|revoked|invalid|missing|unknown|rejected"
    "|refused|returned|issued|needs|lacks|failed|fails|endpoint|endpoints|request|requests|response|answer|reply|exchange"
    "|refresh|service|url|address|type|expiry|lifetime"
)
_NO_TOKEN: Final = (
    rf"(?:(?:{_PLAIN_WORDS})(?=[.,:;!?)]*+(?:[\s'\"]|$))|\((?-i:[a-z]{{2,15}}(?:_[a-z]{{2,15}}){{1,3}})(?::\s|\)))"
)
# Each alternative begins with a unique word and never backtracks, so the time is linear in the text's length.
SECRET_TEXT: Final = re.compile(
    rf"(?P<line>(?:authorization|cookie2?){_BEFORE_VALUE})(?:(?P<line_value>{_QUOTED})|digest\s[^\r\n]++|[^\r\n'\"]++)"
    rf"|(?P<name>(?:secret|token|password|passwd|pwd|passphrase|api_?key|(?<!config)[_-]key|code|state|verifier){_BEFORE_VALUE})"
    rf"(?:(?P<value>{_QUOTED})|[^\s&'\",;}}]++)"
    rf"|(?P<scheme>(?:bearer|basic|token(?!\s++{_NO_TOKEN}))\s++)[^\s'\",;]++"
    r"|://(?P<url>[^\s'\"]++)",
    re.IGNORECASE | re.DOTALL,
)

MAX_NAME_CHARS: Final = 256
# The same type as structlog's EventDict. structlog is not imported for this type, because gateway.yaml is read before
# all heavy imports.
Event = MutableMapping[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether a value with this name must be hidden."""
    return len(name) > MAX_NAME_CHARS or bool(SECRET_NAME.search(name))


def mask(_logger: Any, _method: str, event: Event) -> Event:
    """Hide each value with a secret's name, at any depth. A `Secret` is not replaced, because its text is a mask."""
    for name, value in event.items():
        if is_secret(name):
            if value is not None:
                event[name] = MASK
        elif type(value) in (dict, list, tuple):
            event[name] = masked(value)
    return event


def masked(value: Any) -> Any:
    """Return a copy of `value` in which each value with a secret's name is hidden, at any depth."""
    if isinstance(value, dict):
        return {
            key: MASK if is_secret(str(key)) and inner is not None else masked(inner) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return value


def mask_text(_logger: Any, _method: str, event: Event) -> Event:
    """Mask secrets in the messages of other libraries. Such messages have no field names to check."""
    event["event"] = masked_text(str(event.get("event", "")))
    return event


def masked_text(text: str) -> str:
    """Return `text` with every part that looks like a secret masked.

    Such parts are credentials, cookies, and the query and the user information of a URL.
    """
    return SECRET_TEXT.sub(_mask_match, text)


def _mask_match(match: re.Match[str]) -> str:
    if match["url"] is not None:
        return f"://{_masked_url(match['url'])}"
    quoted = match["line_value"] or match["value"] or ""
    return f"{match['line'] or match['name'] or match['scheme']}{quoted[:1]}{MASK}"


def _masked_url(url_after_scheme: str) -> str:
    """Mask user information and query of a URL. `url_after_scheme`: the text after ``://``; its path can contain
    another URL."""
    authority_end = min(
        (position for separator in "?#" if (position := url_after_scheme.find(separator)) >= 0),
        default=len(url_after_scheme),
    )
    masked_parts = []
    for part in url_after_scheme[:authority_end].split("://"):
        authority, slash, path = part.partition("/")
        _, at_sign, host = authority.rpartition("@")
        masked_parts.append(f"{MASK}@{host}{slash}{path}" if at_sign else part)
    query = (
        f"{url_after_scheme[authority_end]}{MASK}"
        if url_after_scheme[authority_end + 1 :]
        else url_after_scheme[authority_end:]
    )
    return "://".join(masked_parts) + query


def exception_as_text(_logger: Any, _method: str, event: Event) -> Event:
    """Replace ``exc_info`` by the traceback's text under the key ``exception``."""
    value = event.pop("exc_info", None)
    if value:
        exc_info = _exc_info(value)
        if exc_info is not None:
            event["exception"] = exception_text(exc_info)
    return event


def exception_text(exc_info: ExcInfo) -> str:
    """Return the traceback as text, without local variables. The messages of the exceptions are masked."""
    return masked_text("".join(traceback.format_exception(*exc_info)).rstrip())


def _exc_info(value: Any) -> ExcInfo | None:
    if isinstance(value, BaseException):
        return type(value), value, value.__traceback__
    kind, fault, trace = value if isinstance(value, tuple) else sys.exc_info()
    return None if kind is None or fault is None else (kind, fault, trace)
