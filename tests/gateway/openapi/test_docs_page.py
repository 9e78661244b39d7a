"""The page `/docs`: an example of what is sent and answered for each operation, as the operation takes and gives it."""

import json

import pytest
from pydantic import TypeAdapter

from gateway.openapi.answer_examples import example
from gateway.openapi.docs_page import groups
from gateway.openapi.openapi_document import components
from gateway.openapi.operations import OPERATIONS, Endpoint

SHAPES = sorted({one.answer.__name__: one.answer for one in OPERATIONS if one.answer is not None}.items())


@pytest.mark.parametrize(("name", "shape"), SHAPES, ids=[name for name, _ in SHAPES])
def test_the_example_of_an_answer_has_its_shape(name: str, shape: type) -> None:
    found = example(name, components())
    TypeAdapter(shape).validate_python(json.loads(json.dumps(found)))


@pytest.mark.parametrize("one", [one for one in OPERATIONS if one.body is not None], ids=lambda one: one.id)
def test_the_example_of_a_request_is_taken(one: Endpoint) -> None:
    assert one.example is not None
    TypeAdapter(one.body).validate_python(one.example)


def test_pages_that_no_program_calls_are_left_out() -> None:
    shown = {one.operation.path for _, operations in groups("https://gw.example") for one in operations}
    assert {"/proxy/{path}", "/connections", "/connect", "/console", "/guides"} <= shown
    assert not {path for path in shown if path.startswith(("/connect/s/", "/console/", "/images/"))}


def test_every_operation_shows_what_it_takes_and_gives() -> None:
    for _, operations in groups("https://gw.example"):
        for one in operations:
            assert (one.sent is not None) == (one.operation.body is not None), one.operation.id
            assert (one.answered is not None) == (one.operation.answer is not None), one.operation.id
