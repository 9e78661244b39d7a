"""Finds the integration or connection that an address names, by the rules of docs/compatibility.md#identifiers."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from gateway.access.caller import Caller
from gateway.access.refusals import no_integration
from gateway.api.request_body import wrong_query
from gateway.errors import InvalidRequest, Issue
from gateway.generation import Generation
from gateway.http.ids import CONNECTION_ID, PROVIDER_CONFIG_KEY, misfit
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.which_connection import check_reach, check_tags
from gateway.records.connection import ConnectionRef
from gateway.runtime import Runtime

LONGEST: Final = 255


async def ref_of(
    request: web.Request, runtime: Runtime, generation: Generation, query: Mapping[str, str]
) -> ConnectionRef:
    """The connection in the path, of the integration in the query. Raises InvalidRequest, and NotFound for the latter.

    NotFound too for what the caller's key does not reach.
    """
    connection_id = in_path(request, "connection_id", CONNECTION_ID, "connectionId")
    key = query.get("provider_config_key")
    if not key:
        raise wrong_query("provider_config_key", "Name the integration: ?provider_config_key=<key>.")
    return await known_ref(
        runtime, generation, request[CALLER], ConnectionRef(request[ENVIRONMENT].name, key, connection_id)
    )


async def known_ref(runtime: Runtime, generation: Generation, caller: Caller, ref: ConnectionRef) -> ConnectionRef:
    """`ref`, whose integration there is, and which `caller` reaches. Raises InvalidRequest, NotFound."""
    key = ref.integration_id
    if len(key) > LONGEST or misfit(key, PROVIDER_CONFIG_KEY):
        raise wrong_query(
            "provider_config_key",
            f"'provider_config_key' {misfit(key, PROVIDER_CONFIG_KEY) or too_long()}.",
        )
    check_reach(caller, ref)
    if caller.policy.of_resources and not generation.integrations.has(ref.environment, key):
        raise no_integration(ref.environment, key)  # without the nearest name there is
    generation.integrations.get(ref.environment, key)
    await check_tags(runtime, caller, ref)
    return ref


def unique_key(request: web.Request) -> str:
    """The integration's key in the path. Raises InvalidRequest."""
    return in_path(request, "unique_key", PROVIDER_CONFIG_KEY, "uniqueKey")


def too_long() -> str:
    return f"is longer than {LONGEST} characters"


def in_path(request: web.Request, name: str, form: str, example: str) -> str:
    """A part of the path: of that `form`. Raises InvalidRequest ``invalid_uri_params``, which calls it
    `example`."""
    text = request.match_info[name]
    wrong = too_long() if len(text) > LONGEST else misfit(text, form)
    if wrong is not None:
        message = f"'{example}' in the path {wrong}."
        raise InvalidRequest("invalid_uri_params", message, errors=[Issue("invalid_format", message, (example,))])
    return text
