"""Keys of the environment: mint, list, revoke (docs/compatibility.md#environment)."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Annotated, Final

from aiohttp import web
from pydantic import AfterValidator, AwareDatetime, Field

from gateway import clock
from gateway.access.caller import UNLIMITED
from gateway.access.freeze_operations import base_path
from gateway.access.key_forms import (
    MAX_COMPARED,
    MAX_RULES,
    OVERLAP,
    RequestedKey,
    base_path_warnings,
    integration_warnings,
    name_warnings,
    rule_warnings,
)
from gateway.access.key_forms import MAX_ITEMS as MAX_VALUES
from gateway.access.key_policy import Policy
from gateway.access.scopes import LIST_INTEGRATIONS
from gateway.api import responses
from gateway.api.request_body import Strict, query_number, read_json, read_query, require_empty_body, wrong_query
from gateway.api.shapes import MAX_NAMES
from gateway.catalog.load_catalog import Catalog
from gateway.errors import GatewayError, InvalidRequest, Issue
from gateway.generation import Generation
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.records.access import ANY_INTEGRATION, KeyKind, KeyLimits, MintedKey
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.secret import Secret
from gateway.text import whole_number
from gateway.timestamps import iso

MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
MAX_LIFETIME_S: Final = 10 * 365 * 86400
MAX_WARNINGS: Final = 20  # a key can have many rules, and the search for the method that was meant takes time


class LimitsBody(Strict):
    """Limits of a key. A call must satisfy all of them; see docs/keys.md."""

    integrations: list[str] = Field(default_factory=list, max_length=MAX_NAMES)
    connections: list[str] = Field(default_factory=list, max_length=MAX_NAMES)
    tags: dict[str, str] = Field(default_factory=dict, max_length=MAX_VALUES)
    rules: list[str] = Field(default_factory=list, max_length=MAX_RULES)
    hosts: list[str] = Field(default_factory=list, max_length=MAX_NAMES)
    rate: int | None = None
    budget: int | None = None


def _checked_utc_time(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time of the years 1 to 9999 in UTC") from None


class NewKeyBody(Strict):
    """A new key. `environment_id` is accepted for compatibility and ignored: the new key belongs to the caller's
    environment."""

    display_name: str
    environment_id: int | None = None
    kind: KeyKind = "key"
    scopes: list[str] | None = Field(default=None, max_length=MAX_VALUES)
    limits: LimitsBody = Field(default_factory=LimitsBody)
    expires_at: Annotated[AwareDatetime, AfterValidator(_checked_utc_time)] | None = Field(default=None, strict=False)
    expires_in_s: int | None = Field(default=None, ge=1, le=MAX_LIFETIME_S)
    replaces: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    overlap_s: int | None = Field(default=None, ge=0, le=MAX_LIFETIME_S)


class RevokeKeyBody(Strict):
    key_id: Annotated[int, Field(ge=0, lt=2**63)]
    environment_id: int | None = None


@needs("environment:api_keys:create", limits=True)
async def create_key(request: web.Request) -> web.Response:
    """Mint a key. Respond with 200, the key's data and the secret key itself, which is shown only once."""
    read_query(request, ())
    body = await read_json(request, NewKeyBody)
    caller = request[CALLER]
    runtime, generation = request.app[RUNTIME], generation_of(request)
    requested, environment = requested_key(body), request[ENVIRONMENT].name
    secret, key = await runtime.issuer.create(requested, environment, describe_requester(caller.key), caller)
    new_key: responses.NewKey = {**key_json(key), **secret_json(secret, key, generation.public_url)}
    if warnings := key_warnings(requested, environment, generation, caller.policy):
        new_key["warnings"] = warnings
    return web.json_response(responses.NewKeyResponse(data=new_key), headers={"Cache-Control": "no-store"})


@needs("environment:api_keys:list", limits=True)
async def list_keys(request: web.Request) -> web.Response:
    """List keys, the newest first. Revoked and expired keys are listed only with ``include=ended``."""
    require_empty_body(request)
    query = read_query(request, ("limit", "cursor", "include"), numbers={"limit": (1, MAX_LIMIT), "cursor": (1, 2**62)})
    if query.get("include", "ended") != "ended":
        raise wrong_query("include", "'include' may be 'ended'.")
    limit = query_number(query, "limit") or DEFAULT_LIMIT
    caller_key = request[CALLER].key
    keys = await request.app[RUNTIME].store.keys.list(
        request[ENVIRONMENT].name,
        alive_at=None if "include" in query else clock.now(),
        parent_id=caller_key.id if caller_key is not None and caller_key.limits else None,
        before_id=query_number(query, "cursor"),
        limit=limit + 1,
    )
    key_list: responses.KeyList = {"data": [key_json(key) for key in keys[:limit]]}
    if len(keys) > limit:
        key_list["next_cursor"] = str(keys[limit - 1].id)
    return web.json_response(key_list)


@needs("environment:api_keys:delete", limits=True)
async def revoke_key(request: web.Request) -> web.Response:
    """Revoke a key. The path names the key; Nango's clients name the key in the body instead."""
    read_query(request, ())
    key_id_text = request.match_info.get("key_id")
    if key_id_text is not None:
        require_empty_body(request)
    key_id = (await read_json(request, RevokeKeyBody)).key_id if key_id_text is None else _key_id(key_id_text)
    caller = request[CALLER]
    revoked = await request.app[RUNTIME].issuer.revoke(
        request[ENVIRONMENT].name, key_id, describe_requester(caller.key), caller
    )
    return web.json_response(responses.RevokedKeys(success=True, revoked=revoked))


def key_json(key: MintedKey) -> responses.Key:
    """Return a minted key as the API and the command line show it. The result has the last four characters of the
    secret key, never the whole secret key."""
    key_object: responses.Key = {
        "id": key.id,
        "display_name": key.name,
        "kind": key.kind,
        "last_four": key.last_four,
        "scopes": list(key.scopes),
        "limits": [key_limits.as_json() for key_limits in key.limits],
        "created_at": iso(key.created_at),
        "created_by": key.created_by,
    }
    if key.rate is not None:
        key_object["rate"] = key.rate
    if key.budget is not None:
        key_object["budget"] = key.budget
        key_object["calls"] = key.calls
    if key.expires_at is not None:
        key_object["expires_at"] = iso(key.expires_at)
    if key.revoked_at is not None:
        key_object["revoked_at"] = iso(key.revoked_at)
    if key.last_used_at is not None:
        key_object["last_used_at"] = iso(key.last_used_at)
    return key_object


def key_warnings(requested: RequestedKey, environment: str, generation: Generation, policy: Policy) -> list[str]:
    """Return warnings about limits of a new key that are probably mistakes, at most `MAX_WARNINGS`.

    `policy`: the caller's policy. No warning reveals an integration that the caller may not list.
    """
    limits = requested.limits
    warnings_about_integrations: Iterable[str] = ()
    warnings_about_paths: Iterable[str] = ()
    if policy.allows(LIST_INTEGRATIONS):
        visible_integrations = {
            integration.integration_id: integration
            for integration in generation.integrations.list_in(environment)
            if policy.reaches_integration(integration.integration_id)
        }
        warnings_about_integrations = integration_warnings(limits, environment, list(visible_integrations))
        warnings_about_paths = base_path_warnings(limits, partial(_base_path, visible_integrations, generation.catalog))
    warnings_about_names = name_warnings(limits)
    return list(
        islice(
            chain(warnings_about_names, warnings_about_integrations, rule_warnings(limits.rules), warnings_about_paths),
            MAX_WARNINGS,
        )
    )


async def operator_warnings(requested: RequestedKey, environment: str, runtime: Runtime) -> list[str]:
    """Return the warnings of `key_warnings`, and one for each connection in the limits that does not exist.

    For operators only: a key that mints another key must not learn which connections exist.
    """
    generation = runtime.generation
    integrations = [integration.integration_id for integration in generation.integrations.list_in(environment)]
    refs: dict[str, list[ConnectionRef]] = {}
    for text in requested.limits.connections[:MAX_WARNINGS]:
        integration_id, _, connection_id = text.partition("/")
        ids = integrations if integration_id == ANY_INTEGRATION else [integration_id]
        if set(ids) <= set(integrations) and len(ids) <= MAX_COMPARED and connection_id != "*":
            refs[text] = [ConnectionRef(environment, known_id, connection_id) for known_id in ids]
    warnings = key_warnings(requested, environment, generation, UNLIMITED)
    try:
        marks = await runtime.store.connections.marks([ref for some_refs in refs.values() for ref in some_refs])
    except GatewayError:  # the key is already stored, and must be shown
        return warnings
    missing = (
        f"there is no connection '{text[:64]}' in environment '{environment}'. The key cannot use it until it exists; "
        "`gateway connections list` shows the connections"
        for text, some_refs in refs.items()
        if not any(ref in marks for ref in some_refs)
    )
    return [*warnings, *missing][:MAX_WARNINGS]


def _base_path(integrations: Mapping[str, Integration], catalog: Catalog, integration_id: str) -> str | None:
    """Return the path to which an integration sends all requests, as rules have it; None if it is unknown."""
    integration = integrations.get(integration_id)
    provider = None if integration is None else catalog.get(integration.provider)
    if integration is None or provider is None or integration.allowed_origins or provider.proxy.allowed_origins:
        return None
    return base_path(provider)


def secret_json(secret: Secret, key: MintedKey, public_url: str) -> responses.KeyItself:
    """Return the members that are shown only once: the secret key and, for a capability, its URL."""
    secret_members: responses.KeyItself = {"secret": secret.reveal()}
    if key.kind == "capability":
        secret_members["base_url"] = f"{public_url}/c/{secret.reveal()}"
    return secret_members


def requested_key(body: NewKeyBody) -> RequestedKey:
    """Convert `body` into a RequestedKey. Raises InvalidRequest if `body` has both `expires_at` and `expires_in_s`."""
    if body.expires_at is not None and body.expires_in_s is not None:
        issue = Issue("custom", "Send either expires_at or expires_in_s.", ("expires_in_s",))
        raise InvalidRequest("invalid_body", issue.message, errors=[issue])
    expires_at: datetime | None = body.expires_at
    if body.expires_in_s is not None:
        expires_at = clock.now() + timedelta(seconds=body.expires_in_s)
    limits = body.limits
    return RequestedKey(
        name=body.display_name,
        kind=body.kind,
        scopes=body.scopes,
        limits=KeyLimits(
            tuple(limits.integrations),
            tuple(limits.connections),
            {name.lower(): value for name, value in limits.tags.items()},
            tuple(limits.rules),
            tuple(limits.hosts),
        ),
        rate=limits.rate,
        budget=limits.budget,
        expires_at=expires_at,
        replaces=body.replaces,
        overlap=OVERLAP if body.overlap_s is None else timedelta(seconds=body.overlap_s),
    )


def _key_id(text: str) -> int:
    key_id = whole_number(text)
    if key_id is None:
        issue = Issue("invalid_type", "A key's id must be a whole number.", ("key_id",))
        raise InvalidRequest("invalid_uri_params", issue.message, errors=[issue])
    return key_id


def describe_requester(requester: MintedKey | None) -> str:
    """Return the text for `created_by`, which names the key that requests the new key. `requester` None: a key of
    gateway.yaml."""
    return "a key of gateway.yaml" if requester is None else f"key {requester.id} ({requester.name})"
