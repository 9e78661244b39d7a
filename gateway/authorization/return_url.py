"""Redirects the end user to the application's `return_url`, with `state` and a signed result of the session.

The result is a JWT (RFC 7519) that is signed with HS256. The result has its own `typ`, so that no other JWT is accepted
as a result (RFC 8725 §3.11). The signing key is derived from the environment's webhook signing key, so that the
signature of an event is never valid for a result. Clients verify the result with `gateway.client.verify_return`.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal
from urllib.parse import urlencode, urlsplit

from gateway import clock
from gateway.auth.jwt import sign
from gateway.config.values import page_origin
from gateway.records.connecting import ConnectSession
from gateway.secret import Secret

LIFETIME: Final = timedelta(minutes=5)
JWT_TYPE: Final = "connect-result+jwt"
KEY_PURPOSE: Final = b"connect-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnResult:
    """The result of a session, as the application's page receives it.

    `outcome` is ``pending`` if the application must still complete the connection. `error`: a code of docs/http-api.md.
    """

    outcome: Literal["connected", "pending", "cancelled", "failed"]
    provider_config_key: str | None = None
    connection_id: str | None = None
    error: str | None = None


def signed_return_url(session: ConnectSession, result: ReturnResult, *, public_url: str, signing_key: Secret) -> str:
    """Return `session.return_url`, which must be set, with `state` and the signed `result` added to the query.
    `signing_key`: the environment's current webhook signing key."""
    assert session.return_url is not None
    claims: dict[str, Any] = {
        "iss": public_url,
        "aud": origin_of(session.return_url),
        "iat": int(clock.now().timestamp()),
        "exp": int((clock.now() + LIFETIME).timestamp()),
        "jti": secrets.token_urlsafe(16),
        "session_id": session.digest,
        "outcome": result.outcome,
        "provider_config_key": result.provider_config_key,
        "connection_id": result.connection_id,
        "error": result.error,
        "state": session.return_state,
    }
    present_claims = {name: value for name, value in claims.items() if value is not None}
    token = sign({"alg": "HS256", "typ": JWT_TYPE}, present_claims, result_key(signing_key).reveal())
    added_parameters = {"state": session.return_state} if session.return_state is not None else {}
    separator = "&" if urlsplit(session.return_url).query else "?"
    return (
        f"{session.return_url.removesuffix('?')}{separator}{urlencode({**added_parameters, 'result': token.reveal()})}"
    )


def result_key(signing_key: Secret) -> Secret:
    """Return the key that signs results: the HMAC-SHA256 of ``connect-result`` in hex, made with the text of
    `signing_key`."""
    return Secret(hmac.digest(signing_key.reveal().encode(), KEY_PURPOSE, "sha256").hex())


def origin_of(return_url: str) -> str:
    """Return the origin of `return_url` as a browser writes it. Results have this origin in `aud`. Raises ValueError if
    the URL is not https, unless its host is this machine."""
    parts = urlsplit(return_url)
    return page_origin(f"{parts.scheme}://{parts.netloc}")
