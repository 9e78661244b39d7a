"""What pydantic finds in a body, in our words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

from gateway.errors import Issue
from gateway.wire.ids import CONNECTION_ID, PROVIDER_CONFIG_KEY, misfit

# pydantic's word for a fault ▸ the word published clients know.
CODES: Final = {
    "extra_forbidden": "unrecognized_keys",
    "missing": "invalid_type",
    "string_too_short": "too_small",
    "too_short": "too_small",
    "string_too_long": "too_big",
    "too_long": "too_big",
    "string_pattern_mismatch": "invalid_format",
    "greater_than_equal": "too_small",
    "less_than_equal": "too_big",
    "value_error": "custom",
}
SENTENCES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "union_tag_not_found": "is missing",
    "union_tag_invalid": "must be one of {expected_tags}",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be {expected}",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "may have at most {max_length} characters",
    "too_short": "must have {min_length} or more items",
    "too_long": "may have at most {max_length} items",
    "string_pattern_mismatch": "holds a character that it may not have",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
}


def issue(error: ErrorDetails, value: Any = None) -> Issue:
    """Where in `value` and what, without what stands there, which may be a secret; of an id the character that does not fit."""
    path = tuple(str(step) for step in _within(value, error["loc"]))
    if error["type"].startswith("union_tag_"):
        path = (*path, "type")
    return Issue(CODES.get(error["type"], "invalid_type"), _sentence(error, path, value), path)


def _within(value: Any, steps: Sequence[Any]) -> Iterator[Any]:
    """The steps that `value` itself has: pydantic adds which of several shapes it has tried."""
    for step in steps:
        if isinstance(value, Mapping):
            if step not in value and value.get("type") == step:
                continue
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            continue
        yield step


def _sentence(error: ErrorDetails, path: Sequence[str], value: Any) -> str:
    if not path and error["type"] != "value_error":
        return "The body must be a JSON object."
    if error["type"] == "extra_forbidden":
        return f"'{path[-1][:64]}' is not a field here."
    context, place = error.get("ctx", {}), ".".join(path)
    if error["type"] == "string_pattern_mismatch" and context["pattern"] in (CONNECTION_ID, PROVIDER_CONFIG_KEY):
        for step in path:
            value = value[int(step)] if isinstance(value, list) else value[step]
        return f"{place} {misfit(str(value), context['pattern'])}."
    if error["type"] == "value_error":
        return f"{place}: {context['error']}." if place else f"{context['error']}."
    sentence = SENTENCES.get(error["type"])
    return f"{place} {sentence.format_map(context)}." if sentence else f"{place}: {error['msg']}."
