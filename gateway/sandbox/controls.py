"""Endpoints that control the sandbox in tests: faults, revocation of all grants, counters; and its metadata."""

import json

from aiohttp import web

from gateway.sandbox import pages
from gateway.sandbox.accounts import SCOPES
from gateway.sandbox.faults import FAULTS, HEADER, BadFault
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker import SITES


async def welcome(request: web.Request) -> web.Response:
    return pages.welcome(request.app[SANDBOX].issuer)


async def avatar(request: web.Request) -> web.Response:
    """GET /avatars/{label}.svg: a site's picture, the avatarUrl of accessible-resources."""
    label = request.match_info["label"]
    if label not in {site.label for site in SITES.values()}:
        return _refusal(404, f"There is no site {label}.")
    return pages.avatar(label)


async def metadata(request: web.Request) -> web.Response:
    """GET /.well-known/oauth-authorization-server (RFC 8414)."""
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
    """GET /sandbox/faults: the armed faults, all known faults, and the header that sets one for a single request."""
    known = {
        name: {"summary": fault.summary, "paths": fault.paths, "options": fault.options}
        for name, fault in FAULTS.items()
    }
    armed = [armed.as_json() for armed in request.app[SANDBOX].faults.armed]
    return web.json_response({"armed": armed, "known": known, "header": f"{HEADER}: truncated-body; share=0.1"})


async def arm_fault(request: web.Request) -> web.Response:
    """POST /sandbox/faults ``{"name": "slow-token", "times": 1, "seconds": 3}``: 201 with the armed fault.

    Only as application/json: another site's web page cannot send that without a CORS preflight.
    """
    if request.content_type != "application/json":
        return _refusal(415, "Send it as Content-Type: application/json.")
    try:
        asked = await request.json()
    except json.JSONDecodeError:
        asked = None
    if not isinstance(asked, dict):
        return _refusal(400, 'The body must be a JSON object such as {"name": "slow-token", "times": 1}.')
    try:
        return web.json_response(request.app[SANDBOX].faults.arm(asked).as_json(), status=201)
    except BadFault as fault:
        return _refusal(400, str(fault))


async def clear_faults(request: web.Request) -> web.Response:
    """DELETE /sandbox/faults: removes all armed faults."""
    request.app[SANDBOX].faults.clear()
    return web.Response(status=204)


async def end_grants(request: web.Request) -> web.Response:
    """DELETE /sandbox/grants: revokes all grants; returns their number, ``{"ended": 1}``."""
    return web.json_response({"ended": request.app[SANDBOX].memory.grants.revoke_all()})


async def stats(request: web.Request) -> web.Response:
    """GET /sandbox/stats: the number of token requests by grant type, other counters, and the number of replays."""
    sandbox = request.app[SANDBOX]
    return web.json_response({**sandbox.counts, "replays": sandbox.memory.grants.replays})


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
