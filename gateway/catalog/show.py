"""What `/providers` shows of an entry: what its file says, and the two fields we fill in (requirement 2.1)."""

from collections.abc import Mapping
from typing import Any

from gateway.catalog.provider import Provider

LOGOS = "/images/template-logos"
_FORMS = ("connection_config", "credentials", "assertion_option")
_OUR_OWN = frozenset({"alias"})  # what it inherits stands in it already


def show(said: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    """What an entry says (`folder.Entry.content`, read) as JSON. A field that its file leaves out is absent, never null.

    `logo_url` and `docs` are ours where the entry has none; `connection_configuration` is always an array of names.
    """
    shown = dict(said)
    shown.setdefault("logo_url", f"{public_url}{LOGOS}/{said['name']}.svg")
    shown.setdefault("docs", f"{public_url}/providers/{said['name']}/guide")
    if names := said.get("connection_configuration", list(said.get("connection_config", ()))):
        shown["connection_configuration"] = names
    for key in _FORMS:
        if key in said:
            # Form builders read the type.
            shown[key] = {name: {"type": "string", **form} for name, form in said[key].items()}
    return {key: shown[key] for key in Provider.model_fields if key in shown and key not in _OUR_OWN}
