"""The text format of minted keys and capabilities, and the checks of a request for a new key."""

import re
import secrets
import string
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from gateway.access.key_rule import MAX_WILDCARDS, count_wildcards, names_operations, parse_rule
from gateway.access.scopes import EVERYTHING, PROXY, is_scope, nearest_scope
from gateway.errors import InvalidRequest, Issue, joined_issues
from gateway.records.access import ANY_INTEGRATION, KeyKind, KeyLimits, MintedKey
from gateway.records.connection import CONNECTION_ID, id_fault
from gateway.secret import Secret
from gateway.text import close_matches, did_you_mean

# ── The text format of minted keys: secret keys, and capabilities, which are a part of a URL.

PREFIX: Final = "gw_sk_"
CAPABILITY_PREFIX: Final = "gw_cap_"
PREFIXES: Final[dict[KeyKind, str]] = {"key": PREFIX, "capability": CAPABILITY_PREFIX}
BASE62_DIGITS: Final = string.digits + string.ascii_letters
BODY_CHARS: Final = 43
CHECKSUM_CHARS: Final = 6
CAPABILITY_FORM: Final = f"{CAPABILITY_PREFIX}[A-Za-z0-9_-]{{{BODY_CHARS + CHECKSUM_CHARS}}}"
"""The form of a capability, as a regular expression. It does not check the checksum."""
_URL_SAFE: Final = frozenset(string.ascii_letters + string.digits + "-_")


def mint(kind: KeyKind = "key") -> Secret:
    """Return a new key: a prefix, 43 URL-safe characters, and a checksum of six characters.

    Secret scanners recognize the prefix. With the checksum, a scanner distinguishes a key from a similar text without a
    call to the gateway.
    """
    body = secrets.token_urlsafe(32)
    return Secret(f"{PREFIXES[kind]}{body}{checksum(body)}")


def key_kind(text: str) -> KeyKind | None:
    """Return whether `text` is a secret key or a capability; None if `text` is neither.

    The prefix, the length and the checksum decide.
    """
    for kind, prefix in PREFIXES.items():
        if text.startswith(prefix):
            body, written_checksum = text[len(prefix) : -CHECKSUM_CHARS], text[-CHECKSUM_CHARS:]
            is_valid = len(body) == BODY_CHARS and _URL_SAFE.issuperset(body) and checksum(body) == written_checksum
            return kind if is_valid else None
    return None


def checksum(body: str) -> str:
    """Return the CRC-32 of `body`, as six digits of base 62."""
    number, digits = zlib.crc32(body.encode("ascii")), ""
    for _ in range(CHECKSUM_CHARS):
        number, digit = divmod(number, len(BASE62_DIGITS))
        digits = BASE62_DIGITS[digit] + digits
    return digits


OVERLAP: Final = timedelta(days=1)
MAX_ITEMS: Final = 50  # maximum number of scopes in a key, and of values in each of its limits except rules
MAX_RULES: Final = 200
MAX_NAME_LENGTH: Final = 511  # maximum length of ``INTEGRATION/CONNECTION``
CAPABILITY_SCOPES: Final = ("environment:proxy", "environment:connect_sessions:write")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedKey:
    """A request for a new key.

    `scopes`: None means all scopes, or only the proxy's scope if the key has limits or is a capability. `rate`: maximum
    calls per minute; None means no maximum. `budget`: maximum calls in total; None means no maximum.

    `replaces`: the id of the key that the new key replaces; None if it replaces no key. The replaced key stays valid
    for `overlap`, so that clients can switch to the new key. In a request for a replacement, None as `scopes`, `rate`
    or `budget` means the value of the replaced key.
    """

    name: str
    kind: KeyKind = "key"
    scopes: Sequence[str] | None = None
    limits: KeyLimits = field(default_factory=KeyLimits)
    rate: int | None = None
    budget: int | None = None
    expires_at: datetime | None = None
    replaces: int | None = None
    overlap: timedelta = OVERLAP


def completed_replacement(requested: RequestedKey, replaced_key: MintedKey) -> RequestedKey:
    """Return the request for a replacement. Values that the request lacks come from the replaced key."""
    return replace(
        requested,
        kind=replaced_key.kind,
        scopes=replaced_key.scopes if requested.scopes is None else requested.scopes,
        rate=requested.rate or replaced_key.rate,
        budget=requested.budget or replaced_key.budget,
    )


def check_request(requested: RequestedKey, now: datetime) -> None:
    """Raise InvalidRequest with all faults of the request."""
    issues = [*_scope_issues(requested), *_limit_issues(requested)]
    if not requested.name.strip() or len(requested.name) > 255 or not requested.name.isprintable():
        issues.append(Issue("custom", "display_name must have 1 to 255 printable characters.", ("display_name",)))
    if requested.expires_at is not None and requested.expires_at <= now:
        issues.append(Issue("custom", "expires_at is in the past.", ("expires_at",)))
    if issues:
        raise InvalidRequest("invalid_body", joined_issues(issues), errors=issues)


def default_scopes(requested: RequestedKey) -> tuple[str, ...]:
    """Return the scopes of a key if its request names no scopes."""
    is_limited = requested.kind == "capability" or requested.limits != KeyLimits()
    return (PROXY,) if is_limited else (EVERYTHING,)


def _scope_issues(requested: RequestedKey) -> list[Issue]:
    if len(requested.scopes or ()) > MAX_ITEMS:
        return [Issue("custom", f"At most {MAX_ITEMS} scopes in a key.", ("scopes",))]
    issues: list[Issue] = []
    for index, scope in enumerate(requested.scopes or ()):
        if not is_scope(scope):
            similar_scope = None if issues else nearest_scope(scope)
            hint = f"did you mean '{similar_scope}'?" if similar_scope else "docs/keys.md lists them."
            issues.append(Issue("custom", f"'{scope[:64]}' is not a scope; {hint}", ("scopes", str(index))))
        elif requested.kind == "capability" and scope not in CAPABILITY_SCOPES:
            message = f"A capability can have only the scopes {' and '.join(CAPABILITY_SCOPES)}."
            issues.append(Issue("custom", message, ("scopes", str(index))))
    if requested.scopes is not None and not requested.scopes:
        issues.append(Issue("custom", "scopes is empty; leave it out, or name at least one.", ("scopes",)))
    return issues


def _limit_issues(requested: RequestedKey) -> list[Issue]:
    limits = requested.limits
    faults: list[tuple[str, tuple[str, ...]]] = [
        (f"At most {limit} {name} in a key.", (name,))
        for name, values in limits.as_json().items()
        if len(values) > (limit := MAX_RULES if name in ("rules", "operations") else MAX_ITEMS)
    ]
    tag_texts = *limits.tags, *limits.tags.values()
    limits_by_name = {"integrations": limits.integrations, "connections": limits.connections, "tags": tag_texts}
    faults += [
        (f"{text[:64]!r} is empty, too long or not printable, so nothing can have that name.", (name,))
        for name, texts in limits_by_name.items()
        for text in texts
        if not text or len(text) > MAX_NAME_LENGTH or not text.isprintable()
    ]
    faults += [
        (fault, ("connections", str(index)))
        for index, connection in enumerate(limits.connections)
        for fault in _connection_faults(connection)
    ]
    faults += [
        (fault, ("rules", str(index)))
        for index, rule in enumerate(limits.rules)
        for fault in _rule_faults(rule, limits)
    ]
    faults += [(fault, ("rules",)) for fault in _duplicate_name_faults(limits.rules)]
    faults += [
        (fault, ("hosts", str(index))) for index, host in enumerate(limits.hosts) for fault in _host_faults(host)
    ]
    for name, value in (("rate", requested.rate), ("budget", requested.budget)):
        if value is not None and not 1 <= value <= 10**9:
            faults.append((f"{name} must be a whole number from 1 to 1000000000.", (name,)))
    if requested.kind == "capability" and requested.replaces is None and not _has_one_connection(limits):
        faults.append(
            ("A capability stands for one connection: name exactly one INTEGRATION/CONNECTION.", ("connections",))
        )
    return [Issue("custom", message, ("limits", *path)) for message, path in faults]


def _connection_faults(text: str) -> Iterator[str]:
    integration_id, _, connection_id = text.partition("/")
    if not integration_id or not connection_id:
        yield f"'{text[:64]}' names no connection: write INTEGRATION/CONNECTION."


def _rule_faults(text: str, limits: KeyLimits) -> Iterator[str]:
    if names_operations(text):
        if text not in limits.operations:
            yield f"'{text[:128]}' was not looked up in the catalog."
        return
    try:
        rule = parse_rule(text)
    except ValueError as fault:
        yield f"'{text[:128]}' {fault}."
        return
    if count_wildcards(rule) > MAX_WILDCARDS:  # not checked in `parse_rule`: stored keys can have more
        yield f"'{text[:128]}' has more than {MAX_WILDCARDS} wildcards and placeholders."


def _duplicate_name_faults(rules: Sequence[str]) -> Iterator[str]:
    names = [text.rpartition(" as ")[2] for text in rules if " as " in text and not names_operations(text)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"Two rules are named '{name[:64]}'; give them different names."


def _host_faults(text: str) -> Iterator[str]:
    labels = text.removeprefix("*.").split(".")
    if not all(label.isascii() and label.replace("-", "").isalnum() for label in labels):
        yield f"'{text[:64]}' is not a host name such as api.example.com or *.example.com; leave scheme and port out."


def _has_one_connection(limits: KeyLimits) -> bool:
    return len(limits.connections) == 1 and not limits.connections[0].startswith(f"{ANY_INTEGRATION}/")


# ── Warnings about valid rules that are probably mistakes. A provider may use other methods than the registered ones.

# Matches placeholders of API documentation: {id}, <id>, :id, also if one of the brackets is missing. A rule with a
# placeholder is valid, because a path can contain these characters.
_PLACEHOLDER: Final = re.compile(
    r"\$?\{[^{}/]*(?:\}|(?=/|$))|<[^<>/]*(?:>|(?=/|$))"
    r"|(?<=/)(?:[^{}/]*\}|[^<>/]*>|:[A-Za-z_][A-Za-z0-9_-]*(?=/|$))"
)
_USUAL_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET")
# The other registered methods: https://www.iana.org/assignments/http-methods
_OTHER_METHODS: Final = (
    "ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL "
    "MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT "
    "UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL"
)
_REGISTERED_METHODS: Final = frozenset((*_USUAL_METHODS, *_OTHER_METHODS.split()))


MAX_COMPARED: Final = 100  # with more names, the search for the name that was meant takes too long


def name_warnings(limits: KeyLimits) -> Iterator[str]:
    """Yield a warning for each name in the limits that no integration or connection can have."""
    if ANY_INTEGRATION in limits.integrations:
        yield "'*' names no integration, so this key reaches none. To allow all integrations, leave this limit out"
    for text in limits.connections:
        connection_id = text.partition("/")[2]
        if connection_id == "*":
            yield (
                f"'{text[:64]}' names no connection: only the integration can be *. To allow all connections of an integration, "
                "limit the integrations instead"
            )
        elif (fault := id_fault(connection_id, CONNECTION_ID)) is not None:
            yield f"'{text[:64]}' names no connection, because its id {fault}"


def integration_warnings(limits: KeyLimits, environment: str, known_names: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each integration that the limits name but the environment does not have.

    An unknown integration is not an error, because somebody might add the integration later. `known_names`: the integrations
    of the environment that the caller may see.
    """
    integrations_of_connections = (connection.partition("/")[0] for connection in limits.connections)
    for name in dict.fromkeys((*limits.integrations, *integrations_of_connections)):
        if name == ANY_INTEGRATION or name in known_names:
            continue
        hint = ""
        if len(known_names) <= MAX_COMPARED:
            hint = did_you_mean(name, known_names) or f"; its integrations: {', '.join(known_names) or 'none'}"
        yield (
            f"environment '{environment}' has no integration '{name}'{hint}{'' if hint.endswith('?') else '.'} The key "
            "cannot use it until it exists"
        )


def rule_warnings(rules: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each valid rule that probably matches no request.

    The path of such a rule contains a placeholder, or its method is a typo.
    """
    for text in rules:
        if names_operations(text):
            continue
        rule = parse_rule(text)
        if not rule.name and (match := _PLACEHOLDER.search(rule.path_pattern)):
            corrected_rule = text.replace(rule.path_pattern, _PLACEHOLDER.sub("*", rule.path_pattern), 1)
            yield (
                f"rule '{text}' matches only paths that hold the characters '{match[0]}'. For any value, write *: "
                f"'{corrected_rule}'"
            )
        for method in sorted((rule.methods or frozenset()) - _REGISTERED_METHODS):
            similar_methods = close_matches(method, _USUAL_METHODS, limit=1)
            hint = f"; did you mean '{similar_methods[0]}'?" if similar_methods else ""
            yield f"rule '{text}' has the method '{method}', which is not a registered HTTP method{hint}"


def base_path_warnings(limits: KeyLimits, base_path: Callable[[str], str | None]) -> Iterator[str]:
    """Yield a warning for each valid rule whose path is not below the base URL of an integration that the limits name.

    Rules are compared with the whole path that is sent to the provider, which begins with the path of the base URL.
    `base_path` returns this path for an integration, with ``*`` for each setting; None if it is unknown.
    """
    integrations_of_connections = (connection.partition("/")[0] for connection in limits.connections)
    bases = {name: base_path(name) for name in (*limits.integrations, *integrations_of_connections)}
    known_bases = [base for base in bases.values() if base is not None]
    if not known_bases or len(known_bases) < len(bases):
        return
    name, first_base = next(iter(bases)), known_bases[0]
    for text in limits.rules:
        if names_operations(text):
            continue
        rule = parse_rule(text)
        if not any(_may_be_below(rule.path, base) for base in known_bases):
            corrected_rule = text.replace(rule.path_pattern, first_base + rule.path_pattern, 1)
            yield (
                f"rule '{text}' allows no call below the base URL of integration '{name}', which has the path "
                f"'{first_base}'. A rule includes this path: '{corrected_rule}'"
            )


def _may_be_below(path: str, base: str) -> bool:
    """Return whether the path of a rule and a base path begin in the same way, up to the first wildcard of either."""
    path_start, base_start = path.partition("*")[0], base.partition("*")[0]
    if base_start == base:
        base_start += "/"
    length = min(len(path_start), len(base_start))
    return path_start[:length] == base_start[:length]
