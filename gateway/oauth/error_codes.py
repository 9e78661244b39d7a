"""Classifies the refusal in a token endpoint's response, in any format; JSON is read leniently.

RFC 6749 §5.2 defines one format, ``{"error": "invalid_grant"}``. Many servers use a format of their own: an object or a
list below `error` or `errors`, a `status`, a `message`, a form, a line of text. If one of these texts says that the
grant is gone, the refusal is final immediately. Every other refusal has an unknown meaning, and becomes final only if
it repeats (`refresh.backoff`).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.http.json_depth import prune, prune_text
from gateway.text import printable

# ── Reads the JSON of a token response. Invalid values next to the tokens must not make the response unreadable,
# because the tokens exist nowhere else.

MAX_LEVELS: Final = 32  # maximum levels of arrays and objects; deeper values become null
MAX_INTEGER_DIGITS: Final = 100  # maximum digits; longer integers become null


def parse(body: bytes) -> Any:
    """Return the value in `body`. Raises ValueError if `body` is not JSON.

    Numbers too large for a float, NaN, infinities and too deeply nested values become null. Invalid UTF-8 is replaced.
    """
    text = body.decode(json.detect_encoding(body), "replace")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        value = _DECODER.decode(prune_text(text, MAX_LEVELS))
    return prune(value, MAX_LEVELS)


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= MAX_INTEGER_DIGITS else None


def _number(text: str) -> float | None:
    number = float(text)
    return number if abs(number) != float("inf") else None


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=lambda _: None, strict=False)


# Sources: RFC 6749 §5.2, OpenID Connect Core §3.1.2.6 (Microsoft's token endpoint sends these codes for a refresh),
# RFC 6750 §3.1, and codes of single providers: GitHub, Slack, HubSpot, Fitbit.
GRANT_GONE: Final = frozenset(
    {
        "invalid_grant",
        "bad_refresh_token",
        "invalid_refresh_token",
        "expired_refresh_token",
        "unknown_refresh_token",
        "revoked_refresh_token",
        "refresh_token_expired",
        "refresh_token_invalid",
        "refresh_token_not_found",
        "refresh_token_revoked",
        "token_revoked",
        "token_expired",
        "expired_token",
        "invalid_token",
        "account_inactive",
        "interaction_required",
        "login_required",
        "consent_required",
        "account_selection_required",
    }
)
"""Codes which mean that the end user's grant is gone."""
FINAL_CODES: Final = GRANT_GONE | {
    "invalid_request",
    "invalid_client",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "bad_verification_code",
    "invalid_code",
    "code_already_used",
}
"""All codes that make a refusal final if they are the value of ``error``. Codes that are not in `GRANT_GONE` report an
error of the client, which the operator can correct."""
CLIENT_REFUSED: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Codes which mean that the provider refuses the app itself, not the grant."""
PASSING_CODES: Final = frozenset(
    {
        "temporarily_unavailable",
        "server_error",
        "internal_error",
        "internal_server_error",
        "service_unavailable",
        "slow_down",
        "authorization_pending",
        "rate_limit_exceeded",
        "rate_limited",
        "ratelimited",
        "too_many_requests",
        "throttled",
        "timeout",
        "try_later",
        "try_again_later",
    }
)
"""Codes which mean an outage or a rate limit, whatever the status of the response."""

# Members that can contain a code or a sentence. The names are in lower case, without separators.
_ERROR_MEMBERS: Final = (
    *("error", "errors", "code", "errorcode", "errortype", "type", "status", "reason", "errordescription", "message"),
    *("errormessage", "msg", "errmsg", "detail", "title"),
)
_INVALID: Final = ("invalid", "expired", "revoked", "unknown", "not_found", "no_longer", "does_not_exist", "not_valid")
_OTHER_FAULT: Final = ("client", "required", "missing")  # a sentence with these words may be about the request
_MAX_TEXT_CHARS: Final = 300  # maximum length of a text that is searched
_MAX_LIST_ITEMS: Final = 5  # maximum number of list items that are read
_MAX_SEARCHED_LEVELS: Final = 3
_FORM: Final = re.compile(rb"[A-Za-z_]{1,40}=[^\s<>{}\"]*")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal in a response. `code`: one of `FINAL_CODES`, None if unknown. `provider_text`: the provider's text, possibly
    empty."""

    code: str | None
    provider_text: str


def refusal_in(body: bytes) -> Refusal | None:
    """Return the refusal in the body of a response without a token. Return None if the body says that the refusal is
    temporary."""
    texts = list(dict.fromkeys(_texts(_parse_body(body), 0)))
    codes = {text: _as_code(text) for text in texts}
    if not PASSING_CODES.isdisjoint(codes.values()):
        return None
    provider_text = ": ".join(texts)[:_MAX_TEXT_CHARS]
    # The sentence "Token expired" can mean any token; only `token_expired` is a code.
    code_like = (code for text, code in codes.items() if " " not in text or "refresh" in code or "grant" in code)
    grant_error = next((code for code in code_like if code in GRANT_GONE), None)
    if grant_error is None and any(map(_says_gone, codes.values())):
        grant_error = "invalid_refresh_token"
    return Refusal(grant_error, printable(provider_text))


def _parse_body(body: bytes) -> Any:
    """Return the body as JSON, else as a form, else as one line of text. Return None for an HTML page, an empty body or
    a body that is too long."""
    try:
        return parse(body)
    except ValueError:
        pass
    if _FORM.fullmatch(body):
        return dict(parse_qsl(body.decode("utf-8", "replace")))
    text = body[: _MAX_TEXT_CHARS * 4].decode("utf-8", "replace").strip()
    return text if len(text) <= _MAX_TEXT_CHARS and not text.startswith("<") else None


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if 0 < len(value) <= _MAX_TEXT_CHARS:
            yield value
    elif isinstance(value, list) and depth < _MAX_SEARCHED_LEVELS:
        for part in value[:_MAX_LIST_ITEMS]:
            yield from _texts(part, depth + 1)
    elif isinstance(value, dict) and depth < _MAX_SEARCHED_LEVELS:
        members = {name.lower().replace("_", "").replace("-", ""): inner for name, inner in value.items()}
        for name in _ERROR_MEMBERS:
            yield from _texts(members.get(name), depth + 1)


def _as_code(text: str) -> str:
    """Return `text` in the form of a code, for example ``Invalid refresh-token.`` ▸ ``invalid_refresh_token``,
    ``invalidGrant`` ▸ ``invalid_grant``."""
    parts: list[str] = []
    previous = ""
    for char in text:
        if not char.isalnum():
            parts.append("_")
        elif char.isupper() and previous.islower():
            parts += ("_", char.lower())
        else:
            parts.append(char.lower())
        previous = char
    return "_".join(filter(None, "".join(parts).split("_")))


def _says_gone(code: str) -> bool:
    """Return whether a sentence says that the refresh token itself is no longer valid."""
    names_refresh_token = "refresh_token" in code or "refreshtoken" in code
    return (
        names_refresh_token
        and any(word in code for word in _INVALID)
        and not any(word in code for word in _OTHER_FAULT)
    )
