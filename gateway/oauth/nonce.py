"""The nonce of OpenID Connect: ties an ID token to the authorization that it was asked with (OpenID Connect Core §3.1.2.1).

The ID token's signature is not verified: it comes straight from the token endpoint, over TLS (§3.1.3.7, item 6), and nothing but
its nonce is read.
"""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from typing import Any, Final

SCOPE: Final = "openid"


def wanted(scopes: Sequence[str], params: Mapping[str, str]) -> bool:
    """Whether an ID token is asked for, by `scopes` or by a ``scope`` among the entry's and the caller's `params`.

    The response type is always ``code``, so none comes back in the callback.
    """
    return SCOPE in scopes or SCOPE in params.get("scope", "").replace(",", " ").split()


def new_nonce() -> str:
    """256 random bits, for one authorization."""
    return secrets.token_urlsafe(32)


def accepted(sent: str, answer: Mapping[str, Any]) -> bool:
    """Whether a token answer's ``id_token`` has the nonce that was sent. Without an ID token, or one with a nonce that can be
    read, there is nothing to compare: some providers (LinkedIn) leave it out, and PKCE and `state` hold in any case.
    """
    found = _nonce_in(answer.get("id_token"))
    return found is None or compare_digest(found.encode("utf-8", "surrogatepass"), sent.encode())


def _nonce_in(id_token: object) -> str | None:
    """The claim of a signed ID token (RFC 7519 §3). None for no token, an encrypted one, or one without the claim."""
    parts = id_token.split(".") if isinstance(id_token, str) else []
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(claims, dict) or claims.get("nonce") is None:
        return None
    return str(claims["nonce"])
