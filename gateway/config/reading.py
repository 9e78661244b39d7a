"""Values ▸ shape: every fault that pydantic finds, in our words, and a shape of all that is right."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config.document import Finding, Place
from gateway.config.shape import SECTIONS, GatewayShape, Section
from gateway.nearest import did_you_mean

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
SENTENCES: Mapping[str, str] = {
    "string_too_short": "is empty; leave the key out or write null",
    "string_too_long": "is longer than {max_length} characters",
    "list_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping of names to their settings",
    "model_type": "must be a mapping of keys to values",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of sensible size",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than_equal": "must be {le:g} or less",
}


def read_shape(tree: dict[str, Any], faulty: set[Place]) -> tuple[GatewayShape, list[Finding]]:
    """All that is right in `tree`, and what is not. Places in `faulty` are left out, their fault being known already."""
    findings: list[Finding] = []
    known = set(faulty)
    rest = tree
    while True:
        rest = _without(rest, known)
        try:
            return GatewayShape.model_validate(rest), findings
        except ValidationError as errors:
            found = [_finding(error) for error in errors.errors(include_url=False)]
        known = {place for place, _ in found}
        findings += (finding for _, finding in found)


def _finding(error: ErrorDetails) -> tuple[Place, Finding]:
    """The place to leave out, and what to say about it."""
    place = tuple(str(step) for step in error["loc"] if step != "[key]")
    if error["type"] == "extra_forbidden":
        if not _WORD.fullmatch(place[-1]):
            return place, Finding(place, "has a key that is no single word; is the ':' after it missing?", unnamed=True)
        return place, Finding(place, _unknown_key(place))
    if error["loc"][-1:] == ("[key]",):
        return place, Finding(place, _bad_name(place))
    return place, Finding(place, _sentence(error))


def _sentence(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] in ("string_type", "is_instance_of"):
        return _not_text(error["input"])
    return SENTENCES[error["type"]].format_map(context)


def _not_text(given: object) -> str:
    match given:
        case bool():
            return "must be text, and this reads as a truth value; put it in quotes"
        case int() | float():
            return "must be text, and this reads as a number; put it in quotes"
        case list():
            return "must be one text, not a list"
        case dict():
            return "must be one text, not a mapping; a value that holds ': ' or begins with { goes in quotes"
        case _:
            return "must be text"


def _bad_name(place: Place) -> str:
    if place[2:3] == ("variables",):
        return "a variable's name begins with a letter or '_' and has letters, digits and '_' only, at most 255"
    if len(place) == 2:
        return "an environment's name is made of a-z, 0-9, '_' and '-', at most 255"
    return "an integration's name is made of letters, digits, spaces and ~ : . @ _ -, at most 255"


def _unknown_key(place: Place) -> str:
    section, key = _section(place[:-1]), place[-1]
    homes = [
        ".".join(home).replace("*", "<name>") for home, shape in SECTIONS.items() if key in shape.model_fields and home
    ]
    if homes:
        return f"is not known here; it belongs under {' or '.join(homes)}"
    if near := did_you_mean(key, section.model_fields):
        return f"is not a known key{near}"
    return f"is not a known key; known here: {', '.join(section.model_fields)}"


def _section(place: Place) -> type[Section]:
    """Whose keys stand at `place`."""
    if place in SECTIONS:
        return SECTIONS[place]
    return SECTIONS[tuple("*" if index in (1, 3) else step for index, step in enumerate(place))]


def _without(tree: Any, places: set[Place]) -> Any:
    """A copy of `tree` that lacks `places`; a list keeps its length, with null instead, so that indices stay true."""
    if () in places:
        return None
    below: dict[str, set[Place]] = {}
    for place in places:
        below.setdefault(place[0], set()).add(place[1:])
    if isinstance(tree, dict):
        return {
            key: _without(value, below.get(key, set())) for key, value in tree.items() if () not in below.get(key, ())
        }
    if isinstance(tree, list):
        return [_without(value, below.get(str(index), set())) for index, value in enumerate(tree)]
    return tree
