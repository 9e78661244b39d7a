"""``python -m tools.catalog_docs`` (``make docs``): generates pages, and parts of pages, from the code.

In docs/catalog.md and docs/architecture.md, the generator replaces only the blocks between ``<!-- begin: … -->`` and
``<!-- end -->``. It also writes the whole of docs/auth-modes.md, docs/log-events.md, and catalog/_schema.json, which
editors read.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from gateway.catalog import provider as shapes
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import json_schema
from gateway.catalog.provider_parts import CATEGORIES, SCRIPT_ALIASES, field_docstrings
from tools.architecture_docs import floors_table, packages_table
from tools.auth_modes_docs import auth_modes_page
from tools.catalog_counts import counts, evidence_counts, evidence_sources, left_out
from tools.log_events_docs import log_events_page

ROOT: Final = Path(__file__).parent.parent
_BLOCK = re.compile(r"(<!-- begin: (?P<name>[\w: -]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# Section ▸ the fields of an entry that it shows. Every field belongs to exactly one section.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "identity": (
        "name", "display_name", "logo_url", "categories", "alias", "family", "docs", "docs_connect", "homepage",
        "setup_guide_url", "setup", "evidence", "provenance", "review", "sources", "sunset",
    ),
    "connection": (
        "auth_mode", "credentials", "assertion_option", "connection_configuration", "connection_config", "alternatives",
        "require_client_certificate", "post_connection_script", "webhook_routing_script",
        "account", "credentials_verification_script", "pre_connection_deletion_script",
    ),
    "authorization": (
        "authorization_url", "authorization_params", "authorization_param_renames", "authorization_url_fragment",
        "authorization_code_param_in_callback", "state_in_redirect_uri", "redirect_uri_metadata", "issuer", "disable_pkce",
        "scope_separator", "default_scopes", "available_scopes", "request_url", "request_params", "signature_method",
        "registration_url",
        "client_registration", "installation_token_url", "installation_access_url",
    ),
    "token": (
        "token_url", "token_request_auth_method", "token_params", "token_param_renames", "token_body", "token_headers",
        "token_request_method", "body_format", "additional_steps", "token_response",
        "alternate_access_token_response_path", "expires_in_unit", "token_ttl", "token_expiration_buffer",
        "token_response_metadata",
    ),
    "refresh and end": (
        "refresh_url", "refresh_params", "refresh_param_renames", "refresh", "revocation_url", "revocation",
        "introspection_url", "introspection",
    ),
    "signing": ("jwt", "signature", "request_signing"),
    "api": ("proxy", "webhook_signature", "webhook_user_defined_secret"),
}  # fmt: skip

# Name of a field ▸ the anchor of the section that explains its shape, if the anchor has another name than the field.
_ANCHORS: Final = {
    "Setting": "a-setting",
    "Step": "additional_steps",
    "TokenCall": "revocation",
    "RefreshPolicy": "refresh",
    "AccountForm": "account",
    "EntryEvidence": "evidence",
    "GroupEvidence": "evidence",
}


def fields_table(shape: type[BaseModel], names: Sequence[str]) -> str:
    """Return a Markdown table of the fields `names` of `shape`."""
    lines, meanings = ["| key | value | meaning |", "|---|---|---|"], field_docstrings(shape)
    for name in names:
        field = shape.model_fields[name]
        key = f"**`{name}`**" if field.is_required() else f"`{name}`"
        lines.append(f"| {key} | {_value(field.annotation)} | {' '.join(meanings.get(name, '').split())} |")
    return "\n".join(lines)


def _value(annotation: Any) -> str:
    """Return the possible values of a key, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{_named(annotation)}](#{_anchor(annotation)})"
    if origin is Literal:
        return " ".join(f"`{argument}`" for argument in arguments)
    if origin in {Union, UnionType}:
        return " or ".join(dict.fromkeys(_value(argument) for argument in arguments if argument is not NoneType))
    if origin is list:
        return f"list of {_value(arguments[0])}"
    if origin is dict:
        return f"name: {_value(arguments[1])}"
    return {str: "text", bool: "true/false", int: "number"}.get(annotation, "any value")


def _named(shape: type[BaseModel]) -> str:
    return {"Setting": "setting", "Step": "step"}.get(shape.__name__, _anchor(shape))


def _anchor(shape: type[BaseModel]) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", shape.__name__).lower()
    return _ANCHORS.get(shape.__name__, snake)


def blocks() -> dict[str, Callable[[], str]]:
    """Return the functions that generate the blocks of docs/catalog.md and docs/architecture.md, by the name of the
    block.
    """
    made: dict[str, Callable[[], str]] = {}
    for section, names in SECTIONS.items():
        made[f"fields: {section}"] = partial(fields_table, shapes.Provider, names)
    for shape in _shapes():
        made[f"shape: {shape.__name__}"] = partial(fields_table, shape, list(shape.model_fields))
    made["packages"] = packages_table
    made["floors"] = floors_table
    made["counts"] = counts
    made["evidence counts"] = evidence_counts
    made["evidence sources"] = evidence_sources
    made["left out"] = left_out
    made["placeholders"] = _placeholders
    made["categories"] = lambda: " ".join(f"`{name}`" for name in sorted(CATEGORIES))
    made["scripts"] = lambda: " ".join(f"`{name}`" for name in sorted(SCRIPT_ALIASES.values()))
    return made


def _shapes() -> Iterator[type[BaseModel]]:
    for name in shapes.__all__:
        shape = getattr(shapes, name)
        if shape not in {shapes.Provider, shapes.Shape}:
            yield shape


def _placeholders() -> str:
    lines = ["| `auth_mode` | placeholders of the mode | further placeholders of the credential |", "|---|---|---|"]
    for name, mode in sorted(AUTH_MODES.items()):
        fills = " ".join(f"`${{{placeholder}}}`" for placeholder in sorted(mode.placeholders))
        members = " ".join(f"`${{credentials.{member}}}`" for member in sorted(mode.members))
        lines.append(f"| `{name}` | {fills} | {members} |")
    return "\n".join(lines)


def catalog_page(page: str) -> str:
    """Return `page` with newly generated blocks. Raises KeyError for a block that is not in `blocks`."""
    made = blocks()
    return _BLOCK.sub(lambda found: f"{found[1]}{made[found['name']]()}\n{found[3]}", page)


def pages() -> dict[Path, str]:
    """Return every generated file with its content."""
    with_blocks = [ROOT / "docs" / "catalog.md", ROOT / "docs" / "architecture.md"]
    return {
        **{page: catalog_page(page.read_text(encoding="utf-8")) for page in with_blocks},
        ROOT / "docs" / "auth-modes.md": auth_modes_page(),
        ROOT / "docs" / "log-events.md": log_events_page(),
        ROOT / "catalog" / "_schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }


def main() -> int:
    """Write the files that changed and print one line for each."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
