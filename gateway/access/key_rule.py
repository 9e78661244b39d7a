"""Parses and matches the rules of keys, such as ``GET /ex/*/rest/api/3/search*``: the allowed methods and paths.

    rule     = methods SP path [" with " what] [" as " name]
    methods  = "*" / method *("," method)      compared with the sent method; ``WEBSOCKET``: an upgrade to WebSocket
    path     = "/" ...                         ``*``: any characters except "/"; ``**``: any characters, at most once
    what     = the allowed bodies (`body_rules`); only after the method POST
    name     = a lower-case word              the name of the tool that agents call for the request (`gateway.mcp`)

In a rule with a name, ``{issue}`` matches as ``*`` does, and is a parameter of the tool.

A rule's path is compared with the path that the gateway sends to the provider, byte for byte: with the path of the
base URL, and without the query. A rule's path must not be ambiguous (`ambiguous_requests`), because the gateway refuses
a request with an ambiguous path.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.access.ambiguous_requests import path_ambiguity
from gateway.access.body_rules import WITH, BodyRule, parse_body_rule
from gateway.access.rule_paths import path_matcher

WEBSOCKET: Final = "WEBSOCKET"
MAX_RULE_LENGTH: Final = 512  # maximum length of a rule
MAX_WILDCARDS: Final = 20  # maximum number of wildcards and placeholders in a rule of a new key
_METHOD: Final = re.compile(r"[A-Z]+(?:-[A-Z]+)*")
_LITERAL: Final = re.compile(r"[!\"$-:<->@-\[\]-~]*")  # visible ASCII without # ; ? and \
_AS: Final = " as "
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]{0,62})\}")
RESERVED_NAMES: Final = frozenset(
    {"call_api", "call_tool", "describe_tool", "find_tools"}
)  # the MCP endpoint's own tools
RESERVED_PLACEHOLDERS: Final = frozenset({"body", "body_as", "connection", "max_bytes", "method", "query", "select"})


@dataclass(frozen=True, slots=True)
class KeyRule:
    """A rule that allows requests by method, path and, if needed, body.

    `text`: the rule as its author wrote it. `methods`: the allowed methods; None allows all. `path`: the rule's path,
    with ``*`` in place of each placeholder. `name`: the name of the tool for agents; empty if the rule has none.
    `path_pattern`: the rule's path, with placeholders. `body`: the allowed bodies; None allows all.

    The path is compiled at the first match and not when the rule is parsed: compiling takes up to 3 ms, 100 times as
    long as parsing.
    """

    text: str
    methods: frozenset[str] | None
    path: str
    name: str = ""
    path_pattern: str = ""
    body: BodyRule | None = None
    _matches: Callable[[str], object] | None = field(default=None, init=False, compare=False, repr=False)

    def fits(self, method: str, path: str) -> bool:
        if self.methods is not None and method not in self.methods:
            return False
        matches = self._matches or self._compile_path()
        return matches(path) is not None

    def compile(self) -> None:
        """Compile the rule, unless it is already compiled."""
        self._compile_path()
        if self.body is not None:
            self.body.compile()

    def _compile_path(self) -> Callable[[str], object]:
        matches = self._matches or path_matcher(self.path)
        object.__setattr__(self, "_matches", matches)
        return matches


def count_wildcards(rule: KeyRule) -> int:
    """Return the number of wildcards and placeholders in the rule's path."""
    path = _PLACEHOLDER.sub("*", rule.path_pattern) if rule.name else rule.path_pattern
    return path.count("*") - path.count("**")


def parse_rule(text: str) -> KeyRule:
    """Parse a rule.

    Raises ValueError with a message that continues a sentence about the rule: ``'GET' has no path …``.
    """
    methods, space, rest = text.partition(" ")
    before, named_as, name = rest.partition(_AS)
    written, with_body, what = before.partition(WITH)
    path = _without_placeholders(written, name) if named_as else written
    if len(text) > MAX_RULE_LENGTH:
        raise ValueError(f"is longer than {MAX_RULE_LENGTH} characters")
    if methods.startswith("/"):
        raise ValueError("has no method: write METHOD /path, for example 'GET /v1/items/*'")
    if not space or not path.startswith("/"):
        raise ValueError("has no path: write METHOD /path, for example 'GET /v1/items/*'")
    named = None if methods == "*" else frozenset(methods.split(","))
    if named is not None and not all(_METHOD.fullmatch(method) for method in named):
        raise ValueError("must begin with upper-case methods separated by commas, or with *")
    bare = path.replace("*", "")
    if not _LITERAL.fullmatch(bare):
        raise ValueError("holds a character that must be percent-encoded in a path; a rule has no query")
    if path.count("**") > 1 or "***" in path:
        raise ValueError("may hold '**' once")
    if (fault := path_ambiguity(path.replace("*", "x"))) is not None:
        raise ValueError(f"can never match, since a path that {fault} is refused")
    body = _body_rule(what, named, name) if with_body else None
    return KeyRule(text, named, path, name, written, body)


def _body_rule(what: str, methods: frozenset[str] | None, name: str) -> BodyRule:
    if methods != frozenset(("POST",)):
        raise ValueError("must have POST as its only method, since 'with' is about the body")
    body = parse_body_rule(what)
    if name and body.kind == "tools":
        raise ValueError("stands for several tools, so it cannot have a name: leave 'as' out")
    return body


def _without_placeholders(written: str, name: str) -> str:
    """Return the path of a rule named `name`, with ``*`` in place of each placeholder.

    Raises ValueError if the name or a placeholder is invalid.
    """
    if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise ValueError(
            f"has an invalid name: after 'as', write a lower-case word of at most 63 letters, digits and '_', except the "
            f"reserved names {', '.join(sorted(RESERVED_NAMES))}"
        )
    places = _PLACEHOLDER.findall(written)
    path = _PLACEHOLDER.sub("*", written)
    if len(set(places)) != len(places) or RESERVED_PLACEHOLDERS.intersection(places):
        raise ValueError(
            f"has two placeholders of one name, or one with a reserved name: {', '.join(sorted(RESERVED_PLACEHOLDERS))}"
        )
    if "{" in path or "}" in path:
        raise ValueError("holds '{' or '}' around something other than a lower-case word")
    if any(f"{{{place}}}*" in written or f"*{{{place}}}" in written for place in places) or "}{" in written:
        raise ValueError("has two placeholders with nothing between them")
    return path
