"""Finds the tools of a key and their connections, from the key's rules, the current integrations and the catalog."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from gateway.access.freeze_operations import host_and_path, operation_details
from gateway.access.key_policy import Policy, is_slow_to_compile
from gateway.access.operation_rules import OperationSet
from gateway.catalog.api_operations import ProviderOperations
from gateway.catalog.yaml_file import UnreadableFile
from gateway.generation import Generation
from gateway.mcp.list_cursor import is_list
from gateway.mcp.mcp_request import McpRequest
from gateway.mcp.rule_tools import OperationBase, RuleTool, tools_of
from gateway.mcp.tool_list import call_api_json, tool_json, tools_to_show
from gateway.off_loop import off_loop
from gateway.records.access import ANY_INTEGRATION
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.store import ListFilter

MAX_CANDIDATES: Final = 50
LIST_SCOPE: Final = "environment:connections:list"


@dataclass(slots=True)
class KnownTools:
    """The tools of a key, and the data from which the tools were computed.

    - `change_count`: the number of changes of API-managed integrations at the last comparison
    - `integrations`: all integrations of the key's environment, each with the name of its catalog entry
    - `base_paths`: the path of the base URL of each integration that the key can use; None if the path is unknown
    - `tools`: the tools by name
    - `named_connections`: the result of `KeyTools.named_connections`
    - `candidates`: the result of `KeyTools.candidates` if the key's limits alone give it, else empty
    - `may_list`: whether the key is allowed to list connections
    - `chosen_connections`: the connection of a call that names none, by tool, as text and as reference; only for tools
      that were called
    """

    generation: Generation
    change_count: int
    integrations: tuple[tuple[str, str], ...]
    base_paths: Mapping[str, str | None]
    tools: Mapping[str, RuleTool]
    named_connections: list[str] | None
    candidates: Mapping[str, str]
    may_list: bool
    chosen_connections: dict[str, tuple[str, ConnectionRef]] = field(default_factory=dict)


_cache: Final[WeakKeyDictionary[Policy, KnownTools]] = WeakKeyDictionary()


class KeyTools:
    """The tools of the key that made one request."""

    def __init__(self, request: McpRequest) -> None:
        self._request = request
        self._known: KnownTools | None = None

    @property
    def _integrations(self) -> Sequence[Integration]:
        return self._request.generation.integrations.list_in(self._request.environment)

    @property
    def known_tools(self) -> KnownTools:
        """The key's tools, cached until the configuration, the catalog or an integration's provider changes."""
        if self._known is None:
            self._known = self._find()
        return self._known

    def cached_tools(self) -> KnownTools | None:
        """Return the cached tools; None if the generation or an API-managed integration has changed since."""
        cached, generation = _cache.get(self._request.policy), self._request.generation
        if (
            cached is None
            or cached.generation is not generation
            or cached.change_count != generation.integrations.changes
        ):
            return None
        self._known = cached
        return cached

    def _find(self) -> KnownTools:
        policy, generation = self._request.policy, self._request.generation
        change_count = generation.integrations.changes
        if (known_tools := self.cached_tools()) is not None:
            return known_tools
        known_tools = _cache.get(policy)
        integrations = tuple((integration.integration_id, integration.provider) for integration in self._integrations)
        if (
            known_tools is not None
            and known_tools.generation is generation
            and known_tools.integrations == integrations
        ):
            known_tools.change_count = change_count
            return known_tools
        named_connections = self._named_connections()
        base_paths = self._base_paths(integrations, named_connections)
        find_operations = cache(self._operations)
        operation_bases = {
            text: self._operation_base(operations, base_paths, find_operations)
            for text, operations in policy.operation_sets.items()
        }
        tools = {
            tool.name: self._with_cursor_argument(tool) for tool in tools_of(policy.rules, base_paths, operation_bases)
        }
        may_list = policy.allows(LIST_SCOPE)
        candidates = (
            dict.fromkeys(named_connections, "")
            if named_connections is not None and (not may_list or len(named_connections) == 1)
            else {}
        )
        known_tools = KnownTools(
            generation, change_count, integrations, base_paths, tools, named_connections, candidates, may_list
        )
        _cache[policy] = known_tools
        return known_tools

    async def find_off_loop(self) -> None:
        """Compute the tools of a key with many rules in a thread, unless the tools are cached.

        A key with 1,000 rules takes 0.2 s.
        """
        if self.cached_tools() is None and is_slow_to_compile(self._request.policy.limits):
            await off_loop(self._request.outer.caller.share, lambda: self.known_tools)

    def _with_cursor_argument(self, tool: RuleTool) -> RuleTool:
        """Return `tool`, with a cursor argument if the catalog entry of one of its integrations can page its list."""
        if (
            tool.methods != ("GET",)
            or not tool.path
            or not isinstance(tool.path[-1], str)
            or tool.path[-1].endswith("/")
        ):
            return tool
        catalog = self._request.generation.catalog
        providers = [
            integration.provider
            for integration in self._integrations
            if integration.integration_id in tool.integrations
        ]
        if not any(is_list(catalog.get(provider), tool.shown_path, tool.details) for provider in providers):
            return tool
        if any(argument.name == "cursor" for argument in tool.arguments):
            return tool
        return replace(tool, is_paged=True)

    def _base_paths(
        self, integrations: Iterable[tuple[str, str]], named_connections: Collection[str] | None
    ) -> dict[str, str | None]:
        """Return the path of the base URL, with placeholders, of each integration that the key can use.

        The path is None if a setting of the connection is the whole base URL.
        """
        base_paths: dict[str, str | None] = {}
        for name, entry in integrations:
            if not self._request.policy.reaches_integration(name) or (
                named_connections and not any(connection.startswith(f"{name}/") for connection in named_connections)
            ):
                continue
            provider = self._request.generation.catalog.get(entry)
            if provider is not None:
                _, separator, rest = provider.proxy.base_url.partition("://")
                base_paths[name] = rest.partition("/")[2].rstrip("/") if separator else None
        return base_paths

    def _operation_base(
        self,
        operations: OperationSet,
        allowed_ids: Collection[str],
        find_operations: Callable[[str], ProviderOperations | None],
    ) -> OperationBase:
        """Return the integrations in `allowed_ids` with these operations, and the catalog's details of them."""
        catalog = self._request.generation.catalog
        integration_ids = [
            integration.integration_id
            for integration in self._integrations
            if integration.integration_id in allowed_ids
            and (provider := catalog.get(integration.provider)) is not None
            and host_and_path(provider) == (operations.host, operations.base)
        ]
        known_operations = find_operations(operations.provider)
        details = {} if known_operations is None else operation_details(operations.rules, known_operations)
        return OperationBase(tuple(integration_ids), operations.base, details)

    def _operations(self, provider: str) -> ProviderOperations | None:
        """Return the catalog's operations of a provider; None if the catalog has none, or their file is unreadable."""
        try:
            return self._request.generation.catalog.operations(provider)
        except UnreadableFile:
            return None

    @property
    def must_name_connection(self) -> bool:
        """Whether a call must name its connection: True unless the key's limits name exactly one connection."""
        connections = self.named_connections()
        return connections is None or len(connections) != 1

    def describe(self, tool: RuleTool | None) -> dict[str, Any]:
        """Return the description of the tool for `tools/list`. `tool`: None means `call_api`."""
        connections = self.named_connections() or ()
        if tool is None:
            return call_api_json(
                self._request.policy.rules, connections, must_name_connection=self.must_name_connection
            )
        return tool_json(tool, connections, must_name_connection=self.must_name_connection)

    def shown_tools(self) -> list[dict[str, Any]]:
        """Return the tools that `tools/list` shows."""
        tools = list(self.known_tools.tools.values())
        return tools_to_show(
            tools,
            self._request.policy.rules,
            self.named_connections() or (),
            must_name_connection=self.must_name_connection,
        )

    def named_connections(self) -> list[str] | None:
        """Return the connections that the key's limits name; None if the limits name no connection.

        A name such as ``*/CONNECTION`` gives one connection for each integration of the environment.
        """
        return self.known_tools.named_connections

    def _named_connections(self) -> list[str] | None:
        names = next((limits.connections for limits in self._request.policy.limits if limits.connections), None)
        if names is None:
            return None
        connections: dict[str, None] = {}
        for name in names:
            integration, _, connection = name.partition("/")
            environment_integrations = [listed_integration.integration_id for listed_integration in self._integrations]
            for integration_id in environment_integrations if integration == ANY_INTEGRATION else [integration]:
                if self._request.policy.reaches(integration_id, connection):
                    connections[f"{integration_id}/{connection}"] = None
        return list(connections)

    async def candidates(self, integrations: tuple[str, ...] | None) -> dict[str, str] | None:
        """Return the connections that a call can use, each with a label. At most `MAX_CANDIDATES` are from the store.

        `integrations`: the integrations that the call can use; None means all.

        Return None if the key's limits name no connection and the key is not allowed to list connections. A label is
        the provider's name of the account. The label is empty if it is unknown, if the key is not allowed to list
        connections, or if the key's limits name only one connection.
        """
        known_tools, policy = self.known_tools, self._request.policy
        named_connections, may_list = known_tools.named_connections, known_tools.may_list
        if named_connections is not None and (not may_list or len(named_connections) == 1):
            return dict.fromkeys(named_connections, "")
        if not may_list:
            return None
        # Without `integrations`, the connections of other integrations could hide a second account.
        filters = ListFilter(integration_ids=integrations or (), within=policy.limits, limit=MAX_CANDIDATES)
        rows = await self._request.runtime.store.connections.list(self._request.environment, filters)
        labels = {f"{row.ref.integration_id}/{row.ref.connection_id}": row.account.label or "" for row in rows}
        return (
            labels
            if named_connections is None or policy.limits_tags
            else {name: labels.get(name, "") for name in named_connections}
        )
