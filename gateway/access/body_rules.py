"""Rules that look into the body: ``POST /mcp with tools search_*``, ``POST /graphql with query issues`` (ADR 62).

    with   = "tools " names       tools of an MCP server, by `tools/call`; and what a client needs to find and list them
           | "query " names       a GraphQL query all of whose root fields are among them
           | "mutation " names    likewise
    names  = name *("," name)     in which * is any run of characters, twice at most

What a body says is read by `sent_body`, from the bytes that leave.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from gateway.http.graphql_document import GraphqlOperation

WITH: Final = " with "
Kind = Literal["tools", "query", "mutation"]
KINDS: Final[dict[str, Kind]] = {"tools": "tools", "query": "query", "mutation": "mutation"}
MOST_STARS: Final = 2
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
HANDSHAKE: Final = frozenset(
    {
        "initialize",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "ping",
        "server/discover",
        TOOLS_LIST,
    }
)
"""What a client sends besides calls of tools; it does nothing by itself."""
ALWAYS_FIELDS: Final = frozenset({"__typename"})
_TOOL_PATTERN: Final = re.compile(r"[A-Za-z0-9_./*-]{1,128}")
_FIELD_PATTERN: Final = re.compile(r"[A-Za-z0-9_*]{1,128}")


@dataclass(frozen=True, slots=True)
class McpMessage:
    """A message to an MCP server. `tool`: of ``tools/call``, else empty."""

    method: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class SentBody:
    """The body's meaning in each language; a text says why the body is not plainly one."""

    mcp: McpMessage | str
    graphql: GraphqlOperation | str


@dataclass(frozen=True, slots=True)
class BodyRule:
    """The part of a rule after ``with``, `text`."""

    text: str
    kind: Kind
    names: re.Pattern[str]

    def refusal(self, body: SentBody) -> str | None:
        """Why it does not allow this body, in words that follow "it"; None: it does."""
        if self.kind == "tools":
            return self._of_tools(body.mcp)
        return self._of_fields(body.graphql)

    def _of_tools(self, message: McpMessage | str) -> str | None:
        if isinstance(message, str):
            return message
        if message.method != TOOLS_CALL:
            return None if message.method in HANDSHAKE else f"sends the MCP method '{message.method[:64]}'"
        return None if self.names.fullmatch(message.tool) else f"calls the tool '{message.tool}'"

    def _of_fields(self, operation: GraphqlOperation | str) -> str | None:
        if isinstance(operation, str):
            return operation
        if operation.kind != self.kind:
            return f"sends a GraphQL {operation.kind}"
        other = next((one for one in operation.fields if not self._is_named(one)), None)
        return None if other is None else f"asks for '{other[:64]}' in a GraphQL {operation.kind}"

    def _is_named(self, name: str) -> bool:
        return name in ALWAYS_FIELDS or self.names.fullmatch(name) is not None


def parse_body_rule(text: str) -> BodyRule:
    """Read the part of a rule after ``with``. Raises ValueError, in words that follow the rule's name."""
    word, _, names = text.partition(" ")
    kind = KINDS.get(word)
    if kind is None:
        raise ValueError("must have tools, query or mutation behind 'with', for example 'with tools search_*'")
    form = _TOOL_PATTERN if kind == "tools" else _FIELD_PATTERN
    patterns = names.split(",")
    for one in patterns:
        if not form.fullmatch(one):
            raise ValueError(f"must have names joined by commas behind 'with {kind}', in which * is any run")
        if one.count("*") > MOST_STARS or "**" in one:
            raise ValueError(f"may hold '*' {MOST_STARS} times in a name, and not '**'")
    return BodyRule(text, kind, re.compile("|".join(map(_compiled, patterns)), re.ASCII))


def _compiled(pattern: str) -> str:
    """As a regular expression that takes linear time: a run ends at the first place where the text goes on, since ending
    later could never help, and only the last one is tried further."""
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{text})" for text in middle) + ".*" + last
