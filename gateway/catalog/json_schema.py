"""The JSON Schema of an entry, for editors: ``catalog/_schema.json``, which shipped files name in their first line."""

from typing import Any

from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import CATEGORIES


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a catalog file. It is looser than loading: templates and names are not checked."""
    schema = Provider.model_json_schema()
    fields = schema["properties"]
    fields["auth_mode"]["enum"] = sorted(AUTH_MODES)
    fields["categories"]["items"] = {"anyOf": [{"enum": sorted(CATEGORIES)}, {"type": "string"}]}
    schema["required"] = [key for key in schema["required"] if key != "name"]
    schema["allOf"] = [
        {"if": {"properties": {"auth_mode": {"const": name}}}, "then": {"required": sorted(mode.needs)}}
        for name, mode in sorted(AUTH_MODES.items())
        if mode.needs
    ]
    # An heir may leave out whatever its base has.
    required, rules = schema.pop("required"), schema.pop("allOf")
    schema["if"], schema["then"] = {"not": {"required": ["alias"]}}, {"required": required, "allOf": rules}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A provider of the integration gateway"}
    return head | {key: value for key, value in schema.items() if key != "title"}
