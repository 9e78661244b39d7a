"""Messages for pydantic's errors: one table for bodies and files. No message contains a value."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from gateway.documents.pydantic_messages import Syntax, pydantic_message


class Shape(BaseModel):
    model_config = ConfigDict(strict=True)

    word: Annotated[str, StringConstraints(min_length=1, max_length=4)] = "a"
    key: Annotated[str, StringConstraints(pattern="^[a-z]+$")] = "a"
    pair: Annotated[list[int], Field(min_length=2)] = [1, 2]
    seconds: Annotated[float, Field(gt=0, le=1_000_000)] = 1
    kind: Literal["a", "b"] = "a"
    names: dict[str, str] = {}
    odd: int = 1
    length: tuple[int, int] = (1, 2)

    @field_validator("odd")
    @classmethod
    def _is_odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("must be odd")
        return value


def message(syntax: Syntax, **value: Any) -> str:
    with pytest.raises(ValidationError) as wrong:
        Shape.model_validate(value)
    (error,) = wrong.value.errors()
    return pydantic_message(error, syntax)


@pytest.mark.parametrize(
    ("value", "json", "yaml"),
    [
        ({"word": 7}, "must be text", "must be text, and this reads as a number; put it in quotes"),
        ({"word": True}, "must be text", "must be text, and this reads as a boolean; put it in quotes"),
        ({"word": []}, "must be text", "must be text, not a list"),
        ({"word": None}, "must be text", "must be text"),
        ({"word": ""}, "must have 1 or more characters", "must not be empty; leave the key out if it is not needed"),
        ({"word": "secret"}, "may have at most 4 characters", "may have at most 4 characters"),
        ({"key": "S"}, "contains a character that is not allowed", "must match ^[a-z]+$"),
        ({"pair": [1]}, "must have 2 or more items", "must have 2 or more items"),
        ({"pair": "x"}, "must be an array", "must be a list, such as [a, b]"),
        ({"seconds": 0}, "must be more than 0", "must be more than 0"),
        ({"seconds": 2e6}, "must be 1000000 or less", "must be 1000000 or less"),
        ({"kind": "c"}, "must be 'a' or 'b'", "must be 'a' or 'b'"),
        ({"names": 1}, "must be an object", "must be a mapping: `key: value` lines"),
        ({"odd": 2}, "must be odd", "must be odd"),
        ({"length": 1}, "is refused: Input should be a valid tuple", "is refused: Input should be a valid tuple"),
    ],
)
def test_a_fault_is_a_sentence_about_its_place(value: dict[str, Any], json: str, yaml: str) -> None:
    assert (message("json", **value), message("yaml", **value)) == (json, yaml)


def test_without_its_input_a_fault_has_no_hint() -> None:
    with pytest.raises(ValidationError) as wrong:
        Shape.model_validate({"word": 7})
    (error,) = wrong.value.errors(include_input=False)
    assert pydantic_message(error, "yaml") == "must be text"
