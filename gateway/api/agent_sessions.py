"""Creates and ends agent sessions, in Nango's format (ADR 60). A session is a minted key for one tenant's connections,
with an MCP URL of its own."""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Any, Final, Literal

from aiohttp import web
from pydantic import Field

from gateway import clock
from gateway.access.freeze_operations import host_and_path, patterns_may_overlap
from gateway.access.issue_keys import may_see_key
from gateway.access.key_forms import RequestedKey
from gateway.access.key_rule import MAX_RULE_LENGTH, OPERATIONS_PREFIX
from gateway.access.operation_rules import RISK_LETTERS
from gateway.access.scopes import AGENT_SESSIONS, PROXY
from gateway.api import responses
from gateway.api.keys import describe_requester
from gateway.api.request_body import Strict, read_json, read_query, require_empty_body
from gateway.api.shapes import MAX_NAMES, ConnectionId, ProviderConfigKey, Tags
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.yaml_file import UnreadableFile
from gateway.errors import Code, InvalidRequest, Issue, NotFound, NotImplementedHere
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.off_loop import off_loop
from gateway.records.access import KeyLimits, MintedKey
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, generation_of
from gateway.store import ListFilter
from gateway.text import whole_number
from gateway.timestamps import iso, parse_duration

# Marks the keys of agent sessions: `MintedKey.created_by` begins with this text, and callers cannot set `created_by`.
CREATED_BY_PREFIX: Final = "an agent session of "
DEFAULT_LIFETIME: Final = timedelta(hours=1)
MAX_LIFETIME: Final = timedelta(days=30)
MAX_SELECTORS: Final = 10
MAX_MATCHES: Final = 1000  # maximum number of connections that match one selector
MAX_LISTED_TOOLS: Final = 12  # above this number of tools, agents find tools by search (docs/agents.md#tools)
META_TOOLS: Final = ("nango_tool_search", "nango_execute", "nango_proxy")
ALL_RISKS: Final = ",".join(RISK_LETTERS)


class ToolListBody(Strict):
    tools: list[str] = Field(max_length=MAX_NAMES)


class PolicyBody(Strict):
    allow: ToolListBody | Literal["*"] | None = None
    deny: ToolListBody | None = None


class SelectorBody(Strict):
    tags: Tags = Field(min_length=1)


class PinnedBody(Strict):
    integration_id: ProviderConfigKey
    connection_id: ConnectionId


class TenantConnectionsBody(Strict):
    any: list[SelectorBody] = Field(default_factory=list, max_length=MAX_SELECTORS)
    pinned: list[PinnedBody] = Field(default_factory=list, max_length=MAX_NAMES)


class TenantBody(Strict):
    connections: TenantConnectionsBody


class NewAgentSession(Strict):
    """A new agent session. `toolset`: the allowed operations of each integration, by id; see
    docs/agents.md#sessions."""

    tenant: TenantBody
    toolset: Literal["*"] | Annotated[dict[str, PolicyBody | Literal["*"]], Field(max_length=MAX_NAMES)] = "*"
    pinned_tools: dict[str, Annotated[list[str], Field(max_length=MAX_NAMES)]] = Field(
        default_factory=dict, max_length=MAX_NAMES
    )
    meta_tools: dict[str, bool] = Field(default_factory=dict, max_length=MAX_NAMES)
    expires_in: str | None = None


@dataclass(frozen=True, slots=True)
class SessionTools:
    """The operations of one integration that a session may call. `host`: the host of the provider's base URL. `ids`:
    the ids of the operations. `is_complete`: whether these are all operations that the catalog has on that host."""

    integration: Integration
    host: str
    ids: tuple[str, ...]
    is_complete: bool

    def rules(self) -> Iterator[str]:
        """Yield key rules that allow these operations. No rule is longer than `MAX_RULE_LENGTH`."""
        prefix = f"{OPERATIONS_PREFIX}{self.integration.provider} "
        if self.is_complete:
            yield prefix + ALL_RISKS
            return
        line = ""
        for id_ in self.ids:
            if line and len(prefix) + len(line) + 1 + len(id_) > MAX_RULE_LENGTH:
                yield prefix + line
                line = ""
            line = f"{line},{id_}" if line else id_
        if line:
            yield prefix + line


@needs(AGENT_SESSIONS, limits=True)
async def create_agent_session(request: web.Request) -> web.Response:
    """Create a session. Respond with 200 and the session's token, which is shown only once. Raises InvalidRequest,
    Forbidden, NotFound, NotImplementedHere."""
    read_query(request, ())
    body = await read_json(request, NewAgentSession)
    runtime, generation, caller = request.app[RUNTIME], generation_of(request), request[CALLER]
    environment, now = request[ENVIRONMENT].name, clock.now()
    ends_at = now + _parse_lifetime(body.expires_in)
    integrations = {
        integration.integration_id: integration
        for integration in generation.integrations.list_in(environment)
        if caller.policy.reaches_integration(integration.integration_id)
    }
    tools = await off_loop(caller.share, _tools_by_integration, body, integrations, generation.catalog)
    _check_meta_tools(body.meta_tools)
    _check_pinned_tools(body.pinned_tools, tools)
    connections = await _tenant_connections(request, body.tenant.connections, tools)
    connected_tools = [tools[name] for name in connections]
    _check_hosts_differ(connected_tools)
    rules = tuple(
        dict.fromkeys(rule for session_tools in connected_tools if session_tools.ids for rule in session_tools.rules())
    )
    if not rules:
        raise _not_offered_error(
            f"The catalog has no operations that the toolset allows for {_quote_names(connections)}, so the session would "
            "have no tools. Mint a key with rules of methods and paths instead: POST /environment/api-keys."
        )
    tool_count = sum(len(session_tools.ids) for session_tools in connected_tools)
    if any(body.pinned_tools.values()) and tool_count > MAX_LISTED_TOOLS:
        raise _not_offered_error(
            f"Tools cannot be pinned: the session has {tool_count} tools; above {MAX_LISTED_TOOLS}, agents find them by search. "
            f"Leave pinned_tools out, or let the toolset allow at most {MAX_LISTED_TOOLS} tools."
        )
    limits = KeyLimits(
        connections=tuple(f"{name}/{connection}" for name, connection in connections.items()), rules=rules
    )
    requested = RequestedKey(
        name=f"agent session {secrets.token_hex(8)}", scopes=(PROXY,), limits=limits, expires_at=ends_at
    )
    token, key = await runtime.issuer.create(
        requested, environment, CREATED_BY_PREFIX + describe_requester(caller.key), caller
    )
    session_json: responses.AgentSession = {
        "session_id": str(key.id),
        "session_token": token.reveal(),
        "mcp_url": f"{generation.public_url}/session/{key.id}/mcp",
        "expires_at": iso(key.expires_at or ends_at),
        "toolset": {
            name: _summary(session_tools, name in connections, tool_count) for name, session_tools in tools.items()
        },
        "meta_tools": {"nango_tool_search": True, "nango_execute": True, "nango_proxy": False},
    }
    return web.json_response(responses.AgentSessionResponse(data=session_json), headers={"Cache-Control": "no-store"})


@needs(AGENT_SESSIONS, limits=True)
async def end_agent_session(request: web.Request) -> web.Response:
    """End a session. Respond with 200 and the time and reason of the end, even if the session had ended before. Raises
    NotFound."""
    read_query(request, ())
    require_empty_body(request)
    session_id, caller, issuer = request.match_info["session_id"], request[CALLER], request.app[RUNTIME].issuer
    environment, now = request[ENVIRONMENT].name, clock.now()
    key = await request.app[RUNTIME].store.keys.find(environment, _key_id(session_id))
    if key is None or not is_session(key) or not may_see_key(caller, key):
        raise session_not_found(session_id)
    ended_at, reason = key.revoked_at, "terminated"
    if ended_at is None and key.expires_at is not None and key.expires_at <= now:
        ended_at, reason = key.expires_at, "expired"
    if ended_at is None:
        await issuer.revoke(environment, key.id, CREATED_BY_PREFIX + describe_requester(caller.key), caller)
        revoked_key = await request.app[RUNTIME].store.keys.find(environment, key.id)
        ended_at = (revoked_key and revoked_key.revoked_at) or now
    ended_session: responses.EndedAgentSession = {
        "session_id": session_id,
        "ended_at": iso(ended_at),
        "reason": "expired" if reason == "expired" else "terminated",
    }
    return web.json_response(responses.EndedAgentSessionResponse(data=ended_session))


def is_session(key: MintedKey) -> bool:
    """Return whether `key` is the key of an agent session."""
    return key.created_by.startswith(CREATED_BY_PREFIX)


def session_not_found(session_id: str) -> NotFound:
    return NotFound(
        "session_not_found",
        f"There is no session '{session_id[:64]}' for this key. Create one with POST /sessions, and send its token to its "
        "own mcp_url.",
    )


def _key_id(session_id: str) -> int:
    key_id = whole_number(session_id)
    if key_id is None:
        raise session_not_found(session_id)
    return key_id


def _parse_lifetime(expires_in: str | None) -> timedelta:
    lifetime = DEFAULT_LIFETIME if expires_in is None else parse_duration(expires_in)
    if lifetime is None or not timedelta(0) < lifetime <= MAX_LIFETIME:
        issue = Issue(
            "custom", "expires_in must be a number and a unit, up to 30 days: 90s, 15m, 12h or 30d.", ("expires_in",)
        )
        raise InvalidRequest("invalid_body", issue.message, errors=[issue])
    return lifetime


# ── Tools: for each integration, operations of its provider's API.


def _tools_by_integration(
    body: NewAgentSession, integrations: Mapping[str, Integration], catalog: Catalog
) -> dict[str, SessionTools]:
    """Return the tools of each integration in the toolset, by integration key.

    Raises InvalidRequest, NotImplementedHere.
    """
    toolset = body.toolset
    if toolset == "*":
        return {
            name: SessionTools(integration, *_catalog_operations(integration, catalog), is_complete=True)
            for name, integration in integrations.items()
        }
    unknown_names = [name for name in toolset if name not in integrations]
    if unknown_names:
        raise _refusal(
            "unknown_integration",
            f"The environment has no integration {_quote_names(unknown_names)}. GET /integrations lists them.",
            {"integrations": unknown_names},
        )
    tools: dict[str, SessionTools] = {}
    invalid_tools: list[dict[str, str]] = []
    for name, policy in toolset.items():
        host, ids = _catalog_operations(integrations[name], catalog)
        if not ids:
            raise _not_offered_error(
                "The tools of a session are operations of the catalog, and the catalog has no operations of "
                f"{integrations[name].provider} ('{name}'). Mint a key with rules of methods and paths instead: "
                "POST /environment/api-keys."
            )
        allowed_tools = (
            dict.fromkeys(policy.allow.tools) if policy != "*" and isinstance(policy.allow, ToolListBody) else None
        )
        denied_tools = dict.fromkeys(policy.deny.tools) if policy != "*" and policy.deny is not None else {}
        known_ids = set(ids)
        invalid_tools += [
            {"integration_id": name, "tool": tool}
            for tool in (*(allowed_tools or ()), *denied_tools)
            if tool not in known_ids
        ]
        allowed_ids = [
            id_ for id_ in ids if (allowed_tools is None or id_ in allowed_tools) and id_ not in denied_tools
        ]
        tools[name] = SessionTools(
            integrations[name], host, tuple(allowed_ids), is_complete=len(allowed_ids) == len(ids)
        )
    if invalid_tools:
        providers = sorted({integrations[tool["integration_id"]].provider for tool in invalid_tools})
        raise _refusal(
            "unknown_tool",
            f"{_quote_names([tool['tool'] for tool in invalid_tools])}: no such operation. Functions, syncs and records are not "
            f"offered here; name operations: GET /providers/{providers[0]}/operations lists them.",
            {"tools": invalid_tools},
        )
    return tools


def _catalog_operations(integration: Integration, catalog: Catalog) -> tuple[str, tuple[str, ...]]:
    """Return the host of the provider's base URL, and the ids of the operations on that host. Both are empty if the
    catalog has no readable operations of the provider, or if the provider's API is GraphQL."""
    provider = catalog.get(integration.provider)
    if provider is None:
        return "", ()
    try:
        operations = catalog.operations(provider.name)
    except UnreadableFile:
        operations = None
    if operations is None or operations.is_graphql:
        return "", ()
    return host_and_path(provider)[0], tuple(
        operation.id for operation in operations.operations if not operation.origin
    )


def _check_pinned_tools(pinned: Mapping[str, Sequence[str]], tools: Mapping[str, SessionTools]) -> None:
    allowed_ids = {name: frozenset(tools[name].ids) for name in pinned if name in tools}
    tools_outside_toolset = [
        {"integration_id": name, "tool": tool}
        for name, pinned_ids in pinned.items()
        for tool in pinned_ids
        if tool not in allowed_ids.get(name, ())
    ]
    if tools_outside_toolset:
        raise _refusal(
            "tool_not_in_toolset",
            f"pinned_tools names {_quote_names([tool['tool'] for tool in tools_outside_toolset])}, which the toolset does not "
            "allow. Allow it in the toolset too.",
            {"pinned": tools_outside_toolset},
        )


def _check_meta_tools(meta_tools: Mapping[str, bool]) -> None:
    unknown_names = [name for name in meta_tools if name not in META_TOOLS]
    if unknown_names:
        raise _refusal(
            "unknown_meta_tool",
            f"There is no meta tool {_quote_names(unknown_names)}, only {', '.join(META_TOOLS)}.",
            {"meta_tools": unknown_names},
        )
    if meta_tools.get("nango_proxy"):
        raise _not_offered_error(
            "nango_proxy would bypass the toolset. The tool call_api is always available and sends what the toolset allows. "
            "For more, mint a key with wider rules: POST /environment/api-keys."
        )
    disabled_tools = [name for name, is_enabled in meta_tools.items() if not is_enabled and name != "nango_proxy"]
    if disabled_tools:
        raise _not_offered_error(
            f"{_quote_names(disabled_tools)} cannot be switched off: above {MAX_LISTED_TOOLS} tools, agents find tools with "
            "find_tools and call them with call_tool. Leave it out; it allows nothing beyond the toolset."
        )


def _check_hosts_differ(connected_tools: Sequence[SessionTools]) -> None:
    """Raise NotImplementedHere if two integrations could share a host but have different tools. Key rules match by
    host, so the tools of one integration would also apply to the other integration's connection."""
    for first, second in combinations(connected_tools, 2):
        same_tools = first.integration.provider == second.integration.provider and first.ids == second.ids
        if same_tools or (first.is_complete and second.is_complete) or not first.ids or not second.ids:
            continue
        if patterns_may_overlap(first.host, second.host):
            names = f"'{first.integration.integration_id}' and '{second.integration.integration_id}'"
            raise _not_offered_error(
                f"{names} may share a host, so one session cannot give them different tools. Create one session for each, "
                "or give both the same tools."
            )


def _summary(tools: SessionTools, connected: bool, session_tool_count: int) -> responses.AgentSessionTools:
    tool_count = len(tools.ids) if connected else 0
    listed_count = tool_count if session_tool_count <= MAX_LISTED_TOOLS else 0
    return {"connected": connected, "tools_pinned": listed_count, "tools_searchable": tool_count - listed_count}


# ── Connections: exactly one for each integration.


async def _tenant_connections(
    request: web.Request, tenant: TenantConnectionsBody, tools: Mapping[str, SessionTools]
) -> dict[str, str]:
    """Return the id of the tenant's connection for each integration in `tools`. Integrations without a connection are
    left out. Raises InvalidRequest, NotFound."""
    if not tenant.any and not tenant.pinned:
        issue = Issue("custom", "Name the tenant by tags (any) or by connections (pinned).", ("tenant", "connections"))
        raise InvalidRequest("invalid_body", issue.message, errors=[issue])
    matching_ids = await _matching_connections(request, tenant.any, tools)
    pinned_ids: dict[str, list[str]] = {}
    for pin in tenant.pinned:
        pinned_ids.setdefault(pin.integration_id, []).append(pin.connection_id)
    await _check_pinned_connections(request, tenant, tools, matching_ids)
    candidates = {name: list(dict.fromkeys(pinned_ids.get(name) or matching_ids.get(name) or [])) for name in tools}
    ambiguous_ids = {name: ids for name, ids in candidates.items() if len(ids) > 1}
    if ambiguous_ids:
        raise _refusal(
            "ambiguous_connections",
            f"More than one connection matches for {_quote_names(ambiguous_ids)}: "
            f"{'; '.join(f'{name}: {_quote_names(ids)}' for name, ids in ambiguous_ids.items())}. Pin one, or use narrower tags.",
            {
                "integrations": {
                    name: {"match_count": len(ids), "candidates": _candidates_json(ids)}
                    for name, ids in ambiguous_ids.items()
                }
            },
        )
    id_by_integration = {name: ids[0] for name, ids in candidates.items() if ids}
    if not id_by_integration:
        raise NotFound(
            "unknown_connection",
            "The tenant has no connection for an integration of the toolset. Have the user connect (POST /connect/sessions with "
            "the same tags), then create the session.",
        )
    return id_by_integration


async def _matching_connections(
    request: web.Request, selectors: Sequence[SelectorBody], tools: Collection[str]
) -> dict[str, list[str]]:
    """Return the ids of the connections that match at least one of `selectors`, by integration key."""
    ids_by_integration: dict[str, list[str]] = {}
    for index, selector in enumerate(selectors):
        filters = ListFilter(tags=selector.tags, within=request[CALLER].policy.limits, limit=MAX_MATCHES + 1)
        rows = await request.app[RUNTIME].store.connections.list(request[ENVIRONMENT].name, filters)
        if len(rows) > MAX_MATCHES:
            message = f"These tags match more than {MAX_MATCHES} connections; use tags of one tenant."
            issue = Issue("custom", message, ("tenant", "connections", "any", str(index), "tags"))
            raise InvalidRequest("invalid_body", message, errors=[issue])
        for row in rows:
            ids = ids_by_integration.setdefault(row.ref.integration_id, [])
            if row.ref.integration_id in tools and row.ref.connection_id not in ids:
                ids.append(row.ref.connection_id)
    return ids_by_integration


async def _check_pinned_connections(
    request: web.Request, tenant: TenantConnectionsBody, tools: Collection[str], matching: Mapping[str, Sequence[str]]
) -> None:
    """Raise InvalidRequest for pinned connections that do not exist, that the key may not use, or that the tags do not
    match."""
    environment, policy = request[ENVIRONMENT].name, request[CALLER].policy
    unknown_pins, unmatched_pins = [], []
    for pin in tenant.pinned:
        pin_fields: dict[str, Any] = {"integration_id": pin.integration_id, "connection_id": pin.connection_id}
        row = None
        if pin.integration_id in tools and policy.reaches(pin.integration_id, pin.connection_id):
            ref = ConnectionRef(environment, pin.integration_id, pin.connection_id)
            row = await request.app[RUNTIME].store.connections.get(ref)
        if row is None or not policy.allows_tags(row.tags):
            unknown_pins.append(pin_fields)
        elif tenant.any and pin.connection_id not in matching.get(pin.integration_id, ()):
            unmatched_pins.append({**pin_fields, "candidates": _candidates_json(matching.get(pin.integration_id, ()))})
    if unknown_pins:
        raise _refusal(
            "unknown_pinned_connection",
            f"There is no connection {_quote_names([entry['connection_id'] for entry in unknown_pins])} for an integration of "
            "the toolset. GET /connections lists them.",
            {"pinned": unknown_pins},
        )
    if unmatched_pins:
        raise _refusal(
            "pinned_connection_not_matched",
            f"The tags do not match {_quote_names([entry['connection_id'] for entry in unmatched_pins])}. Pin a "
            "candidate, or leave the tags out.",
            {"pinned": unmatched_pins},
        )


def _candidates_json(ids: Sequence[str]) -> list[dict[str, str]]:
    return [{"connection_id": id_} for id_ in ids[:MAX_NAMES]]


def _quote_names(names: Collection[str]) -> str:
    quoted_names = ", ".join(f"'{name[:64]}'" for name in list(names)[:5])
    return f"{quoted_names} and {len(names) - 5} more" if len(names) > 5 else quoted_names


def _refusal(code: Code, message: str, payload: Mapping[str, Any]) -> InvalidRequest:
    return InvalidRequest(code, message, payload=payload)


def _not_offered_error(message: str) -> NotImplementedHere:
    return NotImplementedHere("not_offered", message)
