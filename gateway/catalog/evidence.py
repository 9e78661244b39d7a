"""Defines the evidence for an entry's facts, by group of fields, which `/providers`, the guide and `lint` show."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from gateway.catalog.provider_parts import Date, Shape

Level = Literal["confirmed", "sourced", "unconfirmed", "assumed"]
# From the strongest level to the weakest.
LEVELS: Final = ("confirmed", "sourced", "unconfirmed", "assumed")


class GroupEvidence(Shape):
    """The evidence for a group of fields. The group is as certain as its least certain field."""

    level: Level
    """`confirmed`: two independent sources, or the vendor's own document. `sourced`: one source. `unconfirmed`: general
    knowledge, without a source. `assumed`: a default, without a source."""
    sources: list[str] = Field(default_factory=list)
    """The sources: names from the list in docs/catalog.md, or page URLs."""
    date: Date | None = None
    """When the sources were read."""
    fields: dict[str, Level] = Field(default_factory=dict)
    """The level of each field, if the fields' levels differ."""
    differs: dict[str, str] = Field(default_factory=dict)
    """The reason for each field whose value differs from most sources."""


class EntryEvidence(Shape):
    """The evidence for an entry, by group of fields. Groups that do not apply to the entry are absent."""

    addresses: GroupEvidence | None = None
    """`authorization_url`, `token_url`, `proxy.base_url` and the like."""
    client: GroupEvidence | None = None
    """How the client authenticates, and how scopes are written."""
    placement: GroupEvidence | None = None
    """Where the credential goes in a request."""
    refresh: GroupEvidence | None = None
    """How tokens are refreshed, how long they live, how they are revoked."""
    account: GroupEvidence | None = None
    """The call that verifies a credential, and where its response names the account."""
    paging: GroupEvidence | None = None
    """How the provider paginates lists."""
    webhooks: GroupEvidence | None = None
    """How webhooks are signed."""

    def groups(self) -> Iterator[tuple[str, GroupEvidence]]:
        """Yield the groups that are present, with their names."""
        for name in GROUPS:
            group: GroupEvidence | None = getattr(self, name)
            if group is not None:
                yield name, group


# The title of each group, and the fields that belong to it. The names of fields below `proxy` begin with ``proxy.``.
GROUPS: Final[Mapping[str, str]] = {
    "addresses": "URLs",
    "client": "Client authentication and scopes",
    "placement": "Where the credential goes",
    "refresh": "Refresh and revocation",
    "account": "Verification and account",
    "paging": "Pagination",
    "webhooks": "Webhook signatures",
}
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "addresses": frozenset(
        {"authorization_url", "token_url", "request_url", "registration_url", "installation_token_url", "alternatives"}
        | {"installation_access_url", "proxy.base_url"}
    ),
    "client": frozenset(
        {"token_request_auth_method", "scope_separator", "disable_pkce", "default_scopes", "authorization_params"}
        | {"token_params", "authorization_param_renames", "token_param_renames", "token_headers", "body_format"}
    ),
    "placement": frozenset({"proxy.headers", "proxy.query", "proxy.body", "request_signing"}),
    "refresh": frozenset({"refresh", "refresh_url", "refresh_params", "revocation_url", "revocation"}),
    "account": frozenset({"account", "proxy.verification"}),
    "paging": frozenset({"proxy.paginate", "proxy.paginate_alternatives"}),
    "webhooks": frozenset({"webhook_signature"}),
}
LEVEL_SENTENCES: Final[Mapping[str, str]] = {
    "confirmed": "confirmed by two independent sources or by the vendor's own document",
    "sourced": "stated by one source",
    "unconfirmed": "general knowledge without a source: check it before you rely on it",
    "assumed": "a default without a source: check it before you rely on it",
}
# A call works only if the fields in these groups are right.
_DECIDING_GROUPS: Final = ("addresses", "placement")


def weakest(levels: Iterator[str]) -> str:
    """Return the least certain of `levels`. Raises ValueError if `levels` is empty."""
    return max(levels, key=LEVELS.index)


def overall_provenance(values: Mapping[str, Any]) -> str | None:
    """Return the provenance of an entry's values: the weakest level of the groups in `_DECIDING_GROUPS`.

    The result is `confirmed`, `sourced` or `unconfirmed`. Without evidence for these groups, return the entry's own
    `provenance`, or None if it has none. The older value `reviewed` becomes `unconfirmed`, because a review has no
    machine-readable evidence.
    """
    evidence: Mapping[str, Any] = values.get("evidence", {})
    levels = [evidence[name]["level"] for name in _DECIDING_GROUPS if name in evidence]
    if levels:
        return {"assumed": "unconfirmed"}.get(lowest_level := weakest(iter(levels)), lowest_level)
    own_provenance: str | None = values.get("provenance")
    return "unconfirmed" if own_provenance == "reviewed" else own_provenance


def all_sources(values: Mapping[str, Any]) -> list[str]:
    """Return all sources of an entry, sorted by name."""
    group_sources = [source for group in values.get("evidence", {}).values() for source in group.get("sources", ())]
    return sorted({*group_sources, *values.get("sources", ())})


def inheritable_evidence(inherited: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evidence that an entry inherits from its base entry.

    `inherited`: the evidence of the base entry. `values`: the fields that the inheriting entry sets itself. A group of
    evidence is left out if one of its fields is in `values`.
    """
    own_fields = {*values, *(f"proxy.{key}" for key in values.get("proxy") or {})}
    return {name: group for name, group in inherited.items() if not FIELDS.get(name, frozenset()) & own_fields}


def is_old(group: GroupEvidence, today: dt.date) -> bool:
    """Return whether the sources were read more than 365 days before `today`. Return False if there is no date."""
    return group.date is not None and dt.date.fromisoformat(group.date) < today - dt.timedelta(days=365)


def evidence_sentences(evidence: EntryEvidence | None) -> list[tuple[str, str]]:
    """Return a title and a sentence about each group of fields, as pages show them to people."""
    return [(GROUPS[name], _sentence(group)) for name, group in evidence.groups()] if evidence else []


def _sentence(group: GroupEvidence) -> str:
    text = LEVEL_SENTENCES[group.level]
    if lowest_fields := [field for field, level in group.fields.items() if level == group.level]:
        text = f"{', '.join(lowest_fields)}: {text}"
    if higher_levels := [f"{field} {level}" for field, level in group.fields.items() if level != group.level]:
        text += f"; {', '.join(higher_levels)}"
    if group.sources:
        text += f" ({', '.join(group.sources)}" + (f"; read {group.date})" if group.date else ")")
    differences = "".join(f" {field} differs from most sources: {reason}." for field, reason in group.differs.items())
    return f"{text if lowest_fields else text[:1].upper() + text[1:]}.{differences}"


def open_fields(evidence: EntryEvidence | None) -> Iterator[tuple[str, str, str]]:
    """Yield group, field and level of each `unconfirmed` or `assumed` field.

    If a group states one level for all its fields, the group's name is yielded in place of a field.
    """
    for name, group in evidence.groups() if evidence else ():
        for field, level in (group.fields or {name: group.level}).items():
            if level in {"unconfirmed", "assumed"}:
                yield name, field, level
