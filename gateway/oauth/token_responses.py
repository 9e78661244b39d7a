"""Reads a token endpoint's responses (RFC 6749 §5)."""

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway import clock
from gateway.oauth import error_codes
from gateway.oauth.error_codes import FINAL_CODES, refusal_in
from gateway.oauth.token_requests import OAuthEntry

MAX_LIFETIME: Final = timedelta(days=3650)
MAX_TOKEN_CHARS: Final = 65_536
MIN_TOKEN_CHARS: Final = 8  # a shorter text, such as a number of seconds, is no token
GRANT_GONE: Final = error_codes.GRANT_GONE
REFUSAL_STATUSES: Final = frozenset({400, 401, 403})  # statuses that mean a refusal, with any body


class TokenRefused(Exception):
    """The token endpoint refused the request, and the refusal is final. `code`: the error code. `description`: the
    endpoint's text, possibly empty (RFC 6749 §5.2)."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"{code}: {description}" if description else code)
        self.code = code
        self.description = description


class TokenUnavailable(Exception):
    """The endpoint returned no usable response: an outage, a rate limit, or a response that is not a token response.

    - `retry_after_s`: seconds until the next try, None if unknown
    - `maybe_done`: whether the provider may have executed the request, so that only its response was lost
    - `maybe_journalled`: whether this machine's refresh journal may contain that response, now or later
    - `refused_with`: the status of a refusal without a reason, else None. Such a refusal becomes final if it repeats
      (`refresh.backoff`).
    """

    def __init__(
        self,
        reason: str,
        retry_after_s: int | None = None,
        *,
        maybe_done: bool = False,
        maybe_journalled: bool = False,
        refused_with: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.maybe_done = maybe_done
        self.maybe_journalled = maybe_journalled
        self.refused_with = refused_with


def read_response(provider: OAuthEntry, status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the token response with a checked `access_token` at the top level. Raises TokenRefused after a final
    refusal, and TokenUnavailable if there is no usable response.

    Some providers report errors with status 200 (GitHub, Slack), so the body is checked before the status. A server
    error or a rate limit is never final, whatever its body says.
    """
    if status >= 500 or status in {408, 425, 429}:
        retry_after_s = retry_after(headers)
        # 503 with Retry-After comes from a server that is busy. Without it, a proxy in front of the token endpoint also
        # returns 503 if it loses the connection after it has sent the request.
        maybe_done = status >= 500 and not (status == 503 and retry_after_s is not None)
        raise TokenUnavailable(f"the token endpoint returned {status}", retry_after_s, maybe_done=maybe_done)
    response = parse_object(headers, body)
    is_accepted = 200 <= status < 300
    if response is None and is_accepted:
        raise TokenUnavailable(
            f"the token endpoint returned {status} with {_content_type(headers)} that is not a JSON object",
            maybe_done=True,
        )
    if response is not None and is_accepted and _holds_token(provider, response):
        return _flatten_tokens(provider, response)
    fault = _refusal_error(status, headers, body, response)
    if fault is not None:
        raise fault
    return _flatten_tokens(provider, response or {})


def _refusal_error(
    status: int, headers: Mapping[str, str], body: bytes, response: Mapping[str, Any] | None
) -> TokenRefused | TokenUnavailable | None:
    """Return the error to raise for a response without a token. Return None for a 2xx response that reports no
    error."""
    error = (response or {}).get("error")
    if isinstance(error, str) and error in FINAL_CODES:
        description = (response or {}).get("error_description")
        return TokenRefused(error, description if isinstance(description, str) else "")
    refusal = refusal_in(body)
    if refusal is not None and refusal.code is not None:
        return TokenRefused(refusal.code, refusal.provider_text)
    reports_error = bool(error or (response or {}).get("errors"))
    if 200 <= status < 300 and not reports_error:
        return None
    reason = f"the token endpoint returned {status}"
    if response is None:
        reason += f" with {_content_type(headers)} that is not a JSON object" if body.strip() else " with an empty body"
    if refusal is not None and refusal.provider_text:
        reason += f": {refusal.provider_text}"
    is_refusal = refusal is not None and (status in REFUSAL_STATUSES or 200 <= status < 300)
    return TokenUnavailable(reason, refused_with=status if is_refusal else None)


def _flatten_tokens(provider: OAuthEntry, response: dict[str, Any]) -> dict[str, Any]:
    """Return `response` with ``access_token`` and ``refresh_token`` moved to the top level."""
    token, response = _token_in(provider, response)
    if not isinstance(token, str) or not token:
        raise TokenUnavailable("the token endpoint returned no access_token", maybe_done=True)
    if not fits_header(token):
        # A token is written into a header: RFC 6749 §A.12 allows visible ASCII and space only.
        reason = "the token endpoint returned a token with characters that no token may have"
        raise TokenUnavailable(reason, maybe_done=True)
    paths = provider.token_response
    token_at_path = dig(response, paths.refresh_token_path) if paths and paths.refresh_token_path else None
    refresh_token = token_at_path or response.get("refresh_token")
    flat_response = {**response, "access_token": token, "refresh_token": refresh_token}
    if not (isinstance(refresh_token, str) and refresh_token and fits_header(refresh_token)):
        # An unusable value counts as absent: the access token works until it expires.
        del flat_response["refresh_token"]
    return flat_response


def _token_in(provider: OAuthEntry, response: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the access token's value, and `response` with the members next to the token copied to the top level."""
    paths = provider.token_response
    token = dig(response, paths.token_path) if paths and paths.token_path else response.get("access_token")
    path = provider.alternate_access_token_response_path
    if token or not path:
        return token, response
    inner = dig(response, path)
    if isinstance(inner, dict):  # Slack puts the user's token response below `authed_user`.
        return inner.get("access_token"), {
            **response,
            **{name: value for name, value in inner.items() if name in _TOKEN_FIELDS},
        }
    return inner, response


def _holds_token(provider: OAuthEntry, response: dict[str, Any]) -> bool:
    """Return whether the response has a usable token. If so, an ``error`` next to the token is ignored."""
    token, _ = _token_in(provider, response)
    return isinstance(token, str) and bool(token) and fits_header(token)


def replaces_refresh_token(headers: Mapping[str, str], body: bytes, sent_tokens: Collection[str]) -> bool:
    """Return whether the response seems to contain a refresh token that is not in `sent_tokens`.

    The path to the token in the catalog entry can be wrong. So this function looks at any depth for a text of at least
    `MIN_TOKEN_CHARS` characters, in a member whose name contains ``refresh``. Times, states, URLs and sentences are
    ignored.
    """
    response = parse_object(headers, body)
    return response is not None and any(text not in sent_tokens for text in _refresh_texts(response))


def _refresh_texts(response: Mapping[str, Any]) -> Iterator[str]:
    unvisited: list[tuple[str, Any]] = list(response.items())
    while unvisited:  # no recursion: the provider chooses the depth
        name, value = unvisited.pop()
        if isinstance(value, Mapping):
            unvisited += value.items()
        elif isinstance(value, list):
            unvisited += [(name, item) for item in value]
        elif isinstance(value, str) and _may_be_refresh_token(name.lower(), value):
            yield value


def _may_be_refresh_token(name: str, text: str) -> bool:
    is_other = _OTHER_NAME.search(name) or _DATE.match(text) or "://" in text or any(map(str.isspace, text))
    return "refresh" in name and not is_other and len(text) >= MIN_TOKEN_CHARS


_OTHER_NAME: Final = re.compile(r"expir|issued|(?:at|after|count|date|policy|state|status|time|type)$")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


_TOKEN_FIELDS: Final = frozenset({"access_token", "refresh_token", "expires_in", "token_type", "scope"})


def fits_header(token: str) -> bool:
    """Return whether the length and characters of `token` are valid in a header (RFC 6749 §A.12)."""
    return len(token) <= MAX_TOKEN_CHARS and token.isascii() and token.isprintable()


def expires_at(provider: OAuthEntry, response: Mapping[str, Any], asked_at: datetime) -> datetime | None:
    """Return when the access token expires: ``expires_in`` seconds after `asked_at`, else at ``expires_at``, else
    `token_ttl` seconds after `asked_at`. Return None if the expiry is unknown. `asked_at`: when the token request was
    sent.

    The entry's `token_response` can name another member, also one with a timestamp. An expiry can be a number of
    seconds or milliseconds, an ISO 8601 text, or the time left, ``D:HH:MM``. A lifetime that is not a positive
    number is ignored, and so is an expiry that is not after `asked_at` or not valid in UTC. A lifetime is limited to
    ten years and never extended.
    """
    paths = provider.token_response
    expiry_value = dig(response, paths.expiry_path) if paths and paths.expiry_path else response.get("expires_in")
    if paths and paths.expiry_kind == "timestamp":
        lifetime, expiry_time = None, _epoch(expiry_value, asked_at)
    else:
        lifetime, expiry_time = positive_seconds(expiry_value), None
        if lifetime is not None and provider.expires_in_unit == "milliseconds":
            lifetime /= 1000
    if lifetime is None:
        expiry_time = expiry_time or _epoch(response.get("expires_at"), asked_at)
        if expiry_time is not None and expiry_time > asked_at:
            return min(expiry_time, asked_at + MAX_LIFETIME)
        lifetime = positive_seconds(provider.token_ttl)
    if lifetime is None:
        return None
    return asked_at + min(timedelta(seconds=min(lifetime, MAX_LIFETIME.total_seconds())), MAX_LIFETIME)


def positive_seconds(value: object) -> float | None:
    """Return a number of seconds above zero that is given as a number or as text. Return None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < float("inf") else None


_INDEX: Final = re.compile(r"-?[0-9]{1,6}")
_CONDITION: Final = re.compile(r"\[([A-Za-z0-9_-]{1,64})=([A-Za-z0-9_-]{1,64})\]")


def dig(value: object, path: str) -> Any:
    """Return the member at a dotted path, or None. If a key itself contains the dots, this key takes precedence. A
    number is an index in a list. ``[name=value]`` selects the first item of a list with that member.
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, list) and _INDEX.fullmatch(step):
            value = value[int(step)] if -len(value) <= int(step) < len(value) else None
        elif isinstance(value, list) and (condition := _CONDITION.fullmatch(step)):
            value = next((item for item in value if _has_member(item, *condition.groups())), None)
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


def _has_member(item: object, name: str, expected: str) -> bool:
    member = item.get(name) if isinstance(item, dict) else None
    return isinstance(member, bool | int | str) and expected == (
        str(member).lower() if isinstance(member, bool) else str(member)
    )


def jwt_claims(token: object) -> Mapping[str, Any]:
    """Return the claims of a signed JWT (RFC 7519 §3). Return no claims for an encrypted JWT, or if `token` is no JWT.

    The signature is not verified, because the token comes directly from the token endpoint, which TLS authenticates
    (OpenID Connect Core 1.0 §3.1.3.7, item 6). Do not use this function for a token from another source.
    """
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


_TIME_LEFT: Final = re.compile(r"([0-9]{1,4}):([0-9]{2}):([0-9]{2})")  # days, hours and minutes, as Nango reads it


def _epoch(value: object, asked_at: datetime) -> datetime | None:
    if isinstance(value, str) and (time_left := _TIME_LEFT.fullmatch(value)):
        days, hours, minutes = map(int, time_left.groups())
        return asked_at + timedelta(days=days, hours=hours, minutes=minutes)
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):  # OverflowError: the year in UTC is below 1 or above 9999
            return None
    number = positive_seconds(value)
    if number is None:
        return None
    seconds = number / 1000 if number > 1e11 else number  # some providers send milliseconds
    return datetime.fromtimestamp(min(seconds, 32_503_680_000), UTC)


def parse_object(headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in `body`. If the content type is that of a form, `body` can also be a form. Return None
    if `body` is neither an object nor a form."""
    try:
        value = error_codes.parse(body)
    except ValueError:
        if "form-urlencoded" not in _content_type(headers):
            return None
        # RFC 6749 §5.1 requires JSON, but GitHub and old Facebook versions send a form when they ignore `Accept`.
        value = dict(parse_qsl(body.decode("utf-8", "replace")))
    return value if isinstance(value, dict) else None


def _content_type(headers: Mapping[str, str]) -> str:
    """Return the media type of a response, in words if the field is missing."""
    content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return content_type.partition(";")[0].strip().lower()[:80] or "a body without Content-Type"


def retry_after(headers: Mapping[str, str]) -> int | None:
    """Return the value of ``Retry-After`` in seconds from now, or None if the field is absent or invalid. The field
    contains seconds or a date (RFC 9110 §10.2.3)."""
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "").strip()
    if text.isascii() and text.isdigit() and len(text) < 7:
        return int(text)
    try:
        date = parsedate_to_datetime(text[:64])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0, round((date - clock.now()).total_seconds()))
