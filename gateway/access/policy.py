"""One key's scopes and limits, ready to be asked: the same decision for the chain and for the fast lane.

It is made on the request as it will leave: its method, the host and the raw path after the join with the base URL, and
the names of its header fields.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_plus

from gateway.access.rules import Rule, ambiguous, parse
from gateway.access.scopes import CONFIGURE, PROXY, covers
from gateway.records.access import ANY_INTEGRATION, Limits

Broken = Literal["rules", "hosts", "method_override", "ambiguous_path", "ambiguous_query"]

# What frameworks and gateways take for another method or another path than the request line has.
OVERRIDES: Final = frozenset(
    {
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-method",
        "http-method-override",
        "x-original-method",
        "x-original-url",
        "x-original-uri",
        "x-original-path",
        "x-rewrite-url",
        "x-override-url",
    }
)
QUERY_OVERRIDES: Final = frozenset(
    {"_method", "_httpmethod", "$httpmethod", "httpmethod", "$method", "x-http-method-override", "x-http-method"}
)
_METHOD_PARAMETER: Final = "method"  # also an ordinary name: only with a method as its value
_METHODS: Final = frozenset({"get", "head", "post", "put", "patch", "delete", "options"})
_MAY_OVERRIDE: Final = re.compile(r"method|%", re.IGNORECASE)


class Sent(NamedTuple):
    """A request on its way out. `names`: of its header fields, in lower case with ``-``. `path` has no query."""

    method: str
    host: str
    path: str
    query: str
    names: Iterable[str]


@dataclass(frozen=True, slots=True)
class Breach:
    """Which limit it breaks, and in words what about it."""

    broken: Broken
    why: str
    allowed: tuple[str, ...] = ()


class Policy:
    """`of_resources`: it narrows down which connections there are, `of_connections`: among those of one integration,
    `of_tags`: by their tags; `of_requests`: what may be sent. `may_proxy`: it holds the scope for that."""

    def __init__(self, scopes: Sequence[str], limits: Sequence[Limits]) -> None:
        self.scopes = tuple(scopes)
        self.limits = tuple(limits)
        self.of_resources = any(one.of_resources for one in self.limits)
        self.of_requests = any(one.of_requests for one in self.limits)
        self.of_tags = any(one.tags for one in self.limits)
        self.of_connections = self.of_tags or any(one.connections for one in self.limits)
        self.may_proxy = covers(self.scopes, PROXY)
        self._rules: list[list[Rule]] = [[parse(text) for text in one.rules] for one in self.limits if one.rules]
        self._hosts = [one.hosts for one in self.limits if one.hosts]

    def allows(self, scope: str) -> bool:
        """Whether its scopes cover `scope`. A key that may send only some requests never sees a credential: with it, it
        could send any."""
        return covers(self.scopes, scope) and not (self.of_requests and scope.endswith("_credentials"))

    @property
    def pins(self) -> bool:
        """Whether connections that are there keep their settings, and with them their hosts, in what it begins."""
        return self.of_connections or not self.allows(CONFIGURE)

    def reaches_integration(self, integration_id: str) -> bool:
        """Whether there is, for this key, such an integration."""
        return all(_reaches_integration(one, integration_id) for one in self.limits)

    def reaches(self, integration_id: str, connection_id: str) -> bool:
        """Whether there may be, for this key, such a connection; its tags are another question."""
        return all(_reaches(one, integration_id, connection_id) for one in self.limits)

    @property
    def tags(self) -> dict[str, str] | None:
        """What a connection must carry; None where nothing can satisfy two limits at once."""
        wanted: dict[str, str] = {}
        for one in self.limits:
            for name, value in one.tags.items():
                if wanted.setdefault(name.lower(), value) != value:
                    return None
        return wanted

    def fits(self, tags: Mapping[str, str]) -> bool:
        """Whether a connection with these tags is one of those it may use."""
        return all(tags.get(name.lower()) == value for one in self.limits for name, value in one.tags.items())

    def breach(self, sent: Sent) -> Breach | None:
        """Why this request may not leave; None: it may."""
        if not self.of_requests:
            return None
        for hosts in self._hosts:
            if not any(_is_host(pattern, sent.host) for pattern in hosts):
                return Breach("hosts", f"it may not send requests to {sent.host}", hosts)
        if not self._rules:
            return None
        told = sorted(OVERRIDES.intersection(sent.names))
        if told:
            return Breach("method_override", f"the header {told[0]} may make another request of this one")
        fault = ambiguous(sent.path)
        if fault is not None:
            return Breach("ambiguous_path", f"a path that {fault} can be read in two ways")
        if _MAY_OVERRIDE.search(sent.query) and (name := _override_in(sent.query)):
            return Breach("ambiguous_query", f"the query parameter '{name}' may make another request of this one")
        for rules in self._rules:
            if not any(rule.fits(sent.method, sent.path) for rule in rules):
                return Breach(
                    "rules", f"no rule of it allows {sent.method} for this path", tuple(rule.text for rule in rules)
                )
        return None


def _reaches_integration(limits: Limits, integration_id: str) -> bool:
    if limits.integrations and integration_id not in limits.integrations:
        return False
    return not limits.connections or any(
        one.partition("/")[0] in (integration_id, ANY_INTEGRATION) for one in limits.connections
    )


def _reaches(limits: Limits, integration_id: str, connection_id: str) -> bool:
    if limits.integrations and integration_id not in limits.integrations:
        return False
    if not limits.connections:
        return True
    wanted = f"{integration_id}/{connection_id}", f"{ANY_INTEGRATION}/{connection_id}"
    return any(one in wanted for one in limits.connections)


def _is_host(pattern: str, host: str) -> bool:
    """Exactly, or a name below ``*.example.com``."""
    pattern, host = pattern.lower(), host.lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _override_in(query: str) -> str | None:
    """The parameter by which some provider or framework would change the method."""
    for pair in re.split("[&;?]", query):
        name, _, value = pair.partition("=")
        name, value = unquote_plus(name).strip().lower(), unquote_plus(value).strip().lower()
        if name in QUERY_OVERRIDES or (name == _METHOD_PARAMETER and value in _METHODS):
            return name
    return None
