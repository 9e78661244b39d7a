"""Verifies the result with which an end user returns from the connect page.

The module also creates the code verifier and the code challenge (PKCE) of a connect session.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

TYPE: Final = "connect-result+jwt"
PURPOSE: Final = b"connect-result"
CLOCK_SKEW_S: Final = 60  # accepted difference between the clocks of two machines


class InvalidReturn(ValueError):
    """The result does not come from this gateway, is not for this application, or is too old.

    Start again with a new session.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectResult:
    """The verified result of a connect session. The end user's browser brings the result to your application.

    `outcome`: ``connected``, ``pending`` (call `complete_connect_session`), ``cancelled`` or ``failed``. `session_id`:
    the session's id, which is also in the session's `poll_url`. `id`: the unique id of this result, with which you can
    refuse a result that is sent twice. `error`: the error code of a failed outcome. `state`: the session's state.
    """

    outcome: str
    session_id: str
    id: str
    provider_config_key: str | None = None
    connection_id: str | None = None
    error: str | None = None
    state: str | None = None


def verify_return(
    url_or_result: str, signing_key: str | Sequence[str], *, audience: str, state: str | None = None
) -> ConnectResult:
    """Verify and return the result of a connect session. Raises InvalidReturn. A result is valid for five minutes.

    `url_or_result`: the URL to which the end user returned, or only the value of its `result` parameter. `signing_key`:
    the environment's webhook signing key, or several keys during a rotation. `audience`: the origin of your
    `return_url`, such as ``https://app.example.com``. `state`: the session's state, which must equal the state of the
    result; None: no such check.
    """
    keys = [signing_key] if isinstance(signing_key, str) else list(signing_key)
    claims = _verify(_result_from(url_or_result), keys, audience)
    if state is not None and not _are_equal(claims.get("state"), state):
        raise InvalidReturn("The state does not belong to this end user's session. Start again with a new session.")
    try:
        result = {name: claims.get(name) for name in ("provider_config_key", "connection_id", "error", "state")}
        return ConnectResult(outcome=claims["outcome"], session_id=claims["session_id"], id=claims["jti"], **result)
    except KeyError as fault:
        raise InvalidReturn(f"The result lacks {fault}.") from fault


def new_code_verifier() -> str:
    """Return a code verifier: 43 characters with 256 random bits (RFC 7636 §4.1).

    Keep the code verifier in your user's session on your server.
    """
    return secrets.token_urlsafe(32)


def code_challenge(code_verifier: str) -> str:
    """Return the S256 challenge of a code verifier (RFC 7636 §4.2), for `code_challenge` of a connect session."""
    return base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()


def _result_from(url_or_result: str) -> str:
    if "?" not in url_or_result:
        return url_or_result
    results = parse_qs(urlsplit(url_or_result).query).get("result", [])
    if len(results) != 1:
        raise InvalidReturn("The URL must have exactly one 'result' in its query.")
    return results[0]


def _verify(token: str, keys: Sequence[str], audience: str) -> Mapping[str, Any]:
    from joserfc import jwt  # imported here: it loads `cryptography`, which most programs do not need
    from joserfc.errors import JoseError
    from joserfc.jwk import OctKey

    claims_registry = jwt.JWTClaimsRegistry(
        leeway=CLOCK_SKEW_S,
        exp={"essential": True},
        iat={"essential": True},
        aud={"essential": True, "value": audience},
    )
    for key in keys:
        result_key = hmac.digest(key.encode(), PURPOSE, "sha256").hex()
        try:
            decoded_token = jwt.decode(token, OctKey.import_key(result_key), algorithms=["HS256"])
        except (JoseError, ValueError):
            continue
        if decoded_token.header.get("typ") != TYPE:
            break
        try:
            claims_registry.validate(decoded_token.claims)
        except JoseError as fault:
            reason = "is older than five minutes" if fault.error == "expired_token" else f"is not valid: {fault}"
            raise InvalidReturn(f"The result {reason}. Start again with a new session.") from fault
        return decoded_token.claims
    raise InvalidReturn(
        "The result was not signed with this signing key. Use the webhook signing key of the session's environment."
    )


def _are_equal(received: object, expected: str) -> bool:
    return isinstance(received, str) and hmac.compare_digest(received.encode(), expected.encode())
