"""Client registration and client authentication with the rules of the MCP Python SDK (mcp 2.3)."""

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

METHODS = ("client_secret_post", "client_secret_basic")


class NotAuthenticated(Exception):
    """The client authentication failed. The message is the same as in the SDK."""


@dataclass
class SdkClients:
    """The SDK's registration handler and its ClientAuthenticator, rule by rule. Only the body's `client_id` is read."""

    registered: dict[str, dict[str, Any]] = field(default_factory=dict)

    def register(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a registration. The authentication method is the requested one, by default
        `client_secret_post`.
        """
        method = request.get("token_endpoint_auth_method") or METHODS[0]
        client: dict[str, Any] = {**request, "client_id": secrets.token_hex(8), "token_endpoint_auth_method": method}
        if method != "none":
            client |= {"client_secret": secrets.token_hex(32), "client_secret_expires_at": 0}
        self.registered[client["client_id"]] = client
        return client

    def authenticate(self, form: Mapping[str, str], authorization: str) -> dict[str, Any]:
        """Return the client that sent this token request. Raises NotAuthenticated."""
        client_id = form.get("client_id")
        if not client_id:
            raise NotAuthenticated("Missing client_id")
        client = self.registered.get(client_id)
        if client is None:
            raise NotAuthenticated("Invalid client_id")
        secret: str | None = None
        match client["token_endpoint_auth_method"]:
            case "client_secret_basic":
                secret = _basic_secret(client_id, authorization)
            case "client_secret_post":
                secret = form.get("client_secret")
        if client.get("client_secret") and client["client_secret"] != secret:
            raise NotAuthenticated("Invalid client_secret" if secret else "Client secret is required")
        return client


def _basic_secret(client_id: str, authorization: str) -> str:
    if not authorization.startswith("Basic "):
        raise NotAuthenticated("Missing or invalid Basic authentication in Authorization header")
    try:
        name, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as fault:
        raise NotAuthenticated("Invalid Basic authentication header") from fault
    if unquote(name) != client_id:
        raise NotAuthenticated("Client ID mismatch in Basic auth")
    return unquote(secret)
