"""The documented response type of an operation is one that its handler uses, so that mypy compares them (ADR 48)."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

import pytest

from gateway.api import responses
from gateway.app.routes import ROUTES
from gateway.openapi.operations import OPERATIONS, Endpoint
from tests.gateway.openapi.test_openapi_document import path_without_patterns

HANDLERS: Final = {(method, path_without_patterns(path)): handler for method, path, handler in ROUTES}
SHAPES: Final = {id(shape): name for name, shape in vars(responses).items() if not name.startswith("_")}
FREE: Final = {responses.AnyJson, responses.Metadata}  # any JSON object
ELSEWHERE: Final = {
    "/providers": "rows of the catalog, compiled with it; compared by test_schemathesis.py, beside this",
    "/providers/{provider}": "the same",
    "/oauth/client-metadata/{environment}/{integration_id}": "built by an auth mode, below the API",
    "/auth/oauth-outbound/{integration_id}": "always fails",
}


def shapes_named(code: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the response types that a function or class uses, directly and through the gateway's functions and classes."""
    if not isinstance(code, type):
        code = inspect.unwrap(code)
        code = getattr(code, "__func__", code)
    if code in seen:
        return
    seen.add(code)
    names = vars(sys.modules[code.__module__])
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code)))):
        named: Any = None
        if isinstance(node, ast.Name):
            named = names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            named = getattr(names.get(node.value.id), node.attr, None)
        if id(named) in SHAPES:
            yield SHAPES[id(named)]
        elif isinstance(named, FunctionType | type) and named.__module__.startswith("gateway.api."):
            yield from shapes_named(named, seen)


def described_operations() -> list[Endpoint]:
    return [
        operation
        for operation in OPERATIONS
        if operation.response is not None and operation.response not in FREE and operation.path not in ELSEWHERE
    ]


@pytest.mark.parametrize("endpoint", described_operations(), ids=lambda endpoint: endpoint.id)
def test_a_handler_uses_the_documented_response_type(endpoint: Endpoint) -> None:
    named = set(shapes_named(HANDLERS[endpoint.method, endpoint.path], set()))
    assert SHAPES[id(endpoint.response)] in named, (
        f"documented is {endpoint.response}; the handler names {sorted(named)}"
    )
