"""The operations as the page ``/docs`` shows them, with calls to copy."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gateway.openapi.openapi_document import IN_PATH, PATH_SCHEMAS, component_name, components, status_codes
from gateway.openapi.operations import OPERATIONS, Endpoint, Param
from gateway.openapi.response_examples import example
from gateway.text import counted

# ── Calls to copy: for curl, Python and Node, with the standard library only.

SAMPLE_PATH_VALUES = {
    "{provider}": "jira",
    "{unique_key}": "jira-eu",
    "{connection_id}": "user-1",
    "{integration_id}": "jira",
    "{environment}": "dev",
    "{name}": "jira",
    "{session_id}": "<SESSION_ID>",
    "{key_id}": "<KEY_ID>",
    "{capability}": "<CAPABILITY>",
    "{path}": "ex/jira/<cloudId>/rest/api/3/myself",
}


def samples(operation: Endpoint, public_url: str) -> list[tuple[str, str]]:
    """Return the title and the text of each sample call."""
    method = "GET" if operation.method == "*" else operation.method
    url = public_url + operation.path
    for name, text in SAMPLE_PATH_VALUES.items():
        url = url.replace(name, text)
    query = [f"{param.name}=jira" for param in operation.query if param.required]
    if operation.authentication == "session":
        query.append("connect_session_token=<TOKEN>")
    url += "?" + "&".join(query) if query else ""
    headers = {"Authorization": "Bearer <SECRET_KEY>"} if operation.authentication == "key" else {}
    required = [param.name for param in operation.headers if param.required]
    headers |= {name: "user-1" if name == "Connection-Id" else "jira" for name in required}
    body = operation.example if operation.body is not None else None
    if operation.body is not None:
        headers["Content-Type"] = "application/json"
        body = {} if body is None else body
    return [
        ("curl", _curl(method, url, headers, body)),
        ("Python", _python(method, url, headers, body)),
        ("Node", _node(method, url, headers, body)),
    ]


def _curl(method: str, url: str, headers: Mapping[str, str], body: Any) -> str:
    parts = ["curl" if method == "GET" else f"curl -X {method}"]
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if body is not None:
        parts.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    return " \\\n     ".join([*parts, shlex.quote(url)])


def _python(method: str, url: str, headers: Mapping[str, str], body: Any) -> str:
    lines = ["import json", "import urllib.request", "", "request = urllib.request.Request(", f"    {url!r},"]
    lines += [f"    method={method!r},"] if method != "GET" else []
    if headers:
        lines += ["    headers={", *(f"        {name!r}: {value!r}," for name, value in headers.items()), "    },"]
    lines += [f"    data=json.dumps({body!r}).encode(),"] if body is not None else []
    return "\n".join(
        [
            *lines,
            ")",
            "with urllib.request.urlopen(request) as response:",
            "    print(response.status, response.read())",
        ]
    )


def _node(method: str, url: str, headers: Mapping[str, str], body: Any) -> str:
    options: dict[str, Any] = {} if method == "GET" else {"method": method}
    options |= {"headers": dict(headers)} if headers else {}
    text = json.dumps(options, indent=2, ensure_ascii=False)
    if body is not None:
        text = text.removesuffix("\n}") + f',\n  "body": JSON.stringify({json.dumps(body, ensure_ascii=False)})\n}}'
    argument = f", {text}" if options else ""
    call = f"const response = await fetch({json.dumps(url)}{argument});"
    return f"{call}\nconsole.log(response.status, await response.text());"


_REF = re.compile(r"#/components/schemas/(\w+)")
AUTHENTICATION_TEXT = {"key": "secret key", "session": "connect session", "open": "no authentication"}


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """A member of an object, or a parameter. `link`: the name of the schema with the details."""

    name: str
    type_text: str
    description: str
    required: bool
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema on the page. `type`: the type of the schema; empty for an object with members."""

    name: str
    description: str
    rows: list[SchemaRow]
    type: str


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation on the page.

    `errors`: status and code of each error of this operation; errors that all operations share are listed once on the
    page. `body`, `response_example`: examples of the request's and the response's body, as JSON.
    """

    operation: Endpoint
    authentication_text: str
    path: list[SchemaRow]
    query: list[SchemaRow]
    headers: list[SchemaRow]
    errors: list[tuple[int, str]]
    samples: list[tuple[str, str]]
    body: str | None
    response_example: str | None
    body_name: str
    response_name: str


@lru_cache(maxsize=4)
def groups(public_url: str) -> list[tuple[str, list[OperationView]]]:
    """Return the operations by heading, in the order of `OPERATIONS`, without internal operations."""
    by_heading: dict[str, list[OperationView]] = {}
    definitions = components()
    for operation in OPERATIONS:
        if not operation.internal:
            by_heading.setdefault(operation.group, []).append(_operation_view(operation, public_url, definitions))
    return list(by_heading.items())


@lru_cache(maxsize=1)
def schemas() -> list[Schema]:
    """Return all schemas that requests and responses refer to."""
    return [_schema(name, schema) for name, schema in components().items()]


def _operation_view(operation: Endpoint, public_url: str, definitions: Mapping[str, Any]) -> OperationView:
    own_errors = {error if isinstance(error, str) else error[0] for error in operation.errors}
    return OperationView(
        operation,
        AUTHENTICATION_TEXT[operation.authentication],
        [
            SchemaRow(name, "text", _length_text(PATH_SCHEMAS.get(name, {})), True)
            for name in IN_PATH.findall(operation.path)
        ],
        [_parameter_row(parameter) for parameter in operation.query],
        [_parameter_row(parameter) for parameter in operation.headers],
        [(status, code) for status, codes in status_codes(operation).items() for code in codes if code in own_errors],
        samples(operation, public_url),
        None if operation.body is None else _json(operation.example),
        None if operation.response is None else _json(_example_response(operation, definitions)),
        "" if operation.body is None else component_name(operation.body),
        "" if operation.response is None else component_name(operation.response),
    )


def _example_response(operation: Endpoint, definitions: Mapping[str, Any]) -> Any:
    """Return an example of the response: the operation's own example if the schema allows any object."""
    assert operation.response is not None
    if operation.response.__name__ in ("AnyJson", "Metadata"):
        return operation.response_example if operation.response_example is not None else operation.example or {}
    return example(component_name(operation.response), definitions)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _parameter_row(parameter: Param) -> SchemaRow:
    return SchemaRow(parameter.name, _type_text(dict(parameter.schema))[0], parameter.description, parameter.required)


def _schema(name: str, definition: dict[str, Any]) -> Schema:
    required = definition.get("required", ())
    rows = []
    for member, schema in definition.get("properties", {}).items():
        type_text, link = _type_text(schema)
        rows.append(
            SchemaRow(
                member, type_text, schema.get("description", "") or _length_text(schema), member in required, link
            )
        )
    return Schema(name, definition.get("description", ""), rows, "" if rows else _type_text(definition)[0])


def _type_text(schema: dict[str, Any]) -> tuple[str, str | None]:
    """Return the type of a schema in a few words, and the name of the schema with the details, or None."""
    match = _REF.search(str(schema))
    link = match.group(1) if match else None
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return " or ".join(dict.fromkeys(_type_text(variant)[0] for variant in alternatives)), link
    if "$ref" in schema:
        return str(link), link
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"])), None
    if "const" in schema:
        return str(schema["const"]).lower(), None
    if schema.get("type") == "array":
        return f"array of {_type_text(schema.get('items', {}))[0]}", link
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type_text(schema['additionalProperties'])[0]}", link
    return {"string": "text", "integer": "whole number", "null": "null"}.get(
        str(schema.get("type")), schema.get("type", "any")
    ), link


def _length_text(schema: dict[str, Any]) -> str:
    """Return the length limit of a text as a sentence; empty if the text has no limit."""
    for variant in (schema, *schema.get("anyOf", ())):
        if "maxLength" in variant:
            return f"At most {counted(variant['maxLength'], 'character')}."
    return ""
