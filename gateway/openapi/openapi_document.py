"""The operations as an OpenAPI 3.1 document."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import is_typeddict

from gateway import clock
from gateway.api import responses
from gateway.api.responses import Error, ErrorText
from gateway.catalog.listing import ListingBody
from gateway.errors import ERROR_HEADER, Code
from gateway.openapi.codes import (
    COMMON_ERRORS,
    JSON_BODY_ERRORS,
    KEY_ERRORS,
    SESSION_ERRORS,
    STATUS_BY_CODE,
    WEBHOOK_SIGNATURE_ERRORS,
)
from gateway.openapi.import_models import IMPORTED, credentials_schema
from gateway.openapi.operations import OPERATIONS, Endpoint, Param, Shape
from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY

REF: Final = "#/components/schemas/{model}"
ALL_METHODS: Final = ("get", "post", "put", "patch", "delete")
JSON: Final = "application/json"
HTML: Final = "text/html"
RESPONSE: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)
# A client generator that does not know */* uses the second media type, for bytes.
ANY_OBJECT: Final[Mapping[str, Any]] = {
    "*/*": {},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}
ERROR_HEADER_SCHEMA: Final = {ERROR_HEADER: {"description": "The error code.", "schema": {"type": "string"}}}
IN_PATH: Final = re.compile(r"\{(\w+)\}")
PATH_SCHEMAS: Final = {
    "connection_id": {"minLength": 1, "maxLength": 255, "pattern": CONNECTION_ID},
    "unique_key": {"minLength": 1, "maxLength": 255, "pattern": PROVIDER_CONFIG_KEY},
    "integration_id": {"minLength": 1, "maxLength": 255, "pattern": PROVIDER_CONFIG_KEY},
    "provider": {"minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9_-]+$"},
    "environment": {"minLength": 1, "maxLength": 255, "pattern": "^[a-z0-9_-]+$"},
}
DESCRIPTION: Final = (
    "Stores your users' OAuth tokens and API keys, keeps them fresh and adds them to your requests. Every error of the "
    'gateway is `{"error": {"code", "message", …}}`; the header `Gateway-Error` has the same code.'
)
SCHEMES: Final = {
    "secretKey": {"type": "http", "scheme": "bearer", "description": "The environment's secret key."},
    "connectSession": {
        "type": "apiKey",
        "in": "query",
        "name": "connect_session_token",
        "description": "The token of a connect session.",
    },
}


@lru_cache(maxsize=4)
def document_listing(public_url: str) -> ListingBody:
    """Return the document as JSON with its entity tag; cached by `public_url`."""
    content = json.dumps(document(public_url), ensure_ascii=False, separators=(",", ":")).encode()
    return ListingBody(content, hashlib.sha256(content).hexdigest()[:32])


def document(public_url: str) -> dict[str, Any]:
    """Return the OpenAPI document as plain values."""
    shared_errors = SharedErrorResponses()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        for method in ALL_METHODS if operation.method == "*" else (operation.method.lower(),):
            paths.setdefault(operation.path, {})[method] = _operation_object(operation, method, shared_errors)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Integration gateway", "version": version("integration-gateway"), "description": DESCRIPTION},
        "servers": [{"url": public_url}],
        "tags": [{"name": name} for name in dict.fromkeys(operation.group for operation in OPERATIONS)],
        "paths": paths,
        "components": {"schemas": components(), "responses": shared_errors.responses, "securitySchemes": SCHEMES},
    }


class SharedErrorResponses:
    """The error responses that operations share: one for each status and type of content."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}

    def error(self, status: int, codes: list[Code], content: str) -> dict[str, str]:
        """Return a reference to the error response, with a description that lists the operation's codes."""
        kind = "Text" if set(codes) <= set(WEBHOOK_SIGNATURE_ERRORS) else "Page" if content == HTML else ""
        name = f"Error{status}{kind}"
        content_by_type: dict[str, Any] = {JSON: {"schema": _ref(ErrorText if kind == "Text" else Error)}}
        if kind == "Page":
            content_by_type[HTML] = {}
        self.responses[name] = {
            "description": f"An error of the gateway, with status {status}.",
            "headers": ERROR_HEADER_SCHEMA,
            "content": content_by_type,
        }
        return {"$ref": f"#/components/responses/{name}", "description": _code_names(codes)}


async def build_components() -> None:
    """Build what `components` returns, and let other tasks run after each model. All models together take half a second
    of CPU time."""
    if components.cache_info().currsize:
        return
    for shape in _shapes():
        _adapter(shape)
        await clock.give_way()
    components()
    _adapter.cache_clear()


@lru_cache(maxsize=1)
def components() -> dict[str, Any]:
    """Return the schema of every model and shape that an operation uses, by its name. Callers must not change the
    result, because it is cached."""
    _, definitions = TypeAdapter.json_schemas(
        [(shape.__name__, mode, _adapter(shape)) for shape, mode in _shapes().items()], ref_template=REF
    )
    schemas: dict[str, Any] = _component_names(definitions["$defs"])
    _move_defaults_to_descriptions(schemas)
    schemas["Import"]["properties"]["credentials"] = credentials_schema(REF)
    return dict(sorted(schemas.items()))


def _shapes() -> dict[Any, JsonSchemaMode]:
    _close_responses()
    shapes: dict[Any, JsonSchemaMode] = {}
    shapes |= {shape: "serialization" for operation in OPERATIONS if (shape := operation.response) is not None}
    shapes |= {Error: "serialization", ErrorText: "serialization"}
    shapes |= {shape: "validation" for operation in OPERATIONS if (shape := operation.body) is not None}
    return shapes | dict.fromkeys(IMPORTED, "validation")


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def component_name(model: Shape) -> str:
    """Return the name of a model in the document. Client generators make a class name from this name."""
    name: str = model.__name__
    return name if name == "AnyJson" else name.removesuffix("Json")


def _component_names(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return `schemas` with the names that `component_name` returns, in keys, titles and references."""
    text = json.dumps(schemas)
    for name in schemas:
        if name.endswith("Json") and name != "AnyJson":
            text = text.replace(f'"{name}"', f'"{name[:-4]}"').replace(f'/{name}"', f'/{name[:-4]}"')
    renamed: dict[str, Any] = json.loads(text)
    return renamed


def _close_responses() -> None:
    """Configure each response type that has no configuration of its own. Unknown members are then forbidden, and
    members' docstrings become descriptions."""
    for shape in vars(responses).values():
        if is_typeddict(shape) and not hasattr(shape, "__pydantic_config__"):
            with_config(RESPONSE)(shape)


def _move_defaults_to_descriptions(part: Any) -> None:
    """Move defaults into descriptions.

    Client generators assume that a member with a default is always present, but optional members of the API may be
    absent.
    """
    if isinstance(part, dict):
        if "default" in part and not isinstance(part["default"], dict):  # a dict describes a member named "default"
            default = part.pop("default")
            if default not in (None, [], False):
                part["description"] = f"{part.get('description', '')} Default {json.dumps(default)}.".strip()
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        _move_defaults_to_descriptions(inner)


def status_codes(operation: Endpoint) -> dict[int, list[Code]]:
    """Return the operation's error codes, by status."""
    codes: list[Code | tuple[Code, int]] = [*COMMON_ERRORS, *operation.errors]
    if operation.authentication == "key":
        codes += KEY_ERRORS
    if operation.authentication == "session":
        codes += SESSION_ERRORS
    if operation.authentication != "open":
        codes += JSON_BODY_ERRORS
    codes_by_status: dict[int, list[Code]] = {}
    for entry in dict.fromkeys(codes):
        code, status = entry if isinstance(entry, tuple) else (entry, STATUS_BY_CODE[entry])
        codes_by_status.setdefault(status, []).append(code)
    return dict(sorted(codes_by_status.items()))


def _operation_object(operation: Endpoint, method: str, shared_errors: SharedErrorResponses) -> dict[str, Any]:
    operation_object: dict[str, Any] = {
        "operationId": operation.id.replace("any_", f"{method}_", 1) if operation.method == "*" else operation.id,
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": list(_parameters(operation)),
        "responses": dict(_responses(operation, shared_errors)),
        "security": _security(operation),
    }
    if operation.description:
        operation_object["description"] = operation.description
    if operation.deprecated:
        operation_object["deprecated"] = True
    if operation.body is not None:
        content: dict[str, Any] = {"schema": _ref(operation.body)}
        if operation.example is not None:
            content["example"] = operation.example
        operation_object["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation_object


def _security(operation: Endpoint) -> list[dict[str, list[str]]]:
    if operation.authentication == "key":
        return [{"secretKey": [operation.scope] if operation.scope else []}]
    return [{"connectSession": []}] if operation.authentication == "session" else []


def _parameters(operation: Endpoint) -> Iterator[dict[str, Any]]:
    for name in IN_PATH.findall(operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", **PATH_SCHEMAS.get(name, {})}}
    yield from _parameter_objects(operation.query, "query")
    yield from _parameter_objects(operation.headers, "header")


def _parameter_objects(params: Iterable[Param], location: str) -> Iterator[dict[str, Any]]:
    for param in params:
        parameter_object: dict[str, Any] = {
            "name": param.name,
            "in": location,
            "description": param.description,
            "schema": dict(param.schema),
        }
        if param.required:
            parameter_object["required"] = True
        if param.style is not None:
            parameter_object |= {"style": param.style, "explode": True}
        yield parameter_object


def _responses(operation: Endpoint, shared_errors: SharedErrorResponses) -> Iterator[tuple[str, Any]]:
    if operation.method == "*":
        yield from _proxied_responses(operation)
        return
    success: dict[str, Any] = {"description": "Success." if operation.status < 300 else "Redirect."}
    if operation.response is not None:
        success["content"] = {operation.content: {"schema": _ref(operation.response)}}
    elif operation.status < 300:
        success["content"] = {operation.content: {}}
    yield str(operation.status), success
    for status in operation.other_success_statuses:
        yield str(status), {"description": "Success, without a body."}
    if operation.path == "/ready":
        yield "503", {"description": "Not ready.", "content": {JSON: {"schema": _ref(operation.response)}}}
    for status, codes in status_codes(operation).items():
        yield str(status), shared_errors.error(status, codes, operation.content)


def _proxied_responses(operation: Endpoint) -> Iterator[tuple[str, Any]]:
    """Yield the responses of a proxied call.

    The provider can return any body with any status, so no status has a schema.
    """
    errors_text = "; ".join(f"{status} {_code_names(codes)}" for status, codes in status_codes(operation).items())
    yield "2XX", {"description": "The provider's response.", "content": ANY_OBJECT}
    yield (
        "default",
        {
            "description": "The provider's response or, with the header `Gateway-Error`, an `Error` of the gateway: "
            f"{errors_text}.",
            "headers": ERROR_HEADER_SCHEMA,
            "content": ANY_OBJECT,
        },
    )


def _code_names(codes: list[Code]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def _ref(model: Shape | None) -> dict[str, str]:
    assert model is not None
    return {"$ref": REF.format(model=component_name(model))}
