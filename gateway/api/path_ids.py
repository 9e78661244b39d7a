"""Finds the integration or connection that a path names, by the rules of docs/compatibility.md#identifiers."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from gateway.access.caller import Caller
from gateway.access.refusals import no_integration_error
from gateway.api.request_body import wrong_query
from gateway.errors import InvalidRequest, Issue
from gateway.generation import Generation
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import check_reach, check_tags
from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY, ConnectionRef, id_fault
from gateway.runtime import Runtime

MAX_ID_LENGTH: Final = 255


async def connection_in_path(
    request: web.Request, runtime: Runtime, generation: Generation, query: Mapping[str, str]
) -> ConnectionRef:
    """Return the connection that the request names: the path has the connection's id, and the query has the
    integration's key. Raises InvalidRequest.

    Raises NotFound if the integration does not exist, or if the caller's key may not use the integration or the
    connection.
    """
    connection_id = path_part(request, "connection_id", CONNECTION_ID, "connectionId")
    key = query.get("provider_config_key")
    if not key:
        raise wrong_query("provider_config_key", "Name the integration: ?provider_config_key=<key>.")
    return await check_usable(
        runtime, generation, request[CALLER], ConnectionRef(request[ENVIRONMENT].name, key, connection_id)
    )


async def check_usable(runtime: Runtime, generation: Generation, caller: Caller, ref: ConnectionRef) -> ConnectionRef:
    """Return `ref` if its integration exists and `caller` may use the connection. Raises InvalidRequest, NotFound."""
    key = ref.integration_id
    if len(key) > MAX_ID_LENGTH or id_fault(key, PROVIDER_CONFIG_KEY):
        raise wrong_query(
            "provider_config_key",
            f"'provider_config_key' {id_fault(key, PROVIDER_CONFIG_KEY) or too_long_message()}.",
        )
    check_reach(caller, ref)
    check_exists(generation, caller, ref.environment, key)
    await check_tags(runtime, caller, ref)
    return ref


def check_exists(generation: Generation, caller: Caller, environment: str, key: str) -> None:
    """Raise NotFound if there is no integration `key`. Only the error for a key without limits suggests another name."""
    if caller.policy.limits_resources and not generation.integrations.has(environment, key):
        raise no_integration_error(environment, key)
    generation.integrations.get(environment, key)


def unique_key(request: web.Request) -> str:
    """Return the integration's key in the path. Raises InvalidRequest."""
    return path_part(request, "unique_key", PROVIDER_CONFIG_KEY, "uniqueKey")


def too_long_message() -> str:
    return f"is longer than {MAX_ID_LENGTH} characters"


def path_part(request: web.Request, name: str, pattern: str, example: str) -> str:
    """Return the part `name` of the path. Raises InvalidRequest ``invalid_uri_params`` if the part does not match
    `pattern`. `example`: the name of the part in the error message."""
    text = request.match_info[name]
    fault = too_long_message() if len(text) > MAX_ID_LENGTH else id_fault(text, pattern)
    if fault is not None:
        message = f"'{example}' in the path {fault}."
        raise InvalidRequest("invalid_uri_params", message, errors=[Issue("invalid_format", message, (example,))])
    return text
