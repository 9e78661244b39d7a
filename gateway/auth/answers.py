"""Reads what a sign-in answers where no OAuth error codes tell what it means."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gateway.auth.words import said
from gateway.catalog.provider import Provider
from gateway.oauth.token import (
    TokenRefused,
    TokenUnavailable,
    dig,
    fits_header,
    parse_object,
    positive_seconds,
    retry_after,
)
from gateway.records.call import Reply

PASSING: Final = frozenset({408, 425, 429})


def accepted_answer(reply: Reply) -> dict[str, Any]:
    """The answer of a sign-in that went well. Raises TokenRefused for any other 4xx, TokenUnavailable for all else.

    Where passwords and keys are exchanged, a 4xx means that they, or the tenant, are wrong, whatever words it has.
    """
    if reply.status >= 500 or reply.status in PASSING or not 200 <= reply.status < 500:
        raise TokenUnavailable(f"the token endpoint answered {reply.status}", retry_after(reply.headers))
    if reply.status >= 300:
        words = said(reply)
        raise TokenRefused("credentials_refused", f"it answered {reply.status}" + (f": {words}" if words else ""))
    answer = parse_object(reply.headers, reply.body)
    if answer is None:
        raise TokenUnavailable(f"the token endpoint answered {reply.status} with a body that is not a JSON object")
    return answer


def token_at(answer: dict[str, Any], paths: Sequence[str]) -> str:
    """The token at the first of `paths` that has one. Raises TokenRefused with what the answer says instead."""
    token = next((found for path in paths if isinstance(found := dig(answer, path), str) and found), None)
    if token is None:
        words = said(Reply(200, {}, json.dumps(answer).encode(), datetime.now(UTC)))
        raise TokenRefused("credentials_refused", f"its answer holds no {paths[0]}" + (f": {words}" if words else ""))
    if not fits_header(token):
        raise TokenUnavailable("the token endpoint's answer holds a token with characters that no token may have")
    return token


def jwt_ends_at(token: str) -> datetime | None:
    """The ``exp`` of a token that is a JWT (RFC 7519 §4.1.4), unverified: it was given to us for our own use."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    ends = positive_seconds(claims.get("exp")) if isinstance(claims, dict) else None
    return datetime.fromtimestamp(ends, UTC) if ends is not None and ends < 32_503_680_000 else None


def kept(provider: Provider, default: str) -> tuple[str, ...]:
    """Where the token lies: where the entry says, else at `default`."""
    places = provider.token_response
    return (places.token_path,) if places and places.token_path else (default,)
