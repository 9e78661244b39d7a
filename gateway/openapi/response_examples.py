"""An example of every response, built from its schema, so that the example cannot contradict the schema."""

from collections.abc import Mapping
from typing import Any, Final

REF: Final = "#/components/schemas/"
EXAMPLE_TIME: Final = "2026-01-02T03:04:05.678+00:00"
MAX_DEPTH: Final = 8

# Member name ▸ example value, for every object with a member of this name, if the member's schema allows the value.
EXAMPLE_VALUES: Final[Mapping[str, Any]] = {
    "connection_id": "user-1",
    "connectionId": "user-1",
    "provider_config_key": "jira",
    "providerConfigKey": "jira",
    "unique_key": "jira",
    "integration_id": "jira",
    "provider": "jira",
    "name": "jira",
    "display_name": "Jira",
    "email": "user@example.com",
    "path": "/rest/api/3/myself",
    "method": "GET",
    "host": "api.atlassian.com",
    "status": 200,
    "kind": "call",
    "state": "active",
    "result": "ok",
    "token": "nango_connect_session_…",
    "secret": "…",
    "last_four": "3fA9",
    "scopes": ["environment:proxy"],
    "limits": [{"rules": ["GET /rest/api/3/search*"]}],
    "tags": {"team": "red"},
    "metadata": {"plan": "pro"},
    "connection_config": {"cloudId": "1f2e3d4c"},
    "credentials": {"type": "OAUTH2", "access_token": "…", "expires_at": EXAMPLE_TIME},
    "webhook_signing_key": "whsec_…",
    "request_id": "5f1c0e9d2b7a4c6e8d3f9a1b",
    "code": "unknown_connection",
    "message": "What happened, and what to do next.",
    "errors": [],
    "key_id": None,
    "next_cursor": "…",
}


def example(name: str, definitions: Mapping[str, Any]) -> Any:
    """Return an example of the schema `name`. `definitions`: all schemas by name."""
    return _example_of(definitions[name], "", definitions, 0)


def _example_of(schema: Mapping[str, Any], member: str, definitions: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix(REF)]
    alternatives = [
        alternative
        for alternative in schema.get("anyOf") or schema.get("oneOf") or ()
        if alternative.get("type") != "null"
    ]
    if alternatives:
        return _example_of(alternatives[0], member, definitions, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return EXAMPLE_VALUES[member] if EXAMPLE_VALUES.get(member) in schema["enum"] else schema["enum"][0]
    if "examples" in schema:
        return schema["examples"][0]
    json_type = schema.get("type")
    value = EXAMPLE_VALUES.get(member)
    if value is not None and _has_type(value, json_type) and not schema.get("properties"):
        return value
    if json_type == "object" or "properties" in schema:
        return _object(schema, definitions, depth)
    if json_type == "array":
        return [] if depth > MAX_DEPTH else [_example_of(schema.get("items", {}), member, definitions, depth + 1)]
    default_values: dict[Any, Any] = {
        "integer": max(1, schema.get("minimum", 1)),
        "number": 1.5,
        "boolean": True,
        "null": None,
    }
    return default_values.get(json_type, _text(member))


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    example = {
        name: _example_of(member_schema, name, definitions, depth + 1)
        for name, member_schema in schema.get("properties", {}).items()
        if name in required or depth < 2
    }
    additional = schema.get("additionalProperties")
    if not example and isinstance(additional, dict):
        return {"name": _example_of(additional, "", definitions, depth + 1)}
    return example


def _has_type(value: Any, json_type: Any) -> bool:
    python_types = {"string": str, "integer": int, "array": list, "object": dict}
    return json_type in python_types and isinstance(value, python_types[json_type])


def _text(member: str) -> str:
    if member.endswith(("_at", "until", "from", "to")):
        return EXAMPLE_TIME
    if member.endswith(("url", "link", "logo", "uri")):
        return "https://gateway.example.com/…"
    return "…"
