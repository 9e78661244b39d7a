"""Reads what callers send to our own API: JSON bodies and queries, every fault named at once (api-contract 0.2)."""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.errors import Code, InvalidRequest, Issue

Model = TypeVar("Model", bound=BaseModel)

TRUE: Final = frozenset({"true", "1", "yes", "on"})
FALSE: Final = frozenset({"false", "0", "no", "off", ""})

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


class Strict(BaseModel):
    """A request body: unknown members are refused, and a number is not taken for a text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


async def read_json(request: web.Request, model: type[Model]) -> Model:
    """The body as `model`. Raises InvalidRequest ``invalid_json`` or ``invalid_body``."""
    raw = await request.read()
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        where = f" (line {fault.lineno}, column {fault.colno})" if isinstance(fault, json.JSONDecodeError) else ""
        raise InvalidRequest("invalid_json", f"The body is not JSON{where}.") from fault
    return checked(value, model, "invalid_body")


def checked(value: Any, model: type[Model], code: Code) -> Model:
    """`value` as `model`. Raises InvalidRequest with one issue a fault."""
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        issues = [
            Issue(CODES.get(one["type"], "invalid_type"), one["msg"], tuple(str(step) for step in one["loc"]))
            for one in fault.errors(include_url=False, include_context=False, include_input=False)
        ]
        first = issues[0]
        raise InvalidRequest(code, f"{'.'.join(first.path) or 'The body'}: {first.message}.", errors=issues) from None


def query_of(request: web.Request, allowed: Collection[str], nested: Collection[str] = ()) -> dict[str, str]:
    """The query, each name once. Raises InvalidRequest for names that are neither `allowed` nor ``nested[…]``."""
    issues: list[Issue] = []
    query: dict[str, str] = {}
    for name, text in request.query.items():
        if name.partition("[")[0] in nested and name.endswith("]"):
            continue
        if name not in allowed:
            issues.append(Issue("unrecognized_keys", f"'{name}' is not a parameter of this address.", (name,)))
        elif name in query:
            issues.append(Issue("custom", f"'{name}' was given twice.", (name,)))
        query[name] = text
    if issues:
        raise InvalidRequest("invalid_query_params", issues[0].message, errors=issues)
    return query


def truth(query: Mapping[str, str], name: str) -> bool:
    """``true``, ``1``, ``yes``, ``on`` or their opposites; false where absent. Raises InvalidRequest."""
    text = query.get(name, "").lower()
    if text not in TRUE | FALSE:
        raise wrong_query(name, f"'{name}' must be true or false.")
    return text in TRUE


def number(query: Mapping[str, str], name: str, *, least: int, most: int) -> int | None:
    """A whole number within bounds; None where absent. Raises InvalidRequest."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise wrong_query(name, f"'{name}' must be a whole number from {least} to {most}.")
    return int(text)


def wrong_query(name: str, message: str) -> InvalidRequest:
    return InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, (name,))])
