"""The page `/docs`: valid examples of the request and the response of each operation."""

import json
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.openapi.docs_page import OperationView, groups
from gateway.openapi.openapi_document import component_name, components
from gateway.openapi.operations import OPERATIONS, Endpoint
from gateway.openapi.response_examples import example

SHAPES = sorted({component_name(one.response): one.response for one in OPERATIONS if one.response is not None}.items())


@cache
def definitions() -> dict[str, Any]:
    """Return every schema by its name. Cached, since this takes a quarter of a second."""
    return components()


@cache
def shown_groups() -> list[tuple[str, list[OperationView]]]:
    return groups("https://gw.example")


@pytest.mark.parametrize(("name", "shape"), SHAPES, ids=[name for name, _ in SHAPES])
def test_the_example_of_a_response_matches_its_schema(name: str, shape: type) -> None:
    found = example(name, definitions())
    assert TypeAdapter(shape).validate_python(json.loads(json.dumps(found))) is not None


@pytest.mark.parametrize(
    "endpoint", [endpoint for endpoint in OPERATIONS if endpoint.body is not None], ids=lambda endpoint: endpoint.id
)
def test_the_example_of_a_request_is_valid(endpoint: Endpoint) -> None:
    assert endpoint.example is not None
    TypeAdapter(endpoint.body).validate_python(endpoint.example)


def test_pages_that_no_program_calls_are_left_out() -> None:
    paths = {operation.operation.path for _, operations in shown_groups() for operation in operations}
    assert {"/proxy/{path}", "/connections", "/connect", "/console", "/guides"} <= paths
    assert not {path for path in paths if path.startswith(("/connect/s/", "/console/", "/images/"))}


def test_every_operation_shows_examples_of_request_and_response() -> None:
    for _, operations in shown_groups():
        for operation in operations:
            assert (operation.body is not None) == (operation.operation.body is not None), operation.operation.id
            assert (operation.response_example is not None) == (operation.operation.response is not None), (
                operation.operation.id
            )
