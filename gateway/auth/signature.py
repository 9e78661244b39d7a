"""SIGNATURE: a token that is made from a user name and a password, and used once.

UsernameToken Profile 1.1 §3.1 of WS-Security ("WSSE") defines the token's format.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import Dialogue, TokenExchangeMode
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.secret import Secret
from gateway.timestamps import iso

NONCE_BYTES: Final = 16
LIFETIME_S: Final = 300


class SignatureMode(TokenExchangeMode):
    """The credential is stored as ``{"type": "SIGNATURE", "username", "password", <further fields of the entry>,
    "token", "expires_at"}``.

    The API returns the stored `token` with the connection. Each proxied request gets a new token, because a token's
    nonce is valid for only one request.
    """

    name = "SIGNATURE"
    single_use: ClassVar = True

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        username = fields.text("username", limit=1024)
        password = fields.text("password", limit=1024)
        other_fields = fields.read_other_declared_fields(provider.credentials)
        fields.finish("token", "expires_at")
        if not username.isprintable() or '"' in username or not username.isascii():
            issue = Issue(
                "invalid_format",
                "A user name may have only printable ASCII characters and no quotes.",
                ("credentials", "username"),
            )
            raise InvalidRequest("invalid_body", issue.message, errors=[issue])
        return {"type": self.name, "username": username, "password": password, **other_fields}

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        yield from ()
        now = clock.now()
        lifetime_s = context.provider.signature.lifetime_s if context.provider.signature else LIFETIME_S
        token = username_token(credential["username"], credential["password"], secrets.token_hex(NONCE_BYTES), now)
        return {**credential, "token": token, "expires_at": iso(now + timedelta(seconds=lifetime_s))}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        new_token = Secret(
            username_token(credential["username"], credential["password"], secrets.token_hex(NONCE_BYTES), clock.now())
        )
        return {**typed_values(credential), "accessToken": new_token, "access_token": new_token}

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Bearer ${accessToken}"}


def username_token(username: str, password: str, nonce: str, created: datetime) -> str:
    """Return the token, a header value. The `nonce` is sent and hashed as plain text. The digest is written in hex,
    then encoded as base64."""
    created_text = created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # The profile requires SHA-1; the password is the secret part of the input.
    digest = hashlib.sha1(f"{nonce}{created_text}{password}".encode(), usedforsecurity=False).hexdigest()
    password_digest = base64.b64encode(digest.encode()).decode("ascii")
    return f'UsernameToken Username="{username}", PasswordDigest="{password_digest}", Nonce="{nonce}", Created="{created_text}"'
