"""Turns an error of pydantic into the gateway's message.

The message is the end of a sentence; the sentence begins with the place of the value. A message never repeats the
value, because the value can be a secret.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

# "json": a request body that a program sends; "yaml": a file that a person writes
Syntax: TypeAlias = Literal["json", "yaml"]

_TIME: Final = "must be a time with a time zone, such as 2026-01-31T12:00:00Z"
_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "is missing",
        "union_tag_not_found": "is missing",
        "union_tag_invalid": "must be one of {expected_tags}",
        "string_type": "must be text",
        # pydantic reports this error if no validator converted the value to a `Secret` or a similar class.
        "is_instance_of": "must be text",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "int_parsing_size": "must be a whole number of at most 18 digits",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "list_type": "must be an array",
        "dict_type": "must be an object",
        "model_type": "must be an object",
        "model_attributes_type": "must be an object",
        "literal_error": "must be {expected}",
        "string_too_short": "must have {min_length} or more characters",
        "string_too_long": "may have at most {max_length} characters",
        "too_short": "must have {min_length} or more items",
        "too_long": "may have at most {max_length} items",
        "string_pattern_mismatch": "contains a character that is not allowed",
        "datetime_type": _TIME,
        "datetime_parsing": _TIME,
        "datetime_from_date_parsing": _TIME,
        "timezone_aware": _TIME,
        "greater_than": "must be more than {gt}",
        "greater_than_equal": "must be {ge} or more",
        "less_than_equal": "must be {le} or less",
    }
)
# Messages for files that a person writes. These messages contain an example or a hint.
_IN_YAML: Final[Mapping[str, str]] = MappingProxyType(
    {
        "list_type": "must be a list, such as [a, b]",
        "dict_type": "must be a mapping: `key: value` lines",
        "model_type": "must be a mapping: `key: value` lines",
        "model_attributes_type": "must be a mapping: `key: value` lines",
        "string_pattern_mismatch": "must match {pattern}",
    }
)


def pydantic_message(error: ErrorDetails, syntax: Syntax) -> str:
    """Return the message, such as ``must be a whole number``, without the place and without a full stop.

    The text of a validator's own error is returned unchanged. Hints about quotes in YAML need the member `input` of
    `error`.
    """
    context, kind = error.get("ctx", {}), error["type"]
    if kind == "value_error":
        return str(context["error"])
    if syntax == "yaml" and kind in {"string_type", "is_instance_of"}:
        return _text_expected_message(error.get("input"))
    if syntax == "yaml" and kind in {"string_too_short", "too_short"} and context["min_length"] == 1:
        return "must not be empty; leave the key out if it is not needed"
    sentence = (_IN_YAML.get(kind) if syntax == "yaml" else None) or _SENTENCES.get(kind)
    if sentence is None:
        return f"is refused: {error['msg']}"
    return sentence.format_map({name: _bound_value(value) for name, value in context.items()})


def _bound_value(value: Any) -> Any:
    """Return a whole number as an integer: 3600.0 becomes 3600. Other values stay unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text_expected_message(value: object) -> str:
    match value:
        case bool():
            return "must be text, and this reads as a boolean; put it in quotes"
        case int() | float():
            return "must be text, and this reads as a number; put it in quotes"
        case list():
            return "must be text, not a list"
        case dict():
            return "must be text, not a mapping; put a value that contains ': ' or begins with { in quotes"
        case _:
            return "must be text"


def keys_at(shape: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the keys that the model `shape` allows at `path`.

    In pydantic's paths, the value of `type` follows the name of a field that can have several models. Return no keys if
    several models are possible at `path`.
    """
    for step, next_step in zip(path, (*path[1:], None), strict=False):
        field = shape.model_fields.get(str(step))
        shapes = set(_shapes_in(field.annotation)) if field else set()
        if len(shapes) > 1:
            shapes = {model for model in shapes if "type" in model.model_fields and next_step in _types(model)}
            if len(shapes) != 1:
                return []
        shape = next(iter(shapes), shape)
    return list(shape.model_fields)


def _types(shape: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values that the model allows for `type`."""
    return get_args(shape.model_fields["type"].annotation)


def _shapes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _shapes_in(argument)
