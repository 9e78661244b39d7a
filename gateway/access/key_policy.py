"""Decides whether a key's scopes, limits and rules allow a request, for the middleware chain and the fast path.

The decision is about the request that the gateway will send to the provider: its method, its host, its raw path (with
the path of the base URL), its query, the names of its header fields and, if a rule requires it, its body.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes

from gateway.access.body_rules import (
    INLINE_COMPARISON_COST,
    MAX_COMPARISON_COST,
    WITH,
    BodyRule,
    SentBody,
    comparison_cost,
    parse_body_rule,
)
from gateway.access.operation_rules import OperationRule, OperationSet, is_reference, operation_set
from gateway.access.rule_paths import path_matcher
from gateway.access.scopes import CONFIGURE, PROXY, covers
from gateway.http.url import has_dot_segment
from gateway.records.access import ANY_INTEGRATION, KeyLimits

# ── Rules such as ``GET /ex/*/rest/api/3/search*``: the allowed methods and paths.
#
#     rule     = methods SP path [" with " what] [" as " name]
#     methods  = "*" / method *("," method)      compared with the sent method; ``WEBSOCKET``: an upgrade to WebSocket
#     path     = "/" ...                         ``*``: any characters except "/"; ``**``: any characters, at most once
#     what     = the allowed bodies (`body_rules`); only after the method POST
#     name     = a lower-case word              the name of the tool that agents call for the request (`gateway.mcp`)
#
# In a rule with a name, ``{issue}`` matches as ``*`` does, and is a parameter of the tool.
#
# A rule's path is compared with the path that the gateway sends to the provider, byte for byte: with the path of the
# base URL, and without the query. `path_ambiguity` finds the paths that two servers can read differently. The gateway
# refuses a request with such a path without a comparison.

WEBSOCKET: Final = "WEBSOCKET"
MAX_RULE_LENGTH: Final = 512  # maximum length of a rule
MAX_WILDCARDS: Final = 20  # maximum number of wildcards and placeholders in a rule of a new key
MAX_PATH_LENGTH: Final = 2048  # maximum length of a path; a longer path matches no rule

_METHOD: Final = re.compile(r"[A-Z]+(?:-[A-Z]+)*")
_LITERAL: Final = re.compile(r"[!\"$-:<->@-\[\]-~]*")  # visible ASCII without # ; ? and \
_AS: Final = " as "
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]{0,62})\}")
RESERVED_NAMES: Final = frozenset(
    {"call_api", "call_tool", "describe_tool", "find_tools"}
)  # the agent door's own tools
RESERVED_PLACEHOLDERS: Final = frozenset({"body", "body_as", "connection", "max_bytes", "method", "query", "select"})
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DELIMITERS: Final = frozenset(b"/\\?#%;")
_PUNCTUATION: Final = frozenset("/\\?#%;.")


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
    if not space or not path.startswith("/"):
        raise ValueError("has no path: write METHOD /path, for example 'GET /v1/items/*'")
    named = None if methods == "*" else frozenset(methods.split(","))
    if named is not None and not all(_METHOD.fullmatch(method) for method in named):
        raise ValueError("must begin with methods in capitals joined by commas, or with *")
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


def path_ambiguity(path: str) -> str | None:
    """Return why two servers can read `path` as different paths; None if they cannot.

    The text is the end of a sentence that begins with "a path that".

    `path` is visible ASCII without ``\\`` and ``#``, as `http.url.parse_proxied_target` returns it.
    """
    if len(path) > MAX_PATH_LENGTH:
        return f"has more than {MAX_PATH_LENGTH} characters"
    if "//" in path:
        return "holds '//'"
    if ";" in path:
        return "holds ';'"
    if has_dot_segment(path):
        return "holds a '.' or '..' segment"
    if any(segment.endswith(".") for segment in path.split("/")):
        return "has a segment that ends in '.'"
    return _escape_ambiguity(path) if "%" in path else None


def _escape_ambiguity(path: str) -> str | None:
    for found in _ESCAPE.finditer(path):
        if found[1] is None:
            return "holds a '%' that encodes nothing"
        byte = int(found[1], 16)
        if byte in _DELIMITERS or byte < 0x20 or byte == 0x7F:
            return f"holds '{found[0]}', an encoded delimiter or control character"
        if byte in _UNRESERVED:
            return f"holds '{found[0]}', which must be written as '{chr(byte)}'"
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8 once it is decoded"
    if any(segment != segment.strip() for segment in text.split("/")):
        return "has a segment that begins or ends with a space"
    if not _LOOKALIKES.isdisjoint(text):
        return "holds a character that some readers take for a delimiter"
    folded = unicodedata.normalize("NFKC", text)
    if not _LOOKALIKES.isdisjoint(folded):  # for example U+FFE5, a wide yen sign
        return "holds a character that some readers take for a delimiter"
    if sum(map(folded.count, _PUNCTUATION)) != sum(map(text.count, _PUNCTUATION)):
        return "holds a character that some readers take for a delimiter"
    return None


BrokenLimit = Literal["rules", "hosts", "method_override", "ambiguous_path", "ambiguous_query", "body", "unread_body"]

# Headers that make frameworks and gateways replace the method or path of the request line, or that make a request read
# or write a second path.
OVERRIDES: Final = frozenset(
    {
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-method",
        "http-method-override",
        "x-http-verb-override",
        "x-http-verb",
        "x-httpmethod-override",
        "x-httpmethod",
        "x-ms-http-method-override",
        "x-original-method",
        "x-original-url",
        "x-original-uri",
        "x-original-path",
        "x-request-uri",
        "x-rewrite-uri",
        "x-rewrite-url",
        "x-override-url",
        # Headers with the path of another object, which `_OTHER_OBJECT` does not match.
        "x-emc-path",  # Dell EMC Atmos: the object's new name
        "x-object-manifest",  # OpenStack Swift
    }
)
# Headers that name another object, such as ``x-amz-copy-source`` and ``x-oss-symlink-target``. The provider copies or
# moves this object to the path of the request line, or links to it. Storage services use similar names for such
# headers, so the pattern also matches headers that are not known yet.
_OTHER_OBJECT: Final = re.compile(
    r"x-(?:.+-)?(?:(?:copy|fetch|move|rename)-(?:from|source)|symlink-target)|x-.+-source-?ur[il]"
)
_DESTINATION: Final = "destination"
_WITH_DESTINATION: Final = frozenset({"COPY", "MOVE"})  # RFC 4918 §10.3; other methods ignore this header
# Windows converts these characters to a slash or a backslash if its code page lacks them ("best fit").
_LOOKALIKES: Final = frozenset("\u2044\u2215\u29f8\u2216\u29f5\u00a5\u20a9")
QUERY_OVERRIDES: Final = frozenset(
    {"_method", "_httpmethod", "$httpmethod", "httpmethod", "$method", "x-http-method-override", "x-http-method"}
)
_METHOD_PARAMETER: Final = "method"  # also an ordinary parameter, so an override only if its value is a method
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_MAY_OVERRIDE: Final = re.compile(r"method|%", re.IGNORECASE)


@lru_cache(maxsize=512)  # the fast path passes the same set for each request with the same header fields
def overrides_in(names: frozenset[str]) -> tuple[str, ...]:
    """Return, sorted, the headers in `names` that can change a request's method or path, or can name another object.

    The header ``destination`` names another object only with some methods; the caller must check the method.
    """
    return tuple(
        sorted(name for name in names if name in OVERRIDES or name == _DESTINATION or _OTHER_OBJECT.fullmatch(name))
    )


class SentRequest(NamedTuple):
    """A request as the gateway will send it.

    `path`: the path without the query. `names`: the names of the header fields, in lower case with ``-`` in place of
    ``_``. `body`: the parsed body; None if it was not read.
    """

    method: str
    host: str
    path: str
    query: str
    names: Iterable[str]
    body: SentBody | None = None


@dataclass(frozen=True, slots=True)
class Breach:
    """The limit that a request breaks, and the reason.

    `broken`: the limit; ``unread_body`` means that a rule about the body can allow the request, but the body was not
    read yet. `why`: the reason, as the end of a sentence. `allowed`: the rules or hosts of the key, to show to the
    caller.
    """

    broken: BrokenLimit
    why: str
    allowed: tuple[str, ...] = ()


INLINE_CHARS: Final = 4096  # the event loop compiles rules of up to this size itself, in about 20 ms at most


def is_slow_to_compile(limits: Iterable[KeyLimits]) -> bool:
    """Return whether `Policy.compile` would block the event loop for too long.

    Compiling a snapshot takes a quarter of the time that rules of the same length take.
    """
    size = sum(sum(map(len, one.rules)) + sum(map(len, one.operations.values())) // 4 for one in limits)
    return size > INLINE_CHARS


class Policy:
    """The policy of a key: its scopes, its own limits and the limits of its ancestors.

    `of_resources`: whether a limit names integrations, connections or tags. `of_connections`: whether a limit names
    connections or tags. `of_tags`: whether a limit names tags. `of_requests`: whether a limit has rules or hosts.
    `may_proxy`: whether the key has the scope of the proxy.
    """

    def __init__(self, scopes: Sequence[str], limits: Sequence[KeyLimits]) -> None:
        self.scopes = tuple(scopes)
        self.limits = tuple(limits)
        self.of_resources = any(one.limits_resources for one in self.limits)
        self.of_requests = any(one.limits_requests for one in self.limits)
        self.of_tags = any(one.tags for one in self.limits)
        self.of_connections = self.of_tags or any(one.connections for one in self.limits)
        self.may_proxy = covers(self.scopes, PROXY)
        self._rules = [_Rules(one) for one in self.limits if one.rules]
        self._hosts = [one.hosts for one in self.limits if one.hosts]

    def compile(self) -> None:
        """Compile all rules, so that no decision has to. For 1,000 rules, this takes up to 3 s."""
        for one in self._rules:
            one.compile()

    @property
    def rules(self) -> Sequence[Sequence[KeyRule | OperationRule]]:
        """One list of rules for the key and one for each ancestor; the key's own list is last.

        A key or ancestor without rules has no list. A request must match one rule of each list. Each rule that names
        operations appears as these operations.
        """
        return [
            [*one.parsed, *(rule for found in one.sets for rule in found.rules)] for one in reversed(self._rules)
        ]  # reversed, because `MintedKey.limits` starts with the key's own limits

    @property
    def operation_sets(self) -> Mapping[str, OperationSet]:
        """The operations of each rule that names operations, by the rule's text."""
        return {text: found for one in self._rules for text, found in zip(one.references, one.sets, strict=True)}

    def allows(self, scope: str) -> bool:
        """Return whether the key's scopes cover `scope`.

        A key with rules or hosts never gets a credential: with the credential, the caller could send any request
        directly to the provider.
        """
        return covers(self.scopes, scope) and not (self.of_requests and scope.endswith("_credentials"))

    @property
    def keeps_settings(self) -> bool:
        """Whether authorizations that this key starts keep the settings, and so the hosts, of existing connections."""
        return self.of_connections or not self.allows(CONFIGURE)

    def reaches_integration(self, integration_id: str) -> bool:
        """Return whether this key is allowed to see the integration."""
        return all(_reaches_integration(one, integration_id) for one in self.limits)

    def reaches(self, integration_id: str, connection_id: str) -> bool:
        """Return whether this key is allowed to see the connection. Does not check tags; `fits` checks tags."""
        return all(_reaches(one, integration_id, connection_id) for one in self.limits)

    @property
    def tags(self) -> dict[str, str] | None:
        """The tags that a connection must have, by lower-case name; None if two limits contradict each other."""
        wanted: dict[str, str] = {}
        for one in self.limits:
            for name, value in one.tags.items():
                if wanted.setdefault(name.lower(), value) != value:
                    return None
        return wanted

    def fits(self, tags: Mapping[str, str]) -> bool:
        """Return whether the key is allowed to use a connection with these tags."""
        return all(tags.get(name.lower()) == value for one in self.limits for name, value in one.tags.items())

    def decision(self, request: SentRequest) -> Breach | str:
        """Return the text of the rule that allows this request, or the Breach if the request is not allowed.

        The text is empty if the key has no rules. For a rule that names operations, the operation's id follows the
        rule: ``operations jira read: get_issue``. If both the key and its ancestors have rules, one rule of each must
        allow the request. The result is then the rule of the farthest ancestor.
        """
        if not self.of_requests:
            return ""
        for hosts in self._hosts:
            if not any(_matches_host(pattern, request.host) for pattern in hosts):
                return Breach("hosts", f"it may not send requests to {request.host}", hosts)
        if not self._rules:
            return ""
        if (breach := _other_reading(request)) is not None:
            return breach
        allowing, cost = "", 0
        for rules in self._rules:
            fitting: str | Breach = rules.matching_rule(request)
            if not fitting:
                of_bodies = rules.matching_body_rules(request)
                if request.body is not None:
                    cost += comparison_cost((body for _, body in of_bodies), request.body)
                fitting = rules.body_decision(request, of_bodies, can_compare=cost <= MAX_COMPARISON_COST)
            if isinstance(fitting, Breach):
                return fitting
            allowing = fitting
        return allowing

    def is_slow_for(self, body: SentBody) -> bool:
        """Return whether `decision` for a request with this body can take more than a few milliseconds."""
        of_bodies = (body_rule for rules in self._rules for _, body_rule in rules.body_rules)
        return comparison_cost(of_bodies, body) > INLINE_COMPARISON_COST

    def tool_rules(self, request: SentRequest) -> list[list[BodyRule]]:
        """Return the rules about the body for this request, in one list for the key and one for each ancestor.

        A rule of each list must name the tool that the request calls. A key has no list if it has no rules, or if a
        rule without a part about the body allows the request.
        """
        without = [rules for rules in self._rules if not rules.matching_rule(request)]
        return [[body for _, body in rules.matching_body_rules(request)] for rules in without]


def _other_reading(request: SentRequest) -> Breach | None:
    """Return a Breach if the provider can understand another method, path or object than the gateway; else None."""
    for header in overrides_in(frozenset(request.names)):
        if header != _DESTINATION or request.method in _WITH_DESTINATION:
            return Breach("method_override", f"the header {header} may change its method or path, or name another")
    fault = path_ambiguity(request.path)
    if fault is not None:
        return Breach("ambiguous_path", f"a path can be read in two ways if it {fault}")
    if _MAY_OVERRIDE.search(request.query) and (name := _method_override_in(request.query)):
        return Breach("ambiguous_query", f"the query parameter '{name}' may change its method")
    return None


class _Rules:
    """The rules of one key, in three groups.

    `plain_rules`: rules with methods and a path. `body_rules`: rules that also have a part about the body.
    `references`: rules that name operations.
    """

    __slots__ = ("_sets", "_snapshots", "body_rules", "parsed", "plain_rules", "references", "rule_texts")

    def __init__(self, limits: KeyLimits) -> None:
        self.rule_texts = limits.rules
        self.parsed = [parse_rule(text) for text in limits.rules if not is_reference(text)]
        self.plain_rules = [rule for rule in self.parsed if rule.body is None]
        self.body_rules = [(rule, rule.body) for rule in self.parsed if rule.body is not None]
        self.references = [text for text in limits.rules if is_reference(text)]
        self._snapshots = limits.operations
        self._sets: list[OperationSet] | None = None

    @property
    def sets(self) -> list[OperationSet]:
        """The operations of each rule in `references`, unpacked at the first use."""
        if self._sets is None:
            self._sets = [operation_set(text, self._snapshots.get(text, "")) for text in self.references]
        return self._sets

    def compile(self) -> None:
        for rule in self.parsed:
            rule.compile()
        _ = self.sets

    def matching_rule(self, request: SentRequest) -> str:
        """Return the text of the first rule that allows the request; "" if no rule allows the request.

        If the rule names operations, the operation's id follows the rule.
        """
        for rule in self.plain_rules:
            if rule.fits(request.method, request.path):
                return rule.text
        for found in self.sets:
            if (operation := found.matching_operation(request.method, request.host, request.path)) is not None:
                return f"{operation.text}: {operation.name}"
        return ""

    def matching_body_rules(self, request: SentRequest) -> list[tuple[KeyRule, BodyRule]]:
        """Return the rules with a part about the body that allow the request's method and path."""
        return [(rule, body) for rule, body in self.body_rules if rule.fits(request.method, request.path)]

    def body_decision(
        self, request: SentRequest, matching: Sequence[tuple[KeyRule, BodyRule]], *, can_compare: bool
    ) -> str | Breach:
        """Return the text of the first rule of `matching` that allows the request's body; else the Breach."""
        if not matching:
            return Breach("rules", f"none of its rules allows {request.method} for this path", self.rule_texts)
        if request.body is None:
            return Breach("unread_body", "a rule of it needs the body, which was not read", self.rule_texts)
        if not can_compare:
            return Breach("body", "it requests more fields than its rules can be compared with", self.rule_texts)
        refusals: dict[str, None] = {}
        for rule, body in matching:
            refusal = body.refusal(request.body)
            if refusal is None:
                return rule.text
            refusals[refusal] = None
        return Breach("body", f"it {'; '.join(refusals)}", self.rule_texts)


def _reaches_integration(limits: KeyLimits, integration_id: str) -> bool:
    if limits.integrations and integration_id not in limits.integrations:
        return False
    return not limits.connections or any(
        one.partition("/")[0] in (integration_id, ANY_INTEGRATION) for one in limits.connections
    )


def _reaches(limits: KeyLimits, integration_id: str, connection_id: str) -> bool:
    if limits.integrations and integration_id not in limits.integrations:
        return False
    if not limits.connections:
        return True
    wanted = f"{integration_id}/{connection_id}", f"{ANY_INTEGRATION}/{connection_id}"
    return any(one in wanted for one in limits.connections)


def _matches_host(pattern: str, host: str) -> bool:
    """Return whether `host` equals `pattern`, or matches a pattern such as ``*.example.com``."""
    pattern, host = pattern.lower(), host.lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _method_override_in(query: str) -> str | None:
    """Return the query parameter with which some providers and frameworks replace the method.

    Return None if the query has no such parameter.
    """
    for pair in re.split("[&;?]", query):
        name, _, value = pair.partition("=")
        name, value = unquote_plus(name).strip().lower(), unquote_plus(value).strip().lower()
        for read in (name, _php_name(name)):
            if read in QUERY_OVERRIDES or (read == _METHOD_PARAMETER and value in _METHODS):
                return read
    return None


def _php_name(name: str) -> str:
    """Return PHP's variable name for a parameter: ``.method``, ``_method[]`` and ``_method%00x`` become ``_method``."""
    return name.partition("\0")[0].partition("[")[0].lstrip(" ").replace(".", "_").replace(" ", "_")
