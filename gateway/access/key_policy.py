"""Decides whether a key's scopes, limits and rules allow a request, for the middleware chain and the fast path.

The decision is about the request that the gateway will send to the provider: its method, its host, its raw path (with
the path of the base URL), its query, the names of its header fields and, if a rule requires it, its body.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from gateway.access.ambiguous_requests import MAY_OVERRIDE, override_header, override_parameter, path_ambiguity
from gateway.access.body_rules import (
    INLINE_COMPARISON_COST,
    MAX_COMPARISON_COST,
    BodyRule,
    SentBody,
    comparison_cost,
)
from gateway.access.key_rule import KeyRule, names_operations, parse_rule
from gateway.access.operation_rules import OperationRule, OperationSet, operation_set
from gateway.access.scopes import CONFIGURE, PROXY, covers
from gateway.records.access import ANY_INTEGRATION, KeyLimits

BrokenLimit = Literal["rules", "hosts", "method_override", "ambiguous_path", "ambiguous_query", "body", "unread_body"]


class SentRequest(NamedTuple):
    """A request as the gateway will send it.

    `path`: the path without the query. `header_names`: the names of the header fields, in lower case with ``-`` in place
    of ``_``. `body`: the parsed body; None if it was not read.
    """

    method: str
    host: str
    path: str
    query: str
    header_names: Iterable[str]
    body: SentBody | None = None


@dataclass(frozen=True, slots=True)
class Breach:
    """The limit that a request breaks, and the reason.

    `broken_limit`: ``unread_body`` means that a rule about the body can allow the request, but the body was not read yet.
    `reason`: the end of a sentence. `allowed`: the rules or hosts of the key, to show to the caller.
    """

    broken_limit: BrokenLimit
    reason: str
    allowed: tuple[str, ...] = ()


INLINE_CHARS: Final = 4096  # the event loop compiles rules of up to this size itself, in about 20 ms at most


def is_slow_to_compile(limits: Iterable[KeyLimits]) -> bool:
    """Return whether `Policy.compile` would block the event loop for too long.

    Compiling a snapshot takes a quarter of the time that rules of the same length take.
    """
    size = sum(
        sum(map(len, key_limits.rules)) + sum(map(len, key_limits.operations.values())) // 4 for key_limits in limits
    )
    return size > INLINE_CHARS


class Policy:
    """The policy of a key: its scopes, its own limits and the limits of its ancestors.

    `limits_resources`: whether a limit names integrations, connections or tags. `limits_connections`: whether a limit
    names connections or tags. `limits_tags`: whether a limit names tags. `limits_requests`: whether a limit has rules
    or hosts. `may_proxy`: whether the key has the scope of the proxy.
    """

    def __init__(self, scopes: Sequence[str], limits: Sequence[KeyLimits]) -> None:
        self.scopes = tuple(scopes)
        self.limits = tuple(limits)
        self.limits_resources = any(key_limits.limits_resources for key_limits in self.limits)
        self.limits_requests = any(key_limits.limits_requests for key_limits in self.limits)
        self.limits_tags = any(key_limits.tags for key_limits in self.limits)
        self.limits_connections = self.limits_tags or any(key_limits.connections for key_limits in self.limits)
        self.may_proxy = covers(self.scopes, PROXY)
        self._rules = [_Rules(key_limits) for key_limits in self.limits if key_limits.rules]
        self._hosts = [key_limits.hosts for key_limits in self.limits if key_limits.hosts]

    def compile(self) -> None:
        """Compile all rules, so that no decision has to. For 1,000 rules, this takes up to 3 s."""
        for key_rules in self._rules:
            key_rules.compile()

    @property
    def rules(self) -> Sequence[Sequence[KeyRule | OperationRule]]:
        """One list of rules for the key and one for each ancestor; the key's own list is last.

        A key or ancestor without rules has no list. A request must match one rule of each list. Each rule that names
        operations appears as these operations.
        """
        return [
            [*key_rules.parsed, *(rule for operation_set in key_rules.sets for rule in operation_set.rules)]
            for key_rules in reversed(self._rules)
        ]  # reversed, because `MintedKey.limits` starts with the key's own limits

    @property
    def operation_sets(self) -> Mapping[str, OperationSet]:
        """The operations of each rule that names operations, by the rule's text."""
        return {
            text: operation_set
            for key_rules in self._rules
            for text, operation_set in zip(key_rules.operation_rule_texts, key_rules.sets, strict=True)
        }

    def allows(self, scope: str) -> bool:
        """Return whether the key's scopes cover `scope`.

        A key with rules or hosts never gets a credential: with the credential, the caller could send any request
        directly to the provider.
        """
        return covers(self.scopes, scope) and not (self.limits_requests and scope.endswith("_credentials"))

    @property
    def keeps_settings(self) -> bool:
        """Whether a reconnect or an import with this key must keep the settings of an existing connection.

        Settings can be part of the provider's URLs, so other settings can lead to another host.
        """
        return self.limits_connections or not self.allows(CONFIGURE)

    def reaches_integration(self, integration_id: str) -> bool:
        """Return whether this key is allowed to see the integration."""
        return all(_reaches_integration(key_limits, integration_id) for key_limits in self.limits)

    def reaches(self, integration_id: str, connection_id: str) -> bool:
        """Return whether this key is allowed to see the connection. Does not check tags; `allows_tags` checks tags."""
        for key_limits in self.limits:  # noqa: SIM110 (each proxied call comes here, and `all` with a generator takes longer)
            if not _reaches(key_limits, integration_id, connection_id):
                return False
        return True

    @property
    def tags(self) -> dict[str, str] | None:
        """The tags that a connection must have, by lower-case name; None if two limits contradict each other."""
        required: dict[str, str] = {}
        for key_limits in self.limits:
            for name, value in key_limits.tags.items():
                if required.setdefault(name.lower(), value) != value:
                    return None
        return required

    def allows_tags(self, tags: Mapping[str, str]) -> bool:
        """Return whether the key is allowed to use a connection with these tags."""
        return all(
            tags.get(name.lower()) == value for key_limits in self.limits for name, value in key_limits.tags.items()
        )

    def decision(self, request: SentRequest) -> Breach | str:
        """Return the text of the rule that allows this request, or the Breach if the request is not allowed.

        The text is empty if the key has no rules. For a rule that names operations, the operation's id follows the
        rule: ``operations jira read: get_issue``. If both the key and its ancestors have rules, one rule of each must
        allow the request. The result is then the rule of the farthest ancestor.
        """
        if not self.limits_requests:
            return ""
        for hosts in self._hosts:
            if not any(_matches_host(pattern, request.host) for pattern in hosts):
                return Breach("hosts", f"it may not send requests to {request.host}", hosts)
        if not self._rules:
            return ""
        if (breach := _ambiguity_breach(request)) is not None:
            return breach
        allowing_rule, cost = "", 0
        for rules in self._rules:
            result: str | Breach = rules.matching_rule(request)
            if not result:
                matching_body_rules = rules.matching_body_rules(request)
                if request.body is not None:
                    cost += comparison_cost((body for _, body in matching_body_rules), request.body)
                result = rules.body_decision(request, matching_body_rules, can_compare=cost <= MAX_COMPARISON_COST)
            if isinstance(result, Breach):
                return result
            allowing_rule = result
        return allowing_rule

    def is_slow_for(self, body: SentBody) -> bool:
        """Return whether `decision` for a request with this body can take more than a few milliseconds."""
        body_rules = (body_rule for key_rules in self._rules for _, body_rule in key_rules.body_rules)
        return comparison_cost(body_rules, body) > INLINE_COMPARISON_COST

    def tool_rules(self, request: SentRequest) -> list[list[BodyRule]]:
        """Return the rules about the body for this request, in one list for the key and one for each ancestor.

        A rule of each list must name the tool that the request calls. A key has no list if it has no rules, or if a
        rule without a part about the body allows the request.
        """
        undecided_rules = [key_rules for key_rules in self._rules if not key_rules.matching_rule(request)]
        return [[body for _, body in key_rules.matching_body_rules(request)] for key_rules in undecided_rules]


def _ambiguity_breach(request: SentRequest) -> Breach | None:
    """Return a Breach if the provider can understand another method, path or object than the gateway.
    Return None if the request has only one meaning.
    """
    if (header := override_header(request.method, frozenset(request.header_names))) is not None:
        return Breach(
            "method_override", f"the header {header} may change its method, its path or the object that it names"
        )
    fault = path_ambiguity(request.path)
    if fault is not None:
        return Breach("ambiguous_path", f"a path can be read in two ways if it {fault}")
    if request.query and MAY_OVERRIDE.search(request.query) and (name := override_parameter(request.query)):
        return Breach("ambiguous_query", f"the query parameter '{name}' may change its method")
    return None


class _Rules:
    """The rules of one key, in three groups.

    `plain_rules`: rules with methods and a path. `body_rules`: rules that also have a part about the body.
    `operation_rule_texts`: rules that name operations.
    """

    __slots__ = ("_sets", "_snapshots", "body_rules", "operation_rule_texts", "parsed", "plain_rules", "rule_texts")

    def __init__(self, limits: KeyLimits) -> None:
        self.rule_texts = limits.rules
        self.parsed = [parse_rule(text) for text in limits.rules if not names_operations(text)]
        self.plain_rules = [rule for rule in self.parsed if rule.body is None]
        self.body_rules = [(rule, rule.body) for rule in self.parsed if rule.body is not None]
        self.operation_rule_texts = [text for text in limits.rules if names_operations(text)]
        self._snapshots = limits.operations
        self._sets: list[OperationSet] | None = None

    @property
    def sets(self) -> list[OperationSet]:
        """The operations of each rule in `operation_rule_texts`, unpacked at the first use."""
        if self._sets is None:
            self._sets = [operation_set(text, self._snapshots.get(text, "")) for text in self.operation_rule_texts]
        return self._sets

    def compile(self) -> None:
        for rule in self.parsed:
            rule.compile()
        _ = self.sets  # unpacks the snapshots

    def matching_rule(self, request: SentRequest) -> str:
        """Return the text of the first rule that allows the request; "" if no rule allows the request.

        If the rule names operations, the operation's id follows the rule.
        """
        for rule in self.plain_rules:
            if rule.matches(request.method, request.path):
                return rule.text
        for operations in self.sets:
            if (operation := operations.matching_operation(request.method, request.host, request.path)) is not None:
                return f"{operation.text}: {operation.name}"
        return ""

    def matching_body_rules(self, request: SentRequest) -> list[tuple[KeyRule, BodyRule]]:
        """Return the rules with a part about the body that allow the request's method and path."""
        return [(rule, body) for rule, body in self.body_rules if rule.matches(request.method, request.path)]

    def body_decision(
        self, request: SentRequest, matching: Sequence[tuple[KeyRule, BodyRule]], *, can_compare: bool
    ) -> str | Breach:
        """Return the text of the first rule of `matching` that allows the request's body; else the Breach."""
        if not matching:
            return Breach("rules", f"none of its rules allows {request.method} for this path", self.rule_texts)
        if request.body is None:
            return Breach("unread_body", "one of its rules needs the body, which was not read", self.rule_texts)
        if not can_compare:
            return Breach("body", "it requests too many fields to compare with the key's rules", self.rule_texts)
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
        connection.partition("/")[0] in (integration_id, ANY_INTEGRATION) for connection in limits.connections
    )


def _reaches(limits: KeyLimits, integration_id: str, connection_id: str) -> bool:
    if limits.integrations and integration_id not in limits.integrations:
        return False
    allowed_connections = limits.connections
    return (
        not allowed_connections
        or f"{integration_id}/{connection_id}" in allowed_connections
        or f"{ANY_INTEGRATION}/{connection_id}" in allowed_connections
    )


def _matches_host(pattern: str, host: str) -> bool:
    """Return whether `host` equals `pattern`, or matches a pattern such as ``*.example.com``."""
    pattern, host = pattern.lower(), host.lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
