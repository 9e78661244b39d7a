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
from typing import Final, Literal

from gateway.access.ambiguous_requests import path_ambiguity
from gateway.access.body_rules import WITH, BodyRule, parse_body_rule

WEBSOCKET: Final = "WEBSOCKET"
OPERATIONS_PREFIX: Final = "operations "  # of rules that `operation_rules` defines
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


def names_operations(rule: str) -> bool:
    """Return whether a rule's text names operations of the catalog, rather than methods and a path."""
    return rule.startswith(OPERATIONS_PREFIX)


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
    _match_path: Callable[[str], object] | None = field(default=None, init=False, compare=False, repr=False)

    def matches(self, method: str, path: str) -> bool:
        if self.methods is not None and method not in self.methods:
            return False
        match_path = self._match_path or self._compile_path()
        return match_path(path) is not None

    def compile(self) -> None:
        """Compile the rule, unless it is already compiled."""
        self._compile_path()
        if self.body is not None:
            self.body.compile()

    def _compile_path(self) -> Callable[[str], object]:
        match_path = self._match_path or path_matcher(self.path)
        object.__setattr__(self, "_match_path", match_path)
        return match_path


def count_wildcards(rule: KeyRule) -> int:
    """Return the number of wildcards and placeholders in the rule's path."""
    path = _PLACEHOLDER.sub("*", rule.path_pattern) if rule.name else rule.path_pattern
    return path.count("*") - path.count("**")


def parse_rule(text: str) -> KeyRule:
    """Parse a rule.

    Raises ValueError; its message is the rest of a sentence that begins with the rule: ``'GET' has no path …``.
    """
    methods, space, path_and_suffixes = text.partition(" ")
    path_and_body, name_mark, name = path_and_suffixes.partition(_AS)
    written_path, body_mark, body_text = path_and_body.partition(WITH)
    path = _without_placeholders(written_path, name) if name_mark else written_path
    if len(text) > MAX_RULE_LENGTH:
        raise ValueError(f"is longer than {MAX_RULE_LENGTH} characters")
    if methods.startswith("/"):
        raise ValueError("has no method: write METHOD /path, for example 'GET /v1/items/*'")
    if not space or not path.startswith("/"):
        if methods.lower() in ("operation", "operations"):
            raise ValueError("has no method; a rule by operation begins with 'operations ', as 'operations jira read'")
        raise ValueError(
            "has no path: write METHOD /path, with one space and without scheme and host, for example 'GET,POST /v1/items/*'"
        )
    method_set = None if methods == "*" else frozenset(methods.split(","))
    if method_set is not None and not all(_METHOD.fullmatch(method) for method in method_set):
        raise ValueError("must begin with upper-case methods separated by commas, or with *")
    if " " in path:
        raise ValueError("has a space in its path; around 'with' and 'as', in lower case, write one space each")
    path_without_stars = path.replace("*", "")
    if not _LITERAL.fullmatch(path_without_stars):
        raise ValueError("contains a character that must be percent-encoded in a path; a rule has no query")
    if path.count("**") > 1 or "***" in path:
        raise ValueError("may contain '**' only once")
    if (fault := path_ambiguity(path.replace("*", "x"))) is not None:
        raise ValueError(f"can never match, since a path that {fault} is refused")
    body = _body_rule(body_text, method_set, name) if body_mark else None
    return KeyRule(text, method_set, path, name, written_path, body)


def _body_rule(body_text: str, methods: frozenset[str] | None, name: str) -> BodyRule:
    if methods != frozenset(("POST",)):
        raise ValueError("must have POST as its only method, since 'with' is about the body")
    body = parse_body_rule(body_text)
    if name and body.kind == "tools":
        raise ValueError("stands for several tools, so it cannot have a name: leave 'as' out")
    return body


def _without_placeholders(written_path: str, name: str) -> str:
    """Return the path of a rule named `name`, with ``*`` in place of each placeholder.

    Raises ValueError if the name or a placeholder is invalid.
    """
    if WITH in name:
        raise ValueError("has 'as' before 'with': write POST /path with WHAT as NAME")
    if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise ValueError(
            f"has an invalid name: after 'as', write a lower-case word of at most 63 letters, digits and '_', except the "
            f"reserved names {', '.join(sorted(RESERVED_NAMES))}"
        )
    placeholders = _PLACEHOLDER.findall(written_path)
    path = _PLACEHOLDER.sub("*", written_path)
    if len(set(placeholders)) != len(placeholders) or RESERVED_PLACEHOLDERS.intersection(placeholders):
        raise ValueError(
            f"has two placeholders of one name, or one with a reserved name: {', '.join(sorted(RESERVED_PLACEHOLDERS))}"
        )
    if "{" in path or "}" in path:
        raise ValueError("contains '{' or '}' around something other than a lower-case word, such as {issue_id}")
    if (
        any(
            f"{{{placeholder}}}*" in written_path or f"*{{{placeholder}}}" in written_path
            for placeholder in placeholders
        )
        or "}{" in written_path
    ):
        raise ValueError("has two placeholders with nothing between them")
    return path


# ── Matches a request's path with a rule's path, in time proportional to the length of the request's path.
#
# The match never backtracks. The part before ``**`` is matched with the shortest beginning of the path, and the part
# after ``**`` with the shortest end. To find the shortest end, this part and the path are reversed. The path matches if
# the beginning and the end do not overlap.

MAX_LAZY_LENGTH: Final = 8  # maximum length of a text between two wildcards for which `re` can try each position


def path_matcher(path_pattern: str) -> Callable[[str], object]:
    """Return a function that matches a path with `path_pattern`.

    The function returns None if the path does not match, and any other value if the path matches.
    """
    start_pattern, double_star, end_pattern = path_pattern.partition("**")
    start_part = _Part(start_pattern, ends_open=bool(double_star))
    if not start_part.further_regexes and not end_pattern:  # nearly every rule needs only one regular expression
        return start_part.first_regex.match if double_star else start_part.first_regex.fullmatch
    end_part = _Part(end_pattern[::-1], ends_open=True) if "*" in end_pattern else None

    def matches(path: str) -> Literal[True] | None:
        start_end = start_part.end(path)
        if start_end < 0:
            return None
        if not double_star:
            fits = start_end == len(path)
        elif end_part is None:
            fits = path.endswith(end_pattern, start_end)
        else:
            fits = 0 <= end_part.end(path[::-1]) <= len(path) - start_end
        return fits or None

    return matches


class _Part:
    """A part of a rule's path without ``**``.

    `ends_open`: whether ``**`` follows the part, so that the part can end in the middle of a segment of the request's
    path.

    `first_regex`: the expression for the beginning of the part. `further_regexes`: a pair of expressions for each text
    of more than `MAX_LAZY_LENGTH` characters between two wildcards of one segment. The first is for the text, the second
    for the rest up to the next such text.
    These texts have their own expressions for speed: `re` searches a text alone in linear time, but compares a text
    inside an expression again at each character.
    """

    __slots__ = ("first_regex", "further_regexes")

    def __init__(self, pattern: str, *, ends_open: bool) -> None:
        chunks = [""]
        segments = pattern.split("/")
        for number, segment in enumerate(segments):
            first_text, *texts = segment.split("*")
            chunks[-1] += re.escape(first_text if number == 0 else f"/{first_text}")
            last_text = texts.pop() if texts and not (ends_open and number == len(segments) - 1) else None
            for text in texts:  # a wildcard follows: if a later occurrence matches, the first matches too
                if len(text) > MAX_LAZY_LENGTH:
                    chunks += [re.escape(text), ""]
                else:
                    chunks[-1] += f"(?>[^/]*?{re.escape(text)})"
            if last_text is not None:  # the end of a segment
                chunks[-1] += f"[^/]{{{len(last_text)},}}+(?<={re.escape(last_text)})" if last_text else "[^/]*+"
        self.first_regex, *other_regexes = [re.compile(chunk) for chunk in chunks]
        self.further_regexes = tuple(zip(other_regexes[::2], other_regexes[1::2], strict=True))

    def end(self, path: str) -> int:
        """Return the end of the shortest beginning of `path` that matches; -1 if no beginning matches."""
        match = self.first_regex.match(path)
        for text, rest_regex in self.further_regexes:
            if match is None:
                break
            segment_end = path.find("/", match.end())
            match = text.search(path, match.end(), segment_end if segment_end >= 0 else len(path))
            match = rest_regex.match(path, match.end()) if match is not None else None
        return -1 if match is None else match.end()
