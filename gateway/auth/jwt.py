"""JWT: the gateway signs the access token with the end user's key (RFC 7523). Also signs JWTs for other modes."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth.context import AuthContext, fill_json, plain_values
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import Dialogue, TokenExchangeMode
from gateway.auth.pasted_keys import BadKey, signing_key
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Jwt
from gateway.catalog.render import Moment, Unresolved, render_text
from gateway.catalog.value import BadValue
from gateway.oauth.token_responses import TokenRefused
from gateway.secret import Secret
from gateway.timestamps import iso

# ── Signs JSON Web Tokens as the entry's `jwt` says (RFC 7515, RFC 7519).


def signed_token(
    spec: Jwt, context: AuthContext, credential: Mapping[str, Secret], now: datetime
) -> tuple[Secret, datetime]:
    """Return the signed token and its expiry. Claims that lack a value are left out.

    Raises TokenRefused if the key is missing or unusable; only the person who gave the key can correct it.
    """
    secret_values = plain_values(context.values(credential))
    moment = Moment(now)
    issued_at_s = int(now.timestamp())
    ends_at_s = issued_at_s + spec.lifetime_s
    try:
        header = {"alg": "RS256", **fill_json(spec.header, secret_values, moment)}
        claims = {**fill_json(spec.claims, secret_values, moment), "iat": issued_at_s, "exp": ends_at_s}
        key = render_text(spec.key, secret_values, moment=moment, breaks=True)
    except BadValue as fault:  # raised by a function in a claim, such as the fingerprint of a key
        raise TokenRefused("invalid_key", f"a value that the token needs {fault.why}") from fault
    except Unresolved as fault:
        raise TokenRefused("invalid_key", f"the signing key is missing: {', '.join(fault.names)}") from fault
    token = sign(header, claims, key, spec.key_encoding)
    return token, now.replace(microsecond=0) + timedelta(seconds=spec.lifetime_s)


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], key: str, encoding: str | None = None) -> Secret:
    """Return a compact JWS (RFC 7515 §3.1). The header's ``alg`` decides the type of `key`. `encoding`: the format of
    an HMAC secret, None for plain text. Raises TokenRefused if the key cannot sign."""
    from joserfc import jws  # lazy import: few workers ever sign, and the module costs 2 MB per worker
    from joserfc import jwt as jose
    from joserfc.errors import JoseError

    alg = str(header["alg"])
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    try:
        token = jose.encode(
            dict(header), dict(claims), signing_key(key, alg, encoding), registry=registry, default_type=None
        )
    except BadKey as fault:
        raise TokenRefused("invalid_key", str(fault)) from fault
    except (JoseError, ValueError, TypeError, KeyError) as fault:  # KeyError: JWS does not support the curve
        raise TokenRefused("invalid_key", f"the token could not be signed with {alg[:20]}: {fault}") from fault
    return Secret(token)


# ── JWT: the gateway signs an access token with the end user's key, and signs a new token before the old token expires
# (RFC 7519).

TOKEN_MEMBERS: Final = ("token", "expires_at")


class JwtMode(TokenExchangeMode):
    """The credential is stored as ``{"type": "JWT", <fields of the entry>, "token", "expires_at"}``. The mode sends no
    request to the provider."""

    name = "JWT"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        typed_fields = {
            name: fields.read_declared_field(name, setting) for name, setting in provider.credentials.items()
        }
        fields.finish(*TOKEN_MEMBERS)  # an imported token is ignored, because the gateway signs its own token
        return {"type": self.name, **{name: value for name, value in typed_fields.items() if value is not None}}

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        yield from ()
        if context.provider.jwt is None:
            raise TokenRefused("invalid_key", f"the catalog entry '{context.provider.name}' has no jwt")
        typed_fields = {name: value for name, value in credential.items() if name not in TOKEN_MEMBERS}
        token, ends_at = signed_token(context.provider.jwt, context, typed_values(typed_fields), clock.now())
        return {**typed_fields, "token": token.reveal(), "expires_at": iso(ends_at)}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential, credential.get("token"))

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}
