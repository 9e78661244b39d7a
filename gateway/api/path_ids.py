"""Finds the integration or connection that a path names, by the rules of docs/compatibility.md#identifiers."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from gateway.access.caller import Caller
from gateway.access.refusals import no_integration
from gateway.api.request_body import wrong_query
from gateway.errors import InvalidRequest, Issue
from gateway.generation import Generation
from gateway.http.ids import CONNECTION_ID, PROVIDER_CONFIG_KEY, id_fault
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.which_connection import check_reach, check_tags
from gateway.records.connection import ConnectionRef
from gateway.runtime import Runtime

LONGEST: Final = 255


async def ref_of(
    request: web.Request, runtime: Runtime, generation: Generation, query: Mapping[str, str]
) -> ConnectionRef:
    """Return the connection in the path, of the integration in the query. Raises InvalidRequest and NotFound.

    NotFound if the integration does not exist, or if the caller's key may not use it or the connection.
    """
    connection_id = in_path(request, "connection_id", CONNECTION_ID, "connectionId")
    key = query.get("provider_config_key")
    if not key:
        raise wrong_query("provider_config_key", "Name the integration: ?provider_config_key=<key>.")
    return await known_ref(
        runtime, generation, request[CALLER], ConnectionRef(request[ENVIRONMENT].name, key, connection_id)
    )


async def known_ref(runtime: Runtime, generation: Generation, caller: Caller, ref: ConnectionRef) -> ConnectionRef:
    """Return `ref` if its integration exists and `caller` may use the connection. Raises InvalidRequest, NotFound."""
    key = ref.integration_id
    if len(key) > LONGEST or id_fault(key, PROVIDER_CONFIG_KEY):
        raise wrong_query(
            "provider_config_key",
            f"'provider_config_key' {id_fault(key, PROVIDER_CONFIG_KEY) or too_long()}.",
        )
    check_reach(caller, ref)
    if caller.policy.of_resources and not generation.integrations.has(ref.environment, key):
        raise no_integration(ref.environment, key)  # does not suggest the closest existing name
    generation.integrations.get(ref.environment, key)
    await check_tags(runtime, caller, ref)
    return ref


def unique_key(request: web.Request) -> str:
    """Return the integration's key in the path. Raises InvalidRequest."""
    return in_path(request, "unique_key", PROVIDER_CONFIG_KEY, "uniqueKey")


def too_long() -> str:
    return f"is longer than {LONGEST} characters"


def in_path(request: web.Request, name: str, form: str, example: str) -> str:
    """Return a part of the path, which must have that `form`. Raises InvalidRequest ``invalid_uri_params``, which names
    the part as `example`."""
    text = request.match_info[name]
    wrong = too_long() if len(text) > LONGEST else id_fault(text, form)
    if wrong is not None:
        message = f"'{example}' in the path {wrong}."
        raise InvalidRequest("invalid_uri_params", message, errors=[Issue("invalid_format", message, (example,))])
    return text
