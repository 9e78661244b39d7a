"""Reads what callers send to our own API: JSON bodies and queries, every fault named at once (api-contract 0.2)."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.api.json_text import parse
from gateway.api.sentences import issue
from gateway.errors import Code, InvalidRequest, Issue, told_together

Model = TypeVar("Model", bound=BaseModel)

TRUE: Final = frozenset({"true", "1", "yes", "on"})
FALSE: Final = frozenset({"false", "0", "no", "off", ""})
NO_NUMBERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


class Strict(BaseModel):
    """A request body: unknown members are refused, and a number is not taken for a text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


async def read_json(request: web.Request, model: type[Model]) -> Model:
    """The body as `model`. Raises InvalidRequest ``invalid_json`` or ``invalid_body``."""
    return checked(parse(await request.read()), model, "invalid_body")


def checked(value: Any, model: type[Model], code: Code) -> Model:
    """`value` as `model`. Raises InvalidRequest with one issue a fault."""
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        issues = [issue(one) for one in fault.errors(include_url=False, include_input=False)]
        raise InvalidRequest(code, told_together(issues), errors=issues) from None


def query_of(
    request: web.Request,
    allowed: Collection[str],
    *,
    nested: Collection[str] = (),
    truths: Collection[str] = (),
    numbers: Mapping[str, tuple[int, int]] = NO_NUMBERS,
) -> dict[str, str]:
    """The query, each name once; `truth` and `number` read those of `truths` and `numbers` (least, most) in it.

    Raises InvalidRequest for names that are neither `allowed` nor ``nested[…]``, and for wrong values, all at once.
    """
    issues: list[Issue] = []
    query: dict[str, str] = {}
    for name, text in request.query.items():
        if name.partition("[")[0] in nested and name.endswith("]"):
            continue
        if name not in allowed:
            issues.append(Issue("unrecognized_keys", f"'{name[:64]}' is not a parameter of this address.", (name,)))
        elif name in query:
            issues.append(Issue("custom", f"'{name}' was given twice.", (name,)))
        elif name in truths and text.lower() not in TRUE | FALSE:
            issues.append(Issue("custom", f"'{name}' must be true or false.", (name,)))
        elif name in numbers and not _is_number(text, *numbers[name]):
            least, most = numbers[name]
            issues.append(Issue("custom", f"'{name}' must be a whole number from {least} to {most}.", (name,)))
        query[name] = text
    if issues:
        raise InvalidRequest("invalid_query_params", told_together(issues), errors=issues)
    return query


def truth(query: Mapping[str, str], name: str) -> bool:
    """``true``, ``1``, ``yes``, ``on`` or their opposites; false where absent."""
    return query.get(name, "").lower() in TRUE


def number(query: Mapping[str, str], name: str) -> int | None:
    """None where absent."""
    return int(query[name]) if name in query else None


def _is_number(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most


def wrong_query(name: str, message: str) -> InvalidRequest:
    return InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, (name,))])
