"""One entry's values ▸ a provider: the shape by pydantic, then whether it makes sense; each fault as (place, message)."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.catalog.checks import Finding, Words, check
from gateway.catalog.provider import Provider
from gateway.nearest import did_you_mean

# Faults in these, or a misspelt one of them, would make placeholders and required addresses look wrong.
_READ_BY_CHECKS: Final = frozenset(
    {"auth_mode", "authorization_url", "token_url", "connection_config", "connection_configuration", "credentials"}
    | {"token_response_metadata", "redirect_uri_metadata", "assertion_option", "additional_steps", "jwt", "signature"}
    | {"request_signing", "request_url", "installation_token_url"}
)
_STAND_INS: Final[dict[str, Any]] = {"display_name": "x", "categories": ["other"]}


def provider_in(name: str, values: Any, words: Words) -> tuple[Provider | None, list[Finding]]:
    """The provider that `values` describe, and everything that is wrong with them; with a fault there is none."""
    if not isinstance(values, Mapping):
        return None, [((), "an entry is a list of `key: value` lines")]
    faults: list[Finding] = []
    if values.get("name", name) != name:
        faults.append((("name",), f"the file's name says {name!r}; leave `name` out or make them equal"))
    given = {**values, "name": name}
    try:
        provider: Provider | None = Provider.model_validate(given)
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False, include_context=True)
        faults += map(_fault, errors)
        provider = _sound_part(given, errors)
    if provider is not None:
        faults += check(provider, words)
    return None if faults else provider, faults


def _sound_part(given: Mapping[str, Any], errors: Sequence[ErrorDetails]) -> Provider | None:
    """What is right in an entry, for the checks that look at values: without what is wrong, and with stand-ins for what
    every entry needs. None where the checks would then only repeat what is said already."""
    if any(error["loc"][0] in _READ_BY_CHECKS or error["loc"][0] not in Provider.model_fields for error in errors):
        return None
    part = _STAND_INS | copy.deepcopy(dict(given))
    for error in errors:
        _drop(part, error["loc"])
    try:
        return Provider.model_validate(_STAND_INS | part)
    except ValidationError:
        return None


def _drop(value: Any, place: Sequence[int | str]) -> None:
    """Take `place` out of `value`, or what holds it if it lies in a list; nothing where it is not there."""
    for step in place[:-1]:
        inner = value.get(step) if isinstance(value, dict) else None
        if not isinstance(inner, dict):
            break
        value, place = inner, place[1:]
    if isinstance(value, dict):
        value.pop(place[0], None)


def _fault(error: ErrorDetails) -> Finding:
    path = error["loc"]
    if error["type"] == "missing":
        return path[:-1], f"{_dotted(path)} is missing" + _why_missing(path)
    return path, _in_words(error, path)


def _in_words(error: ErrorDetails, path: Sequence[int | str]) -> str:
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key {str(path[-1])!r}" + _did_you_mean(str(path[-1]), _fields_at(path[:-1]))
        case "string_type" if isinstance(error["input"], int | float):
            return f"{_dotted(path)} must be text; put it in quotes"
        case "string_type":
            return f"{_dotted(path)} must be text"
        case "list_type":
            return f"{_dotted(path)} must be a list, such as [a, b]"
        case "dict_type" | "model_type":
            return f"{_dotted(path)} must be `key: value` lines"
        case "bool_type" | "bool_parsing":
            return f"{_dotted(path)} must be true or false"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"{_dotted(path)} must be a whole number"
        case "float_type" | "float_parsing":
            return f"{_dotted(path)} must be a number"
        case "literal_error":
            return f"{_dotted(path)} must be {error['ctx']['expected']}"
        case "too_short" | "string_too_short":
            return f"{_dotted(path)} must not be empty"
    return f"{_dotted(path)}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _why_missing(path: Sequence[int | str]) -> str:
    required = "every entry needs display_name, categories, auth_mode and proxy.base_url"
    return f"; {required}" if len(path) == 1 or path == ("proxy", "base_url") else ""


def _did_you_mean(key: str, known: Collection[str]) -> str:
    if key == "<<":
        return "; merge keys are not read, write the values out"
    return did_you_mean(key, known)


def _fields_at(path: Sequence[int | str]) -> list[str]:
    """Keys that the shape at `path` knows."""
    shape: type[BaseModel] = Provider
    for step in path:
        field = shape.model_fields.get(str(step))
        shape = next(_shapes_in(field.annotation), shape) if field else shape
    return list(shape.model_fields)


def _shapes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _shapes_in(inner)


def _dotted(path: Sequence[int | str]) -> str:
    # A union's branches appear in pydantic's path as if they were keys; nobody wrote those.
    return ".".join(str(step) for step in path if str(step) not in {"str", "list[str]"})
