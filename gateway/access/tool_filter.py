"""Selects the tools of an MCP server's list that a key may call, in bounded time."""

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

_BYTES_PER_TOOL: Final = len('{"name":"a"},')  # of a list, at least


class ToolFilter:
    """Decides for each tool of a list as `Policy.decision` does for a call of it. One filter serves one response.

    `inline_bytes`: maximum size of a list that is filtered on the event loop; a larger one may take too long.
    """

    def __init__(self, policy: Policy, request: SentRequest) -> None:
        """`request`: the request for the list."""
        self._keys = [_ToolNames(rules) for rules in policy.tool_rules(request)]
        self._cost = COST_PER_COMPARISON + sum(rule.cost for key in self._keys for rule in key.with_patterns)
        self._cost_left = MAX_COMPARISON_COST
        cost_per_tool = self._cost * (_BYTES_PER_TOOL + COST_PER_COMPARISON)
        self.inline_bytes = INLINE_COMPARISON_COST // cost_per_tool * _BYTES_PER_TOOL

    def shows(self, tool: str) -> bool:
        """Return whether the caller may call this tool. Raises MalformedResponse if the rules cannot be compared with
        all tools of the list in reasonable time."""
        if not TOOL_NAME.fullmatch(tool):
            return False  # a call with such a name is refused
        self._cost_left -= self._cost * (len(tool) + COST_PER_COMPARISON)
        if self._cost_left < 0:
            raise MalformedResponse("its list has more tools than the key's rules can be compared with")
        return all(key.has(tool) for key in self._keys)


class _ToolNames:
    """The tools that the rules of one key name."""

    def __init__(self, rules: Iterable[BodyRule]) -> None:
        rules = [rule for rule in rules if rule.kind == "tools"]
        self._exact = frozenset[str]().union(*(rule.exact for rule in rules))
        self.with_patterns = [rule for rule in rules if rule.patterns]

    def has(self, tool: str) -> bool:
        return tool in self._exact or any(rule.names(tool) for rule in self.with_patterns)
