"""Selects the tools of an MCP server's list that a key is allowed to call, in bounded time."""

from collections.abc import Iterable
from typing import Final

from gateway.access.body_rules import (
    COST_PER_COMPARISON,
    INLINE_COMPARISON_COST,
    MAX_COMPARISON_COST,
    TOOL_NAME,
    BodyRule,
)
from gateway.access.key_policy import Policy, SentRequest
from gateway.http.headers import MalformedResponse

_BYTES_PER_TOOL: Final = len('{"name":"a"},')  # minimum size of a tool in a list


class ToolFilter:
    """Decides which tools of a list the caller can call, with the same result as `Policy.decision` for each call.

    Create a new filter for each response. `inline_bytes`: maximum size in bytes of a list that the event loop filters
    itself. A larger list can block the event loop for too long.
    """

    def __init__(self, policy: Policy, request: SentRequest) -> None:
        """`policy`: the policy of the caller's key. `request`: the request for the list of tools."""
        self._tool_names_by_key = [_ToolNames(rules) for rules in policy.tool_rules(request)]
        rules_with_patterns = [rule for names in self._tool_names_by_key for rule in names.with_patterns]
        self._cost = COST_PER_COMPARISON + sum(rule.cost for rule in rules_with_patterns)
        self._cost_left = MAX_COMPARISON_COST
        cost_per_tool = self._cost * (_BYTES_PER_TOOL + COST_PER_COMPARISON)
        self.inline_bytes = INLINE_COMPARISON_COST // cost_per_tool * _BYTES_PER_TOOL

    def shows(self, tool: str) -> bool:
        """Return whether the caller is allowed to call this tool.

        Raises MalformedResponse if a comparison of the rules with all tools of the list would take too long.
        """
        if not TOOL_NAME.fullmatch(tool):
            return False  # a call with such a name is refused
        self._cost_left -= self._cost * (len(tool) + COST_PER_COMPARISON)
        if self._cost_left < 0:
            raise MalformedResponse("its list has too many tools to compare with the key's rules")
        return all(tool_names.has(tool) for tool_names in self._tool_names_by_key)


class _ToolNames:
    """The names and patterns of tools in the rules of one key."""

    def __init__(self, rules: Iterable[BodyRule]) -> None:
        rules = [rule for rule in rules if rule.kind == "tools"]
        self._exact_names = frozenset[str]().union(*(rule.exact for rule in rules))
        self.with_patterns = [rule for rule in rules if rule.patterns]

    def has(self, tool: str) -> bool:
        return tool in self._exact_names or any(rule.includes(tool) for rule in self.with_patterns)
