"""Reads a provider's responses: makes their texts safe to show, and interprets the response to a login request."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.oauth.token_responses import (
    TokenRefused,
    TokenUnavailable,
    dig,
    fits_header,
    jwt_claims,
    parse_object,
    positive_seconds,
    retry_after,
)
from gateway.records.provider_call import Reply
from gateway.text import printable

# ── Makes a provider's text safe to show: short, one line, printable.

MAX_TEXT: Final = 500
_TEXT_MEMBERS: Final = (
    "error_description", "message", "error_message", "errormessage", "msg", "detail", "title", "error", "reason",
    "description", "faultstring",
)  # fmt: skip
_CONTAINER_MEMBERS: Final = (
    "error",
    "errors",
    "fault",
    "status",
    "data",
    "response",
    "response_data",
    "result",
    "meta",
)


def safe_text(text: str) -> str:
    """Return at most `MAX_TEXT` characters of `text`, as one printable line without a full stop at the end. The result
    can be quoted in a sentence."""
    return printable(text[:MAX_TEXT]).rstrip(" .")


def refusal_text(reply: Reply) -> str:
    """Return the error text of a refusal: the usual members of a JSON object, else the beginning of the text. Return an
    empty text for an HTML page or an empty body.

    The error text can quote secrets of the request, so the caller must mask secrets with `provider_call.scrubbed`.
    """
    text = reply.body[:65536].decode("utf-8", "replace")
    try:
        response = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.lstrip()[:1] == "<" else safe_text(" ".join(text.split()))
    messages = dict.fromkeys(safe_text(part) for part in _messages(response, 0))
    return safe_text(": ".join(filter(None, messages)))


def _messages(response: Any, depth: int) -> Iterator[str]:
    if isinstance(response, str):
        yield response
    elif isinstance(response, list) and response and depth < 4:
        yield from _messages(response[0], depth + 1)
    elif isinstance(response, Mapping) and depth < 4:
        response = {str(name).lower(): value for name, value in response.items()}
        code = response.get("error")
        if isinstance(code, str):
            yield code
        top_level_message = next(
            (response[name] for name in _TEXT_MEMBERS if isinstance(response.get(name), str) and response[name]), None
        )
        if top_level_message is not None:
            yield top_level_message
            return
        for name in _CONTAINER_MEMBERS:
            if isinstance(response.get(name), Mapping | list):
                yield from _messages(response[name], depth + 1)
                return


# ── Reads the response to a login request that uses no OAuth error codes.

TEMPORARY_STATUSES: Final = frozenset({408, 425, 429})


def accepted_response(reply: Reply) -> dict[str, Any]:
    """Return the response to a successful login. Raises TokenRefused after a 4xx that is not temporary. Raises
    TokenUnavailable after a temporary error or any other status, also after a redirect, because redirects are not
    followed.

    When a password or key is exchanged, a 4xx means that the password, the key or the tenant is wrong, whatever the
    text of the response says.
    """
    is_refusal = 400 <= reply.status < 500 and reply.status not in TEMPORARY_STATUSES
    if not is_refusal and not 200 <= reply.status < 300:
        raise TokenUnavailable(f"the token endpoint returned {reply.status}", retry_after(reply.headers))
    if is_refusal:
        provider_text = refusal_text(reply)
        raise TokenRefused(
            "credentials_refused", f"it returned {reply.status}" + (f": {provider_text}" if provider_text else "")
        )
    response = parse_object(reply.headers, reply.body)
    if response is None:
        raise TokenUnavailable(f"the token endpoint returned {reply.status} with a body that is not a JSON object")
    return response


def token_at(response: dict[str, Any], paths: Sequence[str]) -> str:
    """Return the token at the first of `paths` that has a token. If no path has a token, raise TokenRefused with the
    error text of the response. Raise TokenUnavailable if the token is not valid in a header."""
    token = next((candidate for path in paths if isinstance(candidate := dig(response, path), str) and candidate), None)
    if token is None:
        provider_text = refusal_text(Reply(200, {}, json.dumps(response).encode(), datetime.now(UTC)))
        raise TokenRefused(
            "credentials_refused", f"its response has no {paths[0]}" + (f": {provider_text}" if provider_text else "")
        )
    if not fits_header(token):
        raise TokenUnavailable("the token endpoint returned a token with characters that no token may have")
    return token


def jwt_ends_at(token: str) -> datetime | None:
    """Return the ``exp`` of a token that is a JWT (RFC 7519 §4.1.4), or None. The signature is not verified, because
    the provider itself sent the token to the gateway."""
    expires_at = positive_seconds(jwt_claims(token).get("exp"))
    return datetime.fromtimestamp(expires_at, UTC) if expires_at is not None and expires_at < 32_503_680_000 else None


def token_paths(provider: Provider, default: str) -> tuple[str, ...]:
    """Return the paths of the token in a response: the entry's path, else `default`."""
    response_paths = provider.token_response
    return (response_paths.token_path,) if response_paths and response_paths.token_path else (default,)
