"""Repeats a logged call as a dry run.

The page shows the request that would be sent now, with the credential masked, and whether the call's key allows the
request.
"""

from typing import Any

from aiohttp import web

from gateway.console.call_views import operation_of
from gateway.console.console_page import SignedIn, View, console_path
from gateway.console.key_views import verdict
from gateway.errors import GatewayError, InvalidRequest
from gateway.middleware.dry_run import masked_request
from gateway.middleware.key_limits import request_for_rules
from gateway.middleware.upstream import place_credential, provider_target
from gateway.off_loop import off_loop
from gateway.records.proxied_call import PROXY_PATH, UpstreamRequest
from gateway.runtime import RUNTIME

WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


async def dry_run(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Show the dry run.

    Nothing is sent to the provider's API, but an expired token is refreshed as in a normal call.
    """
    call = (await operation_of(request, environment, fields.get("id", ""))).operation
    if call.kind != "call" or not call.connection_id:
        raise InvalidRequest("invalid_body", "Only a proxied call with a connection can be repeated as a dry run.")
    runtime = request.app[RUNTIME]
    data: dict[str, Any] = {
        "title": "Dry run",
        "call": {"method": call.method, "path": call.path, "id": fields["id"]},
        "preview": None,
        "refusal": None,
        "key_id": call.key_id,
        "verdict": None,
        "back": console_path(request, environment, "call", id=fields["id"]),
    }
    try:
        opened_connection = await runtime.live.open_connection(environment, call.integration_id, call.connection_id)
        base = opened_connection.base
        upstream = UpstreamRequest(
            method=call.method,
            scheme=base.scheme,
            host=base.host,
            port=base.port,
            # the call log has the path below the base URL
            target=provider_target(opened_connection, base, PROXY_PATH + call.path, PROXY_PATH),
            base_path=base.path,
        )
        has_body = call.method in WITH_BODY
        if call.key_id is not None:
            key = await runtime.issuer.find(environment, call.key_id)
            sent_request = request_for_rules(call.method, upstream, opened_connection)
            data["verdict"] = await off_loop(str(key.id), verdict, key, sent_request, opened_connection.connection)
        place_credential(opened_connection, upstream, has_body=has_body)
        data["preview"] = masked_request(opened_connection, upstream, has_body=has_body, body=None)
    except GatewayError as fault:
        data["refusal"] = {"code": fault.code, "message": fault.message}
    return View("dry_run.html", data, "calls")
