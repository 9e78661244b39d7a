"""Where every provider sends the browser back to: ends the flow and says in plain words what came of it."""

from aiohttp import web

from gateway.connections.flow import CallbackFailed, state_in
from gateway.errors import GatewayError
from gateway.pages.environment import failed, page
from gateway.services import SERVICES


async def callback(request: web.Request) -> web.Response:
    """HTML: 200 with the integration and the connection's id, 400 with what went wrong and what to do next."""
    services = request.app[SERVICES]
    state = state_in(request.query)
    spent = True
    try:
        connection = await services.flows.finish(request.query, request.cookies)
    except GatewayError as fault:
        answer = _failed(request, fault)
        spent = fault.code != "invalid_state"  # such a one may be another browser's, or still to come
    else:
        provider = services.catalog.get(connection.provider)
        site = connection.config.get("baseUrl") or connection.config.get("subdomain")
        answer = page(
            request,
            "connect/result.html",
            title=f"{provider.display_name if provider else connection.provider} is connected",
            message="You can close this window and go back to the application.",
            success=True,
            integration_id=connection.ref.integration_id,
            connection_id=connection.ref.connection_id,
            site=site,
            code=None,
            request_id=None,
        )
    name = services.flows.cookie_name(state)
    if spent and name in request.cookies:
        answer.del_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True, samesite="Lax")
    return answer


def _failed(request: web.Request, fault: GatewayError) -> web.Response:
    if isinstance(fault, CallbackFailed):
        return failed(request, fault, integration_id=fault.integration_id)
    return failed(request, fault)
