"""Generates docs/auth-modes.md: each auth mode from the catalog (`gateway.catalog.auth_modes`) and from its class."""

import inspect
from collections.abc import Iterator

from gateway.auth import modes
from gateway.catalog.auth_modes import AUTH_MODES, ModeFormat

HEAD = """\
# Auth modes

`make docs` generates this page from `gateway/catalog/auth_modes.py` and the classes in `gateway/auth`.
[The catalog](catalog.md) explains the fields. A credential is the JSON object that `POST /connections` takes
and `GET /connections/{id}` returns ([HTTP API](http-api.md)). Another package can add a mode by the entry point
`gateway.auth_modes`.
"""


def auth_modes_page() -> str:
    """Return the whole page."""
    return HEAD + "".join("\n" + "\n".join(_section(name, mode)) + "\n" for name, mode in sorted(AUTH_MODES.items()))


def _section(name: str, mode: ModeFormat) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield mode.summary
    if (installed := modes().get(name)) is not None and (result := inspect.getdoc(type(installed))):
        yield ""
        yield " ".join(result.replace("``", "`").split())
    yield ""
    yield "| | |"
    yield "|---|---|"
    if mode.integration_keys:
        yield f"| the integration has | {_names(mode.integration_keys)}, as registered at the provider |"
    if mode.redirects:
        yield "| the end user | is sent to the provider to consent |"
    elif mode.typed_fields:
        yield f"| the end user types in | {_names(mode.typed_fields)}, and what else the entry's `credentials` declare |"
    if mode.required_fields:
        yield f"| an entry must have | {_names(mode.required_fields)} |"
    if mode.optional_fields:
        yield f"| an entry may have | {_names(mode.optional_fields)} |"
    if placeholders := (*mode.placeholders, *(f"credentials.{member}" for member in mode.members)):
        yield "| templates can use | " + " ".join(f"`${{{placeholder}}}`" for placeholder in placeholders) + " |"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
