"""An environment's signing key for events, and its variables."""

from aiohttp import web

from gateway.api import responses
from gateway.api.request_body import read_query, require_empty_body
from gateway.events.signatures import rotate
from gateway.middleware.facts import ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.runtime import RUNTIME, generation_of
from gateway.timestamps import iso

# ── A new key for signing events (docs/compatibility.md#environment).


@needs("environment:webhook_signing_key:rotate")
async def rotate_signing_key(request: web.Request) -> web.Response:
    """Create a new signing key. Respond with 200 and the new key. Until `previous_key_retires_at`, the previous key
    signs events too."""
    read_query(request, ())
    require_empty_body(request)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    key, retires_at = await rotate(generation.config, runtime.store, request[ENVIRONMENT].name)
    runtime.deliverer.key_changed()
    body: responses.SigningKey = {"webhook_signing_key": key.reveal(), "previous_key_retires_at": iso(retires_at)}
    return web.json_response(responses.SigningKeyResponse(data=body), headers={"Cache-Control": "no-store"})


# ── ``GET /environment-variables``: ``environments.<name>.variables`` of gateway.yaml
# (docs/compatibility.md#environment).


@needs("environment:variables:read")
async def list_variables(request: web.Request) -> web.Response:
    """Respond with an array of the variables, in the order of gateway.yaml. The values are those of the current
    configuration, so a reload can change them."""
    read_query(request, ())
    require_empty_body(request)
    configured_variables = generation_of(request).config.environments[request[ENVIRONMENT].name].variables
    variables: responses.Variables = [
        responses.Variable(name=name, value=value.reveal()) for name, value in configured_variables.items()
    ]
    return web.json_response(variables)
