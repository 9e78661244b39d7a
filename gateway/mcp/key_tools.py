"""Finds the tools of a key and their connections: compares its rules with the current integrations and catalog."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from gateway.access.freeze_operations import host_and_path, known_details
from gateway.access.key_policy import Policy
from gateway.access.operation_rules import OperationSet
from gateway.catalog.yaml_file import UnreadableFile
from gateway.generation import Generation
from gateway.mcp.door_request import DoorRequest
from gateway.mcp.list_cursor import is_list
from gateway.mcp.tool_list import OperationPlace, RuleTool, listed, tool_json, tools_of
from gateway.records.access import ANY_INTEGRATION
from gateway.store import ListFilter

MOST_CANDIDATES: Final = 50
LIST_SCOPE: Final = "environment:connections:list"


@dataclass(frozen=True, slots=True)
class Known:
    """The tools of a key, by name.

    `integrations`: all of its environment, with their catalog entries. `bases`: the path of the base URL of each
    integration that the key reaches, None if unknown.
    """

    generation: Generation
    integrations: tuple[tuple[str, str], ...]
    bases: Mapping[str, str | None]
    tools: Mapping[str, RuleTool]


_made: Final[WeakKeyDictionary[Policy, Known]] = WeakKeyDictionary()


class KeyTools:
    """The tools of the key that made one request."""

    def __init__(self, asked: DoorRequest) -> None:
        self._asked = asked

    @cached_property
    def known(self) -> "Known":
        """The key's tools, computed once while its rules, the integrations and their catalog entries stay the same."""
        there = tuple(
            (one.integration_id, one.provider)
            for one in self._asked.generation.integrations.of(self._asked.environment)
        )
        known = _made.get(self._asked.policy)
        if known is None or known.generation is not self._asked.generation or known.integrations != there:
            bases = self._bases(there)
            places = {text: self._place(found, bases) for text, found in self._asked.policy.operation_sets.items()}
            tools = {tool.name: self._paged(tool) for tool in tools_of(self._asked.policy.rules, bases, places)}
            known = _made[self._asked.policy] = Known(self._asked.generation, there, bases, tools)
        return known

    def _paged(self, tool: RuleTool) -> RuleTool:
        """Return `tool`, with a cursor argument if the catalog entry of one of its integrations can page its list."""
        if (
            tool.methods != ("GET",)
            or not tool.path
            or not isinstance(tool.path[-1], str)
            or tool.path[-1].endswith("/")
        ):
            return tool
        catalog, integrations = self._asked.generation.catalog, self._asked.generation.integrations
        there = [one for one in integrations.of(self._asked.environment) if one.integration_id in tool.integrations]
        if not any(is_list(catalog.get(one.provider), tool.shown_path, tool.details) for one in there):
            return tool
        taken = {one.name for one in tool.arguments}
        return tool if "cursor" in taken else replace(tool, pages=True)

    def _bases(self, there: Iterable[tuple[str, str]]) -> dict[str, str | None]:
        """Return the path of each base URL that the key reaches, by integration, with placeholders; None if unknown."""
        bases: dict[str, str | None] = {}
        bound = self.named()
        for name, entry in there:
            if not self._asked.policy.reaches_integration(name) or (
                bound and not any(c.startswith(f"{name}/") for c in bound)
            ):
                continue
            provider = self._asked.generation.catalog.get(entry)
            if provider is not None:
                _, found, rest = provider.proxy.base_url.partition("://")
                bases[name] = rest.partition("/")[2].rstrip("/") if found else None
        return bases

    def _place(self, found: OperationSet, reached: Collection[str]) -> OperationPlace:
        """Return the integrations in `reached` with these operations, and the catalog's details of the operations."""
        catalog = self._asked.generation.catalog
        fitting = [
            one.integration_id
            for one in self._asked.generation.integrations.of(self._asked.environment)
            if one.integration_id in reached
            and (provider := catalog.get(one.provider)) is not None
            and host_and_path(provider) == (found.host, found.base)
        ]
        try:
            known = catalog.operations(found.provider)
        except UnreadableFile:
            known = None
        details = {} if known is None else known_details(found.rules, known)
        return OperationPlace(tuple(fitting), found.base, details)

    @property
    def choose(self) -> bool:
        """Whether a call must name its connection."""
        named = self.named()
        return named is None or len(named) != 1

    def describe(self, tool: RuleTool) -> dict[str, Any]:
        return tool_json(tool, self.named() or (), choose=self.choose)

    def listed(self) -> list[dict[str, Any]]:
        tools = list(self.known.tools.values())
        return listed(tools, self._asked.policy.rules, self.named() or (), choose=self.choose)

    def named(self) -> list[str] | None:
        """Return the connections that the key's limits name, of existing integrations; None if the limits name none."""
        names = next((one.connections for one in self._asked.policy.limits if one.connections), None)
        if names is None:
            return None
        found: dict[str, None] = {}
        for name in names:
            integration, _, connection = name.partition("/")
            every = [one.integration_id for one in self._asked.generation.integrations.of(self._asked.environment)]
            for one in every if integration == ANY_INTEGRATION else [integration]:
                if self._asked.policy.reaches(one, connection):
                    found[f"{one}/{connection}"] = None
        return list(found)

    async def candidates(self, *, labelled: bool) -> dict[str, str] | None:
        """Return the connections that a call may use, each with a label; None if the key names none and may not list
        them.

        `labelled`: look up the labels, the provider's names of the accounts, if the key may list connections; without a
        label, the value is empty.
        """
        named, policy = self.named(), self._asked.policy
        may_list = policy.allows(LIST_SCOPE)
        if named is not None and (not may_list or len(named) == 1 or not (labelled or policy.of_tags)):
            return dict.fromkeys(named, "")
        if not may_list:
            return None
        wanted = ListFilter(within=policy.limits, limit=MOST_CANDIDATES)
        rows = await self._asked.runtime.store.connections.list(self._asked.environment, wanted)
        found = {f"{row.ref.integration_id}/{row.ref.connection_id}": row.account.label or "" for row in rows}
        return found if named is None or policy.of_tags else {one: found.get(one, "") for one in named}
