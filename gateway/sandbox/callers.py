"""Finds the user and the scopes of a request's access token, and defines the response to a refused request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gateway.sandbox.accounts import ACCOUNTS, DemoAccount
from gateway.sandbox.state import SANDBOX


@dataclass(frozen=True, slots=True)
class SandboxCaller:
    """The user for whom an access token was issued, and the token's scopes."""

    account: DemoAccount
    scopes: list[str]


class AccessRefused(Exception):
    """An error response in the format of the fake Jira."""

    def __init__(
        self, status: int, *messages: str, fields: Mapping[str, str] | None = None, challenge: str = ""
    ) -> None:
        super().__init__(*messages)
        self.status, self.messages, self.fields, self.challenge = status, messages, fields, challenge

    def as_response(self) -> web.Response:
        body: dict[str, Any]
        if self.status in (401, 403):
            body = {"code": self.status, "message": " ".join(self.messages)}
        else:
            body = {"errorMessages": list(self.messages), "errors": dict(self.fields or {})}
        headers = {"WWW-Authenticate": self.challenge} if self.challenge else {}
        return web.json_response(body, status=self.status, headers=headers)


def authenticated_caller(request: web.Request, scope: str | None = None) -> SandboxCaller:
    """Return the caller of the request. `scope`: a scope that the token must have; None: any valid token is enough.

    Raises AccessRefused: 401 for an invalid token, 403 for a missing scope (RFC 6750 §3.1).
    """
    request.app[SANDBOX].counts["api_requests"] += 1
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    grant_and_scopes = (
        request.app[SANDBOX].memory.grants.grant_and_scopes(token.strip()) if scheme.lower() == "bearer" else None
    )
    if grant_and_scopes is None:
        challenge = 'Bearer realm="sandbox", error="invalid_token"' if token else 'Bearer realm="sandbox"'
        raise AccessRefused(401, "Unauthorized; the access token is missing, expired or revoked.", challenge=challenge)
    grant, scopes = grant_and_scopes
    if scope is not None and scope not in scopes:
        challenge = f'Bearer realm="sandbox", error="insufficient_scope", scope="{scope}"'
        raise AccessRefused(403, f"Forbidden; this needs the scope {scope}.", challenge=challenge)
    return SandboxCaller(ACCOUNTS[grant.account_id], scopes)
