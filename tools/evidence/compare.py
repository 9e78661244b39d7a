"""Decides whether an entry agrees with a statement. Both are normalized first: templates become ``*``, versions are
removed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from tools.evidence.collect import credential_place
from tools.evidence.statements import Statement

Entry = Mapping[str, Any]

# Placeholders of the catalog, Go templates, PHP, Python, Ruby and JavaScript, and format characters.
_BLANK: Final = re.compile(r"\$\{[^}]*\}|#\{[^}]*\}|\{\{[^}]*\}\}|\{[^}]*\}|<[^>]*>|%[sd@]|\$[a-z]\w*|:[a-z]\w+(?=/|$)")
_VERSION: Final = re.compile(r"/v?[0-9]+(?:\.[0-9x]+)*(?=/|$)|/20[0-9]{2}-[0-9]{2}(?:-[0-9]{2})?(?=/|$)")
URL_FIELDS: Final = ("authorization_url", "token_url", "refresh_url", "revocation_url", "request_url")


def agrees(entry: Entry, statement: Statement) -> bool | None:
    """Return whether the entry has one of the values of the statement. Return None if the entry has nothing to compare."""
    ours = list(entry_values(entry, statement.field))
    if not ours:
        return None
    return any(_same(statement.field, our, theirs) for our in ours for theirs in statement.values)


def entry_values(entry: Entry, field: str) -> Iterator[Any]:
    """Yield an entry's values of a field, including defaults. Yield nothing if the field does not apply to the entry."""
    if field in URL_FIELDS:
        yield from _urls(entry, field)
    elif (read := _READ.get(field)) is not None:
        yield from read(entry)
    # the token response contains other members than an account endpoint
    elif field != "account.id" or "endpoint" in entry.get("account", {}):
        yield from _values_at(entry, field)


def _urls(entry: Entry, field: str) -> Iterator[str]:
    if field in entry:
        yield entry[field]
        yield from entry.get("alternatives", {}).get(field, ())
    elif field == "refresh_url" and "token_url" in entry:
        yield entry["token_url"]


def _bases(entry: Entry) -> Iterator[str]:
    yield entry["proxy"]["base_url"]
    yield from entry.get("alternatives", {}).get("proxy.base_url", ())
    yield from entry["proxy"].get("allowed_origins", ())


def _place(entry: Entry) -> Iterator[str]:
    if text := credential_place(entry["proxy"], entry["auth_mode"]):
        yield text


def _client(entry: Entry) -> Iterator[str]:
    if "token_url" in entry and entry["auth_mode"] in {"OAUTH2", "OAUTH2_CC"}:
        yield entry.get("token_request_auth_method", "body")


def _separator(entry: Entry) -> Iterator[str]:
    if entry["auth_mode"] in {"OAUTH2", "OAUTH2_CC"}:
        yield entry.get("scope_separator", " ")


def _pkce(entry: Entry) -> Iterator[str]:
    if entry["auth_mode"] == "OAUTH2":
        yield "breaks" if entry.get("disable_pkce") else "works"


def _disabled_values(entry: Entry) -> Iterator[bool]:
    if entry["auth_mode"] == "OAUTH2":
        yield entry.get("disable_pkce", False)


def _proofs(entry: Entry) -> Iterator[str]:
    proof = entry["proxy"].get("verification")
    base = entry["proxy"]["base_url"]
    if proof is not None:
        yield from (proof.get("base_url_override", base) + path for path in proof["endpoints"])
    if (endpoint := entry.get("account", {}).get("endpoint")) is not None:
        yield endpoint if "://" in endpoint else base + endpoint


def _paging(entry: Entry) -> Iterator[str]:
    proxy = entry["proxy"]
    for way in (proxy.get("paginate"), *proxy.get("paginate_alternatives", ())):
        for key in ("cursor_name_in_request", "offset_name_in_request", "limit_name_in_request"):
            if way is not None and key in way:
                yield way[key]


_READ: Final[Mapping[str, Callable[[Entry], Iterator[Any]]]] = {
    "base_url": _bases,
    "placement": _place,
    "token_request_auth_method": _client,
    "scope_separator": _separator,
    "pkce": _pkce,
    "disable_pkce": _disabled_values,
    "verification": _proofs,
    "paginate.parameters": _paging,
}


def _values_at(entry: Entry, path: str) -> Iterator[Any]:
    value: Any = entry if path != "paginate" else entry["proxy"]
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is not None:
        yield value


def _same(field: str, ours: Any, theirs: Any) -> bool:
    if field in URL_FIELDS or field == "verification":
        begins = str(theirs).endswith("/") and normalized_url(str(ours)).startswith(normalized_url(str(theirs)) + "/")
        return begins or patterns_match(normalized_url(str(ours)), normalized_url(str(theirs)))
    if field == "base_url":
        return _same_base(normalized_url(str(ours)), normalized_url(str(theirs)))
    if field == "placement":
        return _same_place(str(ours), str(theirs))
    if field == "scope_separator":
        return str(ours).replace("+", " ").strip(" ") == str(theirs).replace("+", " ").strip(" ")
    if field == "webhook_signature.header":
        return str(ours).lower() == str(theirs).lower()
    return bool(ours == theirs)


def normalized_url(text: str) -> str:
    """Return a URL for comparison: ``https://${connectionConfig.x}.example.com/v2/token?y`` ▸ ``*.example.com/token``."""
    bare = _BLANK.sub("*", text).partition("://")[2] or _BLANK.sub("*", text)
    host, slash, path = bare.partition("?")[0].partition("/")
    below = _VERSION.sub("", slash + path.rstrip("/"))
    return re.sub(r"\*+", "*", f"{host.partition(':')[0].lower()}{below}".rstrip("/"))


def patterns_match(first: str, second: str) -> bool:
    """Return whether one of the two texts matches the other text as a pattern."""
    return fnmatchcase(first, second) or fnmatchcase(second, first)


def _same_base(first: str, second: str) -> bool:
    host, _, path = first.partition("/")
    other_host, _, other_path = second.partition("/")
    shorter, longer = sorted((path, other_path), key=len)
    return patterns_match(host, other_host) and (
        not shorter or fnmatchcase(longer, f"{shorter}*") or patterns_match(path, other_path)
    )


def _same_place(first: str, second: str) -> bool:
    """Compare two places. ``?`` matches any text before the key, because a description of a scheme does not contain
    this text.
    """
    kind, _, value = first.lower().partition(": ")
    other_kind, _, other_value = second.lower().partition(": ")
    bare, other_bare = (re.sub(r"[*].*", "", text).strip() for text in (value, other_value))
    return kind == other_kind and ("?" in value + other_value or bare == other_bare)
