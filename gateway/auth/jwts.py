"""Signs JSON Web Tokens as the entry's `jwt` says (RFC 7515, RFC 7519)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gateway.auth.context import Context
from gateway.auth.filling import filled_json, revealed
from gateway.auth.keys import BadKey, signing_key
from gateway.catalog.interpolate import Moment, Unresolved, render_text
from gateway.catalog.signing import Jwt
from gateway.oauth.token import TokenRefused
from gateway.secret import Secret


def signed(spec: Jwt, context: Context, credential: Mapping[str, Secret], now: datetime) -> tuple[Secret, datetime]:
    """The token, and when it ends. Claims with a value that is not there are left out.

    Raises TokenRefused where the key cannot be used: only whoever gave it can mend that.
    """
    known = revealed(context.values(credential))
    moment = Moment(now)
    header = {"alg": "RS256", **filled_json(spec.header, known, moment)}
    issued = int(now.timestamp())
    ends = issued + spec.lifetime_s
    claims = {**filled_json(spec.claims, known, moment), "iat": issued, "exp": ends}
    try:
        key = render_text(spec.key, known, moment=moment, breaks=True)
    except Unresolved as fault:
        raise TokenRefused("invalid_key", f"the key that signs is missing: {', '.join(fault.names)}") from fault
    token = sign(header, claims, key, spec.key_encoding)
    return token, now.replace(microsecond=0) + timedelta(seconds=spec.lifetime_s)


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], key: str, encoding: str | None = None) -> Secret:
    """A compact JWS (RFC 7515 §3.1) with `header`, whose ``alg`` decides what `key` must be. Raises TokenRefused."""
    from joserfc import jws  # here, since few workers ever sign, and it costs each 2 MB
    from joserfc import jwt as jose
    from joserfc.errors import JoseError

    alg = str(header["alg"])
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    try:
        made = jose.encode(
            dict(header), dict(claims), signing_key(key, alg, encoding), registry=registry, default_type=None
        )
    except BadKey as fault:
        raise TokenRefused("invalid_key", str(fault)) from fault
    except (JoseError, ValueError, TypeError) as fault:
        raise TokenRefused("invalid_key", f"the token could not be signed with {alg[:20]}: {fault}") from fault
    return Secret(made)
