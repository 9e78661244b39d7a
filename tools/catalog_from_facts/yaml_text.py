"""Formats an entry as readable YAML: ordered fields, small mappings on one line, and the comments from corrections."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

WIDTH: Final = 120
COMMENT: Final = "#"  # the key `token_url#` contains the comment on `token_url`

# Groups of fields, separated by a blank line.
GROUPS: Final = (
    ("alias", "display_name", "categories", "auth_mode", "family", "homepage", "docs", "docs_connect", "setup_guide_url"),
    ("sunset",),
    ("setup",),
    (
        "request_url", "request_params", "authorization_url", "authorization_params", "authorization_param_renames",
        "authorization_url_fragment", "authorization_code_param_in_callback", "state_in_redirect_uri",
        "redirect_uri_metadata", "issuer",
        "registration_url", "client_registration", "token_url", "installation_token_url", "installation_access_url",
        "token_request_auth_method", "token_params", "token_param_renames", "token_body", "token_headers",
        "token_request_method", "body_format",
        "additional_steps", "token_response", "alternate_access_token_response_path", "expires_in_unit", "token_ttl",
        "token_expiration_buffer", "token_response_metadata", "refresh_url", "refresh_params", "refresh_param_renames",
        "revocation_url", "revocation", "introspection_url", "introspection", "signature_method", "disable_pkce",
        "scope_separator", "default_scopes", "available_scopes", "refresh", "jwt", "signature", "request_signing",
        "require_client_certificate",
    ),
    (
        "post_connection_script", "webhook_routing_script", "credentials_verification_script",
        "pre_connection_deletion_script", "connection_configuration", "connection_config", "alternatives", "credentials",
        "assertion_option",
    ),
    ("account",),
    ("proxy",),
    ("webhook_user_defined_secret", "webhook_signature"),
    ("evidence", "provenance", "review", "sources"),
)  # fmt: skip

_WRAPPED: Final = frozenset({"sources"})
_SPREAD: Final = frozenset({"proxy", "headers", "query"})  # these fields are never written on one line
_FORMS: Final = frozenset({"connection_config", "credentials", "assertion_option"})
_SETTING: Final = (
    "title", "description", "enum", "format", "pattern", "example", "default_value", "prefix", "suffix", "optional",
    "secret", "hidden", "automated", "any_host", "order",
)  # fmt: skip
_PROXY: Final = (
    "base_url", "path_form", "headers", "query", "body", "allowed_origins", "decompress", "paginate",
    "paginate_alternatives", "retry", "verification",
)  # fmt: skip


def entry_text(entry: Mapping[str, Any], head: str) -> str:
    """Return the text of the file. `head`: its first lines. Raises KeyError for a field that belongs to no group."""
    unplaced = {key for key in entry if not key.endswith(COMMENT)} - {key for group in GROUPS for key in group}
    if unplaced:
        raise KeyError(", ".join(sorted(unplaced)))
    paragraphs = [
        "".join(f"{line}\n" for key in group if key in entry for line in _field(entry, key, 0))
        for group in GROUPS
        if any(key in entry for key in group)
    ]
    return head + "\n".join(paragraphs)


def _field(within: Mapping[str, Any], key: str, indent: int) -> Iterator[str]:
    """Yield the lines of one key and its value."""
    value, pad, name = within[key], " " * indent, _scalar(key)
    if key == "evidence" and isinstance(value, Mapping):
        yield from evidence_lines(value)
        return
    if key in _WRAPPED and value is not None:
        lines = list(_wrapped(f"{pad}{name}: [", [_scalar(item, flow=True) for item in value]))
    elif not isinstance(value, Mapping | list):
        lines = [f"{pad}{name}: {_scalar(value)}"]
    elif (line := None if key in _SPREAD else _on_one_line(value)) and len(pad) + len(name) + 2 + len(line) <= WIDTH:
        lines = [f"{pad}{name}: {line}"]
    else:
        lines = [f"{pad}{name}:", *_block(_ordered(key, value), indent + 2)]
    if (comment := within.get(key + COMMENT)) is not None:
        beside = f"{lines[0]} # {comment}"
        lines = [beside, *lines[1:]] if len(beside) <= WIDTH else [f"{pad}# {comment}", *lines]
    yield from lines


def evidence_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield the entry's `evidence`. Each group is on one line if it fits."""
    yield "evidence:"
    for group, item in evidence.items():
        line = f"  {group}: {_flow(item)}"
        if len(line) <= WIDTH or item is None:
            yield line
            continue
        yield f"  {group}:"
        for key, value in item.items():
            inner = f"    {key}: {_flow(value)}"
            if len(inner) <= WIDTH or not isinstance(value, Mapping):
                yield inner
            else:
                yield f"    {key}:"
                yield from (f"      {field}: {_scalar(text)}" for field, text in value.items())


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key, flow=True)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value, flow=True)


def _ordered(key: str, value: Mapping[str, Any] | list[Any]) -> Mapping[str, Any] | list[Any]:
    """Return the members of a shape in the order in which people look for them."""
    if not isinstance(value, Mapping):
        return value
    if key in _FORMS:
        return {
            name: _sort_by_order(form, _SETTING) if isinstance(form, Mapping) else form for name, form in value.items()
        }
    return _sort_by_order(value, _PROXY) if key == "proxy" else value


def _sort_by_order(value: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    ranks = {name: rank for rank, name in enumerate(order)}
    return dict(sorted(value.items(), key=lambda item: ranks.get(item[0].removesuffix(COMMENT), len(ranks))))


def _wrapped(begin: str, items: Sequence[str]) -> Iterator[str]:
    """Yield a list in brackets, on several lines if it is long."""
    line = begin
    for item in items:
        if line != begin and len(line) + len(item) + 2 > WIDTH:
            yield line.rstrip()
            line = " " * len(begin)
        line += item + ", "
    yield line.removesuffix(", ") + "]"


def _block(value: Mapping[str, Any] | list[Any], indent: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key in value:
            if not key.endswith(COMMENT):
                yield from _field(value, key, indent)
        return
    for item in value:
        lines = list(_block(item, indent + 2)) if isinstance(item, Mapping) else [" " * (indent + 2) + _scalar(item)]
        yield " " * indent + "- " + lines[0].lstrip()
        yield from lines[1:]


def _on_one_line(value: Mapping[str, Any] | list[Any]) -> str | None:
    """Return a list or mapping of plain values as `[a, b]` or `{a: b}`. Return None if it is better on several lines."""
    inner = value.values() if isinstance(value, Mapping) else value
    if any(isinstance(item, Mapping | list) for item in inner) or any(str(key).endswith(COMMENT) for key in value):
        return None
    if isinstance(value, Mapping):
        if len(value) > 3 or any("${" in str(item) or len(str(item)) > 40 for item in inner):
            return None
        return (
            "{"
            + ", ".join(f"{_scalar(key, flow=True)}: {_scalar(item, flow=True)}" for key, item in value.items())
            + "}"
        )
    return "[" + ", ".join(_scalar(item, flow=True) for item in value) + "]"


def _scalar(value: Any, *, flow: bool = False) -> str:
    """Return the value in the plainest style that YAML allows at this place."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = yaml.safe_dump([value] if flow else {"k": value}, default_flow_style=flow, width=10_000, allow_unicode=True)
    plain = text.strip().removeprefix("[").removesuffix("]") if flow else text.strip().removeprefix("k: ")
    return json.dumps(value, ensure_ascii=False) if plain.startswith("'") else plain
