"""Endpoints with which tests control the sandbox: faults, revocation of all grants, counters.

The module also has the start page, the pictures of sites, and the metadata of the authorization server.
"""

import json

from aiohttp import web

from gateway.sandbox import pages
from gateway.sandbox.accounts import SCOPES
from gateway.sandbox.faults import FAULTS, HEADER, InvalidFault
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker import SITES


async def welcome(request: web.Request) -> web.Response:
    return pages.welcome(request.app[SANDBOX].issuer)


async def avatar(request: web.Request) -> web.Response:
    """Handle ``GET /avatars/{label}.svg``: return a site's picture.

    The list of accessible resources contains this URL.
    """
    label = request.match_info["label"]
    if label not in {site.label for site in SITES.values()}:
        return _refusal(404, f"There is no site {label}.")
    return pages.avatar(label)


async def metadata(request: web.Request) -> web.Response:
    """Handle ``GET /.well-known/oauth-authorization-server``: return the server's metadata (RFC 8414)."""
    issuer = request.app[SANDBOX].issuer
    methods = ["client_secret_basic", "client_secret_post"]
    return web.json_response(
        {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/oauth/authorize",
            "token_endpoint": f"{issuer}/oauth/token",
            "revocation_endpoint": f"{issuer}/oauth/revoke",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
    )


async def list_faults(request: web.Request) -> web.Response:
    """Handle ``GET /sandbox/faults``: return the armed faults and all possible faults.

    Also return an example of the header with which a test chooses a fault for a single request.
    """
    known_faults = {
        name: {"summary": fault.summary, "paths": fault.paths, "options": fault.options}
        for name, fault in FAULTS.items()
    }
    armed_faults = [fault.as_json() for fault in request.app[SANDBOX].faults.armed]
    return web.json_response(
        {"armed": armed_faults, "known": known_faults, "header": f"{HEADER}: truncated-body; share=0.1"}
    )


async def arm_fault(request: web.Request) -> web.Response:
    """Handle ``POST /sandbox/faults``: arm a fault, such as ``{"name": "slow-token", "times": 1, "seconds": 3}``.

    The response is a 201 with the armed fault. The body must be application/json, because a web page of another site
    cannot send this type without a CORS preflight.
    """
    if request.content_type != "application/json":
        return _refusal(415, "Send it as Content-Type: application/json.")
    try:
        body = await request.json()
    except json.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        return _refusal(400, 'The body must be a JSON object such as {"name": "slow-token", "times": 1}.')
    try:
        return web.json_response(request.app[SANDBOX].faults.arm(body).as_json(), status=201)
    except InvalidFault as fault:
        return _refusal(400, str(fault))


async def clear_faults(request: web.Request) -> web.Response:
    """Handle ``DELETE /sandbox/faults``: remove all armed faults."""
    request.app[SANDBOX].faults.clear()
    return web.Response(status=204)


async def end_grants(request: web.Request) -> web.Response:
    """Handle ``DELETE /sandbox/grants``: revoke all grants, and return their number, such as ``{"ended": 1}``."""
    return web.json_response({"ended": request.app[SANDBOX].memory.grants.revoke_all()})


async def stats(request: web.Request) -> web.Response:
    """Handle ``GET /sandbox/stats``: return counters, such as the token requests by grant type, and the replays."""
    sandbox = request.app[SANDBOX]
    return web.json_response({**sandbox.counts, "replays": sandbox.memory.grants.replays})


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
