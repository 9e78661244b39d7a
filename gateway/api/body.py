"""Reads what callers send to our own API: JSON bodies and queries, every fault named at once (api-contract 0.2)."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.api.json_text import parse
from gateway.api.sentences import issue
from gateway.errors import Code, InvalidRequest, Issue, told_together
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.wording import counted

Model = TypeVar("Model", bound=BaseModel)

TRUE: Final = frozenset({"true", "1", "yes", "on"})
FALSE: Final = frozenset({"false", "0", "no", "off", ""})
MOST_FAULTS: Final = 1000
NO_CHOICES: Final[Mapping[str, Collection[str]]] = MappingProxyType({})
NO_NUMBERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


class Strict(BaseModel):
    """A request body: unknown members are refused, and a number is not taken for a text."""

    # Built with the first body of its kind: a worker that is never asked to connect anybody holds half a megabyte less.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


async def read_json(request: web.Request, model: type[Model]) -> Model:
    """The body as `model`. Raises InvalidRequest ``invalid_json`` or ``invalid_body``."""
    raw = await request.read()
    if len(raw) <= INLINE_BYTES:
        return checked(parse(raw), model, "invalid_body")
    return await off_loop(lambda: checked(parse(raw), model, "invalid_body"))


async def parsed(request: web.Request) -> Any:
    """The body's JSON. Raises InvalidRequest ``invalid_json``."""
    raw = await request.read()
    return parse(raw) if len(raw) <= INLINE_BYTES else await off_loop(parse, raw)


def checked(value: Any, model: type[Model], code: Code) -> Model:
    """`value` as `model`. Raises InvalidRequest with one issue a fault."""
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        check_count(fault, code)
        issues = [issue(one, value) for one in fault.errors(include_url=False, include_input=False)]
        raise InvalidRequest(code, told_together(issues), errors=issues) from None


def check_count(fault: ValidationError, code: Code) -> None:
    """Raises InvalidRequest where there are too many faults to name each: that alone would take seconds."""
    if fault.error_count() > MOST_FAULTS:
        message = f"The body has {counted(fault.error_count(), 'fault')}. Check its form against the API reference."
        raise InvalidRequest(code, message, errors=[Issue("custom", message)]) from None


def query_of(
    request: web.Request,
    allowed: Collection[str],
    *,
    nested: Collection[str] = (),
    truths: Collection[str] = (),
    numbers: Mapping[str, tuple[int, int]] = NO_NUMBERS,
    many: Mapping[str, Collection[str]] = NO_CHOICES,
) -> dict[str, str]:
    """The query, each name once; `truth` and `number` read those of `truths` and `numbers` (least, most) in it.

    `many`: names that may be repeated, with the words they may hold; given back joined by commas, each word once.
    Raises InvalidRequest for names that are neither `allowed` nor ``nested[…]``, and for wrong values, all at once.
    """
    issues: list[Issue] = []
    query: dict[str, str] = {}
    for name, given in request.query.items():
        text = given
        if name.partition("[")[0] in nested and name.endswith("]"):
            continue
        if name in many:
            words = [word.strip() for word in text.split(",")]
            if not set(words) <= set(many[name]):
                issues.append(Issue("custom", f"'{name}' may be {_either(many[name])}.", (name,)))
            text = ",".join(dict.fromkeys([*query.get(name, "").split(","), *words])).strip(",")
        elif name not in allowed:
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


def empty_body(request: web.Request) -> None:
    """Raises InvalidRequest where a call that takes no body brings one (api-contract 0.2)."""
    if request.body_exists and (request._read_bytes or b"").strip() not in (b"", b"{}"):  # `json_only` has read it
        message = "This call takes no body; send none."
        raise InvalidRequest("invalid_body", message, errors=[Issue("unrecognized_keys", message)])


def _either(words: Collection[str]) -> str:
    return " or ".join(f"'{word}'" for word in words)


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
