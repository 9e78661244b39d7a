"""Turns a rule such as ``operations jira read`` into a snapshot of its operations when a key is created (ADR 54).

rule  = "operations " provider " " term *("," term)       operations that match one of the terms
term  = word *("+" word)                                  an operation must match each word
word  = read / write / delete / admin / starter / id      a risk, operations that assistants need most, or an operation
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gateway.access.key_rule import (
    MAX_RULE_LENGTH,
    OPERATIONS_PREFIX,
    RESERVED_PLACEHOLDERS,
    names_operations,
    parse_rule,
)
from gateway.access.operation_rules import (
    RISK_LETTERS,
    OperationRule,
    fits_shape,
    pack_snapshot,
    without_settings,
)
from gateway.catalog.api_operations import RISKS, ApiOperation, ProviderOperations
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider import Provider
from gateway.catalog.url_template import parse_url_template
from gateway.catalog.yaml_file import UnreadableFile
from gateway.errors import InvalidRequest, Issue, joined_issues
from gateway.records.access import KeyLimits
from gateway.text import did_you_mean

STARTER: Final = "starter"
MAX_REPEATED: Final = 5000  # maximum number of operations in a key's rules that an earlier rule already names
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NON_NAME_CHARS: Final = re.compile(r"[^a-z0-9]+")
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FORM_HINT: Final = (
    f"write '{OPERATIONS_PREFIX}PROVIDER WHAT': a risk ({', '.join(RISKS)}), {STARTER}, or ids, with commas between"
)


def freeze_limits(limits: KeyLimits, catalog: Catalog) -> KeyLimits:
    """Return `limits` with a snapshot of each rule that names operations. Raises InvalidRequest with all faults."""
    snapshots: dict[str, str] = {}
    issues: list[Issue] = []
    freezer = _Freezer(catalog)
    for number, text in enumerate(limits.rules):
        if names_operations(text):
            try:
                snapshots[text] = freezer.snapshot(text)
            except ValueError as fault:
                message = joined_issues(
                    [Issue("custom", f"'{text[:128]}' {fault}")]
                )  # with a full stop, unless it asks
                issues.append(Issue("custom", message, ("limits", "rules", str(number))))
    if issues:
        raise InvalidRequest("invalid_body", joined_issues(issues), errors=issues)
    return replace(limits, operations=snapshots)


def snapshot(text: str, catalog: Catalog) -> str:
    """Return the snapshot of the operations that the rule `text` selects in `catalog`.

    Raises ValueError; its message is the rest of a sentence that begins with the rule.
    """
    return _Freezer(catalog).snapshot(text)


class _Freezer:
    """Builds the snapshots for the rules of one key. Reads each provider's operations only once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._operations_by_provider: dict[str, tuple[Provider, ProviderOperations]] = {}
        self._named_ids: dict[str, set[str]] = {}  # by provider: the ids of the operations that the previous rules name
        self._repeated_count = 0
        self._snapshots: dict[tuple[str, tuple[str, ...]], str] = {}

    def snapshot(self, text: str) -> str:
        """Return the snapshot of the operations that the rule `text` selects.

        Raises ValueError if the rule is invalid, or if it repeats too many operations of other rules: each rule has its
        own snapshot, which is stored and read separately.
        """
        words = text.removeprefix(OPERATIONS_PREFIX).split(" ")
        if len(text) > MAX_RULE_LENGTH:
            raise ValueError(f"is longer than {MAX_RULE_LENGTH} characters")
        if len(words) != 2 or not all(words):
            raise ValueError(f"is not a valid rule for operations: {_FORM_HINT}")
        if words[0] not in self._operations_by_provider:
            self._operations_by_provider[words[0]] = self._read_operations(words[0])
        provider, operations = self._operations_by_provider[words[0]]
        selected = _select(words[1], operations)
        named_ids = self._named_ids.setdefault(provider.name, set())
        repeated_count = sum(operation.id in named_ids for operation in selected)
        self._repeated_count += repeated_count
        if self._repeated_count > MAX_REPEATED and repeated_count:
            raise ValueError(
                f"repeats operations of the key's other rules, more than {MAX_REPEATED:,} in total; leave it out"
            )
        ids = tuple(operation.id for operation in selected)
        snapshot = self._snapshots.get((provider.name, ids))
        if snapshot is None:
            snapshot = self._snapshots[provider.name, ids] = _pack_operations(provider, operations, selected, named_ids)
        named_ids.update(ids)
        return snapshot

    def _read_operations(self, name: str) -> tuple[Provider, ProviderOperations]:
        provider = self._catalog.get(name)
        if provider is None:
            hint = (
                did_you_mean(name, self._catalog.providers)
                or "; it is the name in the catalog, not that of an integration"
            )
            raise ValueError(f"names the provider '{name}', which the catalog does not have{hint}")
        try:
            operations = self._catalog.operations(provider.name)
        except UnreadableFile as fault:
            raise ValueError(
                "names a provider whose operations cannot be read; `gateway catalog lint` says why"
            ) from fault
        if operations is None:
            raise ValueError(
                "names a provider without operations in the catalog; write rules with methods and paths instead"
            )
        if operations.is_graphql:
            raise ValueError(
                "names a GraphQL API, whose operations share one method and path; write 'POST /graphql with query issues'"
            )
        return provider, operations


def _select(selection: str, operations: ProviderOperations) -> list[ApiOperation]:
    """Return the operations that `selection` selects, starters first.

    Raises ValueError if a word is unknown, if an operation is not at the provider's base URL, or if nothing matches.
    """
    by_id = {operation.id: operation for operation in operations.operations}
    terms = [term.split("+") for term in selection.split(",")]
    for word in (word for term in terms for word in term):
        if word not in (*RISKS, STARTER) and word not in by_id:
            hint = did_you_mean(word, [*RISKS, STARTER, *by_id]) or f": {_FORM_HINT}"
            raise ValueError(f"names '{word[:64]}', which is not an operation of {operations.provider}{hint}")
        if word in by_id and by_id[word].origin:
            raise ValueError(
                f"names '{word}', which is at {by_id[word].origin}; write its method and path, and limit the hosts"
            )
    matches = [
        operation
        for operation in operations.operations
        if not operation.origin and any(_matches(operation, term) for term in terms)
    ]
    if not matches:
        raise ValueError(
            f"matches no operation of {operations.provider}; `gateway catalog operations {operations.provider}` lists them"
        )
    return sorted(matches, key=lambda operation: not operation.starter)


def _matches(operation: ApiOperation, term: Sequence[str]) -> bool:
    return all(word in (operation.id, operation.risk) or (word == STARTER and operation.starter) for word in term)


def _pack_operations(
    provider: Provider,
    operations: ProviderOperations,
    selected_operations: Sequence[ApiOperation],
    checked_ids: Collection[str] = (),
) -> str:
    """Return the snapshot of `selected_operations`.

    `checked_ids`: the ids of operations whose path is already checked.
    """
    host, base = host_and_path(provider)
    prefix = base + operations.prefix
    base_path = without_settings(prefix)
    lines = [
        f"{_risk_letter(operation)} {operation.method} {rule_path(operation.path)} {operation.id}"
        for operation in selected_operations
    ]
    for line in lines:
        _, method, path, name = line.split(" ")
        if name not in checked_ids:
            parse_rule(
                f"{method} {base_path}{path} as x"
            )  # raises ValueError if the line is not a valid rule by itself
    left_out = [
        f"{operation.method} {base_path}{_PLACEHOLDER.sub('*', operation.path)}"
        for operation in _other_matching_operations(operations, selected_operations)
    ]
    return pack_snapshot(provider.name, host, base, prefix, lines, list(dict.fromkeys(left_out)))


def host_and_path(provider: Provider) -> tuple[str, str]:
    """Return the host and the path of an entry's base URL.

    In the host, each setting becomes ``*``. In the path, each setting stays as in the entry, for example
    ``${subdomain}``.
    """
    base_url = parse_url_template(provider.proxy.base_url)
    if base_url.whole_base_url is not None:
        host = "*"
    else:
        host = "".join(piece if isinstance(piece, str) else "*" for piece in base_url.host).lower()
    path = "".join(piece if isinstance(piece, str) else f"${{{piece.name}}}" for piece in base_url.path)
    return host.replace("**", "*"), path.rstrip("/")


def base_path(provider: Provider) -> str | None:
    """Return the path of an entry's base URL as rules have it, with ``*`` in place of each setting.

    None if the base URL differs by connection: it is a setting as a whole, or has `alternatives`.
    """
    base_url = parse_url_template(provider.proxy.base_url)
    if base_url.whole_base_url is not None or "proxy.base_url" in provider.alternatives:
        return None
    path = "".join(piece if isinstance(piece, str) else "*" for piece in base_url.path)
    return path.replace("**", "*").rstrip("/")


def _risk_letter(operation: ApiOperation) -> str:
    letter = RISK_LETTERS[operation.risk]
    return letter.upper() if operation.starter else letter


def operation_details(rules: Sequence[OperationRule], operations: ProviderOperations) -> dict[str, ApiOperation]:
    """Return the current catalog's data (summaries, parameters and more) for the operations of a snapshot, by id.

    Leaves out an operation if the current catalog has no operation with its id, method and path.
    """
    current_operations = {operation.id: operation for operation in operations.operations}
    return {
        rule.name: operation
        for rule in rules
        if (operation := current_operations.get(rule.name))
        and operation.method == rule.method
        and rule_path(operation.path) == rule.operation_path
    }


def rule_path(path: str) -> str:
    """Return `path` with placeholders renamed as rules require: ``{issueIdOrKey}`` becomes ``{issue_id_or_key}``."""
    used_names: set[str] = set(RESERVED_PLACEHOLDERS)

    def unique_placeholder(match: re.Match[str]) -> str:
        snake_case = _NON_NAME_CHARS.sub("_", _WORD_BOUNDARY.sub("_", match[1]).lower()).strip("_")
        base_name = snake_case if snake_case[:1].isalpha() else f"part_{snake_case}".rstrip("_")
        unique_name, number = base_name[:50], 2
        while unique_name in used_names:
            unique_name, number = f"{base_name[:50]}_{number}", number + 1
        used_names.add(unique_name)
        return f"{{{unique_name}}}"

    return _PLACEHOLDER.sub(unique_placeholder, path)


def _other_matching_operations(
    operations: ProviderOperations, selected_operations: Sequence[ApiOperation]
) -> Iterator[ApiOperation]:
    """Yield each other operation with requests that match the path of one of `selected_operations`."""
    ids = {operation.id for operation in selected_operations}
    selected_paths: dict[tuple[str, int], list[list[str]]] = {}
    for operation in selected_operations:
        segments = _PLACEHOLDER.sub("*", operation.path).split("/")
        if "*" in operation.path or "{" in operation.path:
            selected_paths.setdefault((operation.method, len(segments)), []).append(segments)
    for operation in operations.operations:
        if operation.id in ids or operation.origin:
            continue
        segments = _PLACEHOLDER.sub("*", operation.path).split("/")
        if any(
            all(map(patterns_may_overlap, segments, selected_segments))
            for selected_segments in selected_paths.get((operation.method, len(segments)), ())
        ):
            yield operation


def patterns_may_overlap(first: str, second: str) -> bool:
    """Return whether one text can match both patterns, which are path segments or hosts; True if uncertain."""
    if "*" not in first:
        return first == second or ("*" in second and fits_shape(second.split("*"), first))
    if "*" not in second:
        return fits_shape(first.split("*"), second)
    first_texts, second_texts = first.split("*"), second.split("*")
    starts_may_overlap = first_texts[0].startswith(second_texts[0]) or second_texts[0].startswith(first_texts[0])
    return starts_may_overlap and (
        first_texts[-1].endswith(second_texts[-1]) or second_texts[-1].endswith(first_texts[-1])
    )
