"""The state of the authorization server: codes, grants and tokens. Tokens are stored only as digests.

A grant is one user's consent to one application; all tokens from this consent belong to the grant. A refresh token
contains the name of its grant. So every refresh token except the newest is recognized as a replay, without a list of
all issued tokens.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gateway import clock
from gateway.sandbox.accounts import OFFLINE_SCOPE

CODE_TTL_S: Final = 60
LOGIN_TTL_S: Final = 8 * 3600
REFRESH_PREFIX: Final = "sbx_rt_"


class GrantRefused(Exception):
    """A token request is refused. `error`: the error code of RFC 6749 §5.2. The text contains the reason."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error


@dataclass(slots=True)
class AuthorizationCode:
    """An authorization code. `expires_at`: the time of expiry in epoch seconds.

    `grant`: the name of the grant after the exchange of the code, so that a replay can revoke the grant; None before.
    """

    client_id: str
    redirect_uri: str
    challenge: str
    account_id: str
    scopes: list[str]
    expires_at: float
    grant: str | None = None


@dataclass(slots=True)
class Grant:
    """A user's consent to an application.

    `refresh`: the digest of the valid refresh token; None if the grant has no scope `offline_access`.
    """

    client_id: str
    account_id: str
    scopes: list[str]
    refresh: str | None = None
    revoked: bool = False


@dataclass(slots=True)
class IssuedAccess:
    """An access token. `grant`: the name of its grant. `expires_at`: the time of expiry in epoch seconds."""

    grant: str
    scopes: list[str]
    expires_at: float


@dataclass(slots=True)
class Login:
    """The login of a browser. `expires_at`: the time of expiry in epoch seconds."""

    account_id: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """The tokens in a response of the token endpoint.

    `expires_in`: the lifetime of the access token in seconds. `refresh_token`: None if there is no such token.
    """

    access_token: str
    expires_in: int
    scopes: list[str]
    refresh_token: str | None


@dataclass(slots=True)
class IssuedGrants:
    """The state of the authorization server.

    Methods change it in place and set `changed`; `SandboxMemory` then writes the state file.
    """

    token_ttl_s: int = 60
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    access: dict[str, IssuedAccess] = field(default_factory=dict)
    logins: dict[str, Login] = field(default_factory=dict)
    changed: bool = False
    replays: int = 0

    def issue_code(
        self, *, client_id: str, redirect_uri: str, challenge: str, account_id: str, scopes: list[str]
    ) -> str:
        """Return a code that can be exchanged only once, within `CODE_TTL_S` seconds (RFC 6749 §4.1.2)."""
        code = secrets.token_urlsafe(32)
        self.codes[digest(code)] = AuthorizationCode(
            client_id, redirect_uri, challenge, account_id, scopes, _now() + CODE_TTL_S
        )
        self.changed = True
        return code

    def exchange_code(self, code: str, *, client_id: str, redirect_uri: str, verifier: str) -> IssuedTokens:
        """Exchange a code for tokens. Raises GrantRefused.

        A second use of the code revokes the tokens that the first use returned (RFC 6749 §4.1.2).
        """
        authorization_code = self.codes.get(digest(code))
        if authorization_code is None or authorization_code.client_id != client_id:
            raise GrantRefused("invalid_grant", "This code is unknown here; start the authorization again.")
        if authorization_code.grant is not None:
            self._revoke(authorization_code.grant)
            self.replays += 1
            raise GrantRefused("invalid_grant", "This code was already used; all tokens issued for it are revoked.")
        if authorization_code.expires_at <= _now():
            raise GrantRefused(
                "invalid_grant", f"This code is older than {CODE_TTL_S} s; start the authorization again."
            )
        if authorization_code.redirect_uri != redirect_uri:
            raise GrantRefused("invalid_grant", "redirect_uri differs from that of the authorization request.")
        if not secrets.compare_digest(s256(verifier), authorization_code.challenge):
            raise GrantRefused("invalid_grant", "code_verifier does not match the code_challenge.")
        authorization_code.grant = secrets.token_hex(16)
        self.grants[authorization_code.grant] = Grant(
            client_id, authorization_code.account_id, authorization_code.scopes
        )
        return self._issue(authorization_code.grant, authorization_code.scopes)

    def refresh(self, token: str, *, client_id: str, scopes: list[str] | None) -> IssuedTokens:
        """Return new tokens for a refresh token. Raises GrantRefused.

        The given refresh token is invalid afterwards (RFC 9700 §4.14.2).
        """
        name, grant = self._grant_of_refresh_token(token)
        if grant is None or grant.client_id != client_id:
            raise GrantRefused("invalid_grant", "This refresh token is unknown here.")
        if grant.revoked:
            raise GrantRefused("invalid_grant", "This grant was revoked; ask the user to authorize again.")
        if grant.refresh is None or not secrets.compare_digest(digest(token), grant.refresh):
            self._revoke(name)
            self.replays += 1
            raise GrantRefused("invalid_grant", "This refresh token was already used; the whole grant is now revoked.")
        extra_scopes = [scope for scope in scopes or () if scope not in grant.scopes]
        if extra_scopes:
            raise GrantRefused("invalid_scope", f"Not part of the grant: {' '.join(extra_scopes)}")
        return self._issue(name, scopes or grant.scopes)

    def revoke(self, token: str, *, client_id: str) -> None:
        """Revoke the grant of a refresh token, or a single access token. Ignore an unknown token (RFC 7009 §2.2)."""
        name, grant = self._grant_of_refresh_token(token)
        if grant is not None and grant.client_id == client_id:
            self._revoke(name)
            return
        access_token = self.access.get(digest(token))
        if access_token is not None and self.grants[access_token.grant].client_id == client_id:
            del self.access[digest(token)]
            self.changed = True

    def revoke_all(self) -> int:
        """Revoke every valid grant; return the number of these grants.

        Users do the same at a real provider, on its page of connected applications.
        """
        valid_names = [name for name, grant in self.grants.items() if not grant.revoked]
        for name in valid_names:
            self._revoke(name)
        return len(valid_names)

    def grant_and_scopes(self, token: str) -> tuple[Grant, list[str]] | None:
        """Return the grant and scopes of an access token; None if the token is unknown, expired or revoked."""
        access_token = self.access.get(digest(token))
        if access_token is None or access_token.expires_at <= _now() or self.grants[access_token.grant].revoked:
            return None
        return self.grants[access_token.grant], access_token.scopes

    def log_in(self, account_id: str) -> str:
        """Log a user in for `LOGIN_TTL_S` seconds; return the value of the login cookie."""
        token = secrets.token_urlsafe(32)
        self.logins[digest(token)] = Login(account_id, _now() + LOGIN_TTL_S)
        self.changed = True
        return token

    def logged_in_account(self, token: str) -> str | None:
        """Return the account_id of a login cookie; None if the cookie is unknown or expired."""
        login = self.logins.get(digest(token))
        return login.account_id if login is not None and login.expires_at > _now() else None

    def log_out(self, token: str) -> None:
        self.changed = self.logins.pop(digest(token), None) is not None or self.changed

    def as_json(self) -> dict[str, Any]:
        """Return the state for the state file, without expired items.

        Codes are kept for a day after their expiry, so that a replay is detected.
        """
        now, yesterday = _now(), _now() - 86400
        return {
            "codes": {key: asdict(entry) for key, entry in self.codes.items() if entry.expires_at > yesterday},
            "grants": {key: asdict(entry) for key, entry in self.grants.items()},
            "access": {key: asdict(entry) for key, entry in self.access.items() if entry.expires_at > now},
            "logins": {key: asdict(entry) for key, entry in self.logins.items() if entry.expires_at > now},
        }

    @classmethod
    def from_json(cls, stored_json: Mapping[str, Any], *, token_ttl_s: int) -> "IssuedGrants":
        """Return the state from the output of `as_json`. Raises KeyError or TypeError for any other value."""
        return cls(
            token_ttl_s=token_ttl_s,
            codes={key: AuthorizationCode(**entry) for key, entry in stored_json["codes"].items()},
            grants={key: Grant(**entry) for key, entry in stored_json["grants"].items()},
            access={key: IssuedAccess(**entry) for key, entry in stored_json["access"].items()},
            logins={key: Login(**entry) for key, entry in stored_json["logins"].items()},
        )

    def _issue(self, name: str, scopes: list[str]) -> IssuedTokens:
        grant, token = self.grants[name], f"sbx_at_{secrets.token_urlsafe(32)}"
        self.access[digest(token)] = IssuedAccess(name, scopes, _now() + self.token_ttl_s)
        refresh_token = f"{REFRESH_PREFIX}{name}_{secrets.token_urlsafe(32)}" if OFFLINE_SCOPE in grant.scopes else None
        grant.refresh = digest(refresh_token) if refresh_token else None
        self.changed = True
        return IssuedTokens(token, self.token_ttl_s, scopes, refresh_token)

    def _grant_of_refresh_token(self, token: str) -> tuple[str, Grant | None]:
        name = token.removeprefix(REFRESH_PREFIX).partition("_")[0] if token.startswith(REFRESH_PREFIX) else ""
        return name, self.grants.get(name)

    def _revoke(self, name: str) -> None:
        self.grants[name].revoked = True
        self.access = {key: access_token for key, access_token in self.access.items() if access_token.grant != name}
        self.changed = True


def digest(token: str) -> str:
    """Return the hex SHA-256 of a token. Tokens have 256 random bits, so a slow hash is not needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def s256(verifier: str) -> str:
    """Return the code challenge of a verifier (RFC 7636 §4.2), in unpadded URL-safe base64."""
    hashed = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()


def _now() -> float:
    return clock.now().timestamp()
