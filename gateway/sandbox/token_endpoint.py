"""The token endpoint (RFC 6749 §3.2, §4.1.3, §6) and the revocation endpoint (RFC 7009)."""

import base64
import binascii
import hmac
from typing import Any
from urllib.parse import unquote_plus

from aiohttp import web

from gateway.sandbox.issued_grants import GrantRefused, IssuedGrants, IssuedTokens, digest
from gateway.sandbox.state import SANDBOX, SandboxClient

_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class InvalidClient(Exception):
    """The client authentication is wrong or missing. The response is a 401 (RFC 6749 §5.2)."""


async def token(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/token``: exchange a code (with PKCE), or refresh tokens (with rotation)."""
    sandbox = request.app[SANDBOX]
    try:
        form = await _parameters(request)
        grant_type = form.get("grant_type", "")
        sandbox.counts[f"token_requests.{grant_type or 'none'}"] += 1
        client = _authenticate_client(request, form)
        return _response(_grant(sandbox.memory.grants, client, form))
    except GrantRefused as fault:
        return _refusal(400, fault.error, str(fault))
    except InvalidClient as fault:
        return _refusal(401, "invalid_client", str(fault))


async def revoke(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/revoke``: revoke a token. Return 200, also for an unknown token (RFC 7009 §2.2)."""
    try:
        form = await _parameters(request)
        client = _authenticate_client(request, form)
        if not form.get("token"):
            raise GrantRefused("invalid_request", "token is missing.")
        request.app[SANDBOX].counts["revocations"] += 1
        request.app[SANDBOX].memory.grants.revoke(form["token"], client_id=client.client_id)
        return web.Response(headers=_NO_STORE)
    except GrantRefused as fault:
        return _refusal(400, fault.error, str(fault))
    except InvalidClient as fault:
        return _refusal(401, "invalid_client", str(fault))


def _grant(grants: IssuedGrants, client: SandboxClient, form: dict[str, str]) -> IssuedTokens:
    match form.get("grant_type"):
        case "authorization_code":
            missing_names = [name for name in ("code", "redirect_uri", "code_verifier") if not form.get(name)]
            if missing_names:
                raise GrantRefused("invalid_request", f"Missing: {', '.join(missing_names)}.")
            return grants.exchange_code(
                form["code"],
                client_id=client.client_id,
                redirect_uri=form["redirect_uri"],
                verifier=form["code_verifier"],
            )
        case "refresh_token":
            if not form.get("refresh_token"):
                raise GrantRefused("invalid_request", "refresh_token is missing.")
            return grants.refresh(
                form["refresh_token"], client_id=client.client_id, scopes=form.get("scope", "").split() or None
            )
        case None:
            raise GrantRefused("invalid_request", "grant_type is missing.")
        case other:
            raise GrantRefused("unsupported_grant_type", f"{other!r} is not supported.")


async def _parameters(request: web.Request) -> dict[str, str]:
    """Return the parameters in the body. Raises GrantRefused.

    The body is a form or a JSON object, because some providers accept JSON at this endpoint.
    """
    if request.content_type == "application/json":
        try:
            parameters = await request.json()
        except ValueError:
            raise GrantRefused("invalid_request", "The body is not JSON.") from None
        if not isinstance(parameters, dict) or not all(isinstance(value, str) for value in parameters.values()):
            raise GrantRefused("invalid_request", "The body must be a JSON object of strings.")
        return parameters
    if request.content_type != "application/x-www-form-urlencoded":
        raise GrantRefused("invalid_request", "Send a form: Content-Type: application/x-www-form-urlencoded.")
    form = await request.post()
    if len(form) != len(set(form)):
        raise GrantRefused("invalid_request", "A parameter was sent more than once.")
    return {name: str(value) for name, value in form.items()}


def _authenticate_client(request: web.Request, form: dict[str, str]) -> SandboxClient:
    """Return the client that sent the request. Raises GrantRefused, InvalidClient.

    The client must authenticate in exactly one way (RFC 6749 §2.3).
    """
    in_header = "Authorization" in request.headers
    if in_header and "client_secret" in form:
        raise GrantRefused("invalid_request", "Two client authentications, Basic and body; send exactly one.")
    client_id, secret = (
        _basic(request.headers["Authorization"])
        if in_header
        else (form.get("client_id", ""), form.get("client_secret", ""))
    )
    if form.get("client_id", client_id) != client_id:
        raise GrantRefused("invalid_request", "client_id differs from that in Authorization.")
    client = request.app[SANDBOX].clients.get(client_id)
    if client is None or not hmac.compare_digest(digest(secret), client.secret_digest):
        raise InvalidClient("Unknown client, or the secret is wrong.")
    return client


def _basic(field: str) -> tuple[str, str]:
    """Return the client ID and the secret in a Basic header, where both are form-encoded (RFC 6749 §2.3.1)."""
    scheme, _, encoded = field.partition(" ")
    try:
        client_id, colon, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if scheme.lower() != "basic" or not colon:
        raise InvalidClient("Authorization must be 'Basic <base64 of client_id:client_secret>'.")
    return unquote_plus(client_id), unquote_plus(secret)


def _response(issued: IssuedTokens) -> web.Response:
    body: dict[str, Any] = {
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "scope": " ".join(issued.scopes),
    }
    if issued.refresh_token is not None:
        body["refresh_token"] = issued.refresh_token
    return web.json_response(body, headers=_NO_STORE)


def _refusal(status: int, error: str, description: str) -> web.Response:
    challenge = {"WWW-Authenticate": 'Basic realm="sandbox"'} if status == 401 else {}
    return web.json_response(
        {"error": error, "error_description": description}, status=status, headers={**_NO_STORE, **challenge}
    )
