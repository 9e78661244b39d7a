"""Reads JSON bodies and queries of API requests, and reports all faults together."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from gateway.documents.pydantic_messages import keys_at, pydantic_message
from gateway.errors import Code, InvalidRequest, Issue, joined_issues
from gateway.http.json_depth import MAX_LEVELS, nests_deeper
from gateway.http.strict_json import parse
from gateway.middleware.facts import CALLER, CONNECT_SESSION
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.records.connection import CONNECTION_ID, PROVIDER_CONFIG_KEY, id_fault
from gateway.text import counted, did_you_mean, printable, whole_number
from gateway.timestamps import parse_time_or_age

# ── Pydantic's errors, in the gateway's words.

# Pydantic's error type ▸ the code that Nango's published clients know.
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


# The unit or the form of a value that callers often get wrong, by pydantic's error type and the field.
_DETAILS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("int_type", "expires_in"): " of seconds",
        ("string_type", "expires_in"): ": a number and a unit, such as 2h",
        ("int_type", "rate"): ": the calls per minute",
    }
)


def pydantic_issues(fault: ValidationError, value: Any, model: type[BaseModel]) -> list[Issue]:
    """Return an issue for each error. The issue of the first unknown field suggests the closest field of `model`."""
    errors = fault.errors(include_url=False, include_input=False)
    issues = [pydantic_issue(error, value) for error in errors]
    for index, error in enumerate(errors):
        if error["type"] == "extra_forbidden":
            *parent_path, name = error["loc"]
            hint = _hint(str(name), keys_at(model, parent_path), "fields")
            issues[index] = replace(issues[index], message=issues[index].message.removesuffix(".") + hint)
            break
    return issues


def _hint(name: str, known_names: Sequence[str], kind: str) -> str:
    """Return the end of a message about the unknown `name`.

    The text names the most similar known name, all known names if they are few, or the page that lists them. `kind`:
    what the known names name, such as ``fields``.
    """
    if suggestion := did_you_mean(name, known_names):
        return suggestion
    if not known_names:
        return "."
    return (
        f"; the {kind} are {', '.join(known_names)}."
        if len(known_names) <= MAX_LISTED
        else f"; GET /docs lists the {kind}."
    )


def pydantic_issue(error: ErrorDetails, value: Any = None) -> Issue:
    """Return pydantic's error as an Issue. The message does not contain the value, which may be a secret, but shows the
    wrong character of an invalid id."""
    path = tuple(str(step) for step in _existing_steps(value, error["loc"]))
    if error["type"].startswith("union_tag_"):
        path = (*path, "type")
    return Issue(CODES.get(error["type"], "invalid_type"), _issue_text(error, path, value), path)


def _existing_steps(value: Any, steps: Sequence[Any]) -> Iterator[Any]:
    """Yield the steps of an error's path that exist in `value`. Pydantic's paths also contain the union variants that
    pydantic tried."""
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


def _issue_text(error: ErrorDetails, path: Sequence[str], value: Any) -> str:
    if not path and error["type"] != "value_error":
        return "The body must be a JSON object."
    if error["type"] == "extra_forbidden":
        return f"'{path[-1][:64]}' is not a field here."
    location, pattern = ".".join(path), error.get("ctx", {}).get("pattern")
    if error["type"] == "string_pattern_mismatch" and pattern in (CONNECTION_ID, PROVIDER_CONFIG_KEY):
        for step in path:
            value = value[int(step)] if isinstance(value, list) else value[step]
        return f"{location} {id_fault(str(value), pattern)}."
    message = pydantic_message(error, "json") + _DETAILS.get((error["type"], path[-1] if path else ""), "")
    if error["type"] == "value_error":
        return f"{location}: {message}." if location else f"{message}."
    return f"{location} {message}."


Model = TypeVar("Model", bound=BaseModel)

TRUE_WORDS: Final = frozenset({"true", "1", "yes", "on"})
FALSE_WORDS: Final = frozenset({"false", "0", "no", "off", ""})
MAX_FAULTS: Final = 1000
MAX_LISTED: Final = 10  # a message lists the valid names only if they are so few
NO_CHOICES: Final[Mapping[str, Collection[str]]] = MappingProxyType({})
NO_NUMBERS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


class Strict(BaseModel):
    """The base class of request bodies. Unknown members are refused, and a number is not accepted in place of a
    text."""

    # With `defer_build`, pydantic builds each model when its first body arrives. A worker that never gets a connect
    # request saves half a megabyte.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


async def read_json(request: web.Request, model: type[Model]) -> Model:
    """Return the body as `model`. Raises InvalidRequest ``invalid_json`` or ``invalid_body``."""
    raw = await request.read()
    if len(raw) <= INLINE_BYTES:
        return validated(parse_body(raw), model, "invalid_body")
    return await off_loop(fairness_key(request), lambda: validated(parse_body(raw), model, "invalid_body"))


async def read_any_json(request: web.Request) -> Any:
    """Return the body's JSON. Raises InvalidRequest ``invalid_json``, and ``invalid_body`` if a member nests too
    deep."""
    raw = await request.read()
    return parse_body(raw) if len(raw) <= INLINE_BYTES else await off_loop(fairness_key(request), parse_body, raw)


def parse_body(raw: bytes) -> Any:
    """Parse a body. Raises InvalidRequest ``invalid_json``, and ``invalid_body`` if a member nests too deep."""
    value = parse(raw)
    check_levels(value)
    return value


def check_levels(value: Any) -> None:
    """Raise InvalidRequest, with an issue for each member of `value` that nests more than `MAX_LEVELS` deep. If
    `value` is not an object, the issue is about the whole body."""
    if not nests_deeper(value, MAX_LEVELS):
        return
    members = value.items() if isinstance(value, dict) else [("", value)]
    deep_names = [name for name, inner in members if nests_deeper(inner, MAX_LEVELS)][:MAX_FAULTS]
    issues = [
        Issue(
            "custom",
            f"{name[:64] or 'The body'} nests deeper than {MAX_LEVELS} levels of objects and arrays.",
            (name,) if name else (),
        )
        for name in deep_names
    ]
    if issues:
        raise InvalidRequest("invalid_body", joined_issues(issues), errors=issues)


def fairness_key(request: web.Request) -> str:
    """Return the key by which `off_loop` shares its thread fairly: the caller's key, the connect session or the
    client's IP address.

    Work with the same fairness key runs in order. Work with different fairness keys takes turns, so that a caller with
    much work delays only itself.
    """
    if CALLER in request:
        return request[CALLER].share
    return request[CONNECT_SESSION].digest if CONNECT_SESSION in request else request.remote or ""


def validated(value: Any, model: type[Model], code: Code) -> Model:
    """Return `value` as `model`. Raises InvalidRequest with one issue for each fault."""
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        check_fault_count(fault, code)
        issues = pydantic_issues(fault, value, model)
        raise InvalidRequest(code, joined_issues(issues), errors=issues) from None


def check_fault_count(fault: ValidationError, code: Code) -> None:
    """Raise InvalidRequest if the body has more than `MAX_FAULTS` faults, because naming each fault would take
    seconds."""
    if fault.error_count() > MAX_FAULTS:
        message = f"The body has {counted(fault.error_count(), 'fault')}. Compare it with the API reference, GET /docs."
        raise InvalidRequest(code, message, errors=[Issue("custom", message)]) from None


def read_query(
    request: web.Request,
    allowed_names: Collection[str],
    *,
    nested: Collection[str] = (),
    booleans: Collection[str] = (),
    numbers: Mapping[str, tuple[int, int]] = NO_NUMBERS,
    repeatable: Mapping[str, Collection[str]] = NO_CHOICES,
) -> dict[str, str]:
    """Return the query as a dict. Raises InvalidRequest, with all faults, for unknown names and wrong values.

    `allowed_names`: names that may occur once. `booleans`: names with a value of true or false, for `query_boolean`.
    `numbers`: names with a whole number, for `query_number`; each name has its lowest and its highest allowed value.
    `repeatable`: names that may be repeated, with their allowed words; the result has the words separated by commas,
    without repetitions. `nested`: names with a key, such as ``name[key]``; they are accepted but not returned.
    """
    issues: list[Issue] = []
    query: dict[str, str] = {}
    has_hint = False
    for name, value in request.query.items():
        text = value
        if name.partition("[")[0] in nested and name.endswith("]"):
            continue
        if name in repeatable:
            words = [word.strip() for word in text.split(",")]
            if (unknown_word := next((word for word in words if word not in repeatable[name]), None)) is not None:
                message = f"'{name}' may be {_joined_by_or(repeatable[name])}, not {unknown_word[:64]!r}."
                issues.append(Issue("custom", message, (name,)))
            text = ",".join(dict.fromkeys([*query.get(name, "").split(","), *words])).strip(",")
        elif name in nested:
            issues.append(Issue("invalid_type", f"'{name}' needs a key, as in {name}[<key>]=<value>.", (name,)))
        elif name not in allowed_names:
            known_names = () if has_hint else (*allowed_names, *repeatable, *nested)
            hint, has_hint = _hint(name, known_names, "parameters"), True
            message = f"'{name[:64]}' is not a parameter of this endpoint{hint}"
            issues.append(Issue("unrecognized_keys", message, (name,)))
        elif name in query:
            issues.append(Issue("custom", f"'{name}' was given twice.", (name,)))
        elif name in booleans and text.lower() not in TRUE_WORDS | FALSE_WORDS:
            issues.append(Issue("custom", f"'{name}' must be true or false.", (name,)))
        elif name in numbers and not _is_number(text, *numbers[name]):
            minimum, maximum = numbers[name]
            issues.append(Issue("custom", f"'{name}' must be a whole number from {minimum} to {maximum}.", (name,)))
        query[name] = text
    if issues:
        raise InvalidRequest("invalid_query_params", joined_issues(issues), errors=issues)
    return query


def require_empty_body(request: web.Request) -> None:
    """Raise InvalidRequest if the request has a body other than ``{}`` (docs/compatibility.md#errors)."""
    if request.body_exists and (request._read_bytes or b"").strip() not in (b"", b"{}"):  # `json_only` read the body
        message = "This call has no body; send none."
        raise InvalidRequest("invalid_body", message, errors=[Issue("unrecognized_keys", message)])


def _joined_by_or(names: Collection[str]) -> str:
    return " or ".join(f"'{word}'" for word in names)


def query_boolean(query: Mapping[str, str], name: str) -> bool:
    """Return whether the parameter `name` is ``true``, ``1``, ``yes`` or ``on``. Return False if the parameter is
    absent."""
    return query.get(name, "").lower() in TRUE_WORDS


def query_number(query: Mapping[str, str], name: str) -> int | None:
    """Return the number in the parameter `name`, or None if the parameter is absent."""
    return int(query[name]) if name in query else None


def _is_number(text: str, minimum: int, maximum: int) -> bool:
    number = whole_number(text, 11)
    return number is not None and minimum <= number <= maximum


def wrong_query(name: str, message: str) -> InvalidRequest:
    return InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, (name,))])


def query_time(query: Mapping[str, str], name: str, now: datetime) -> datetime | None:
    """Return the time in the parameter `name`, or None if the parameter is absent. Raises InvalidRequest."""
    if name not in query:
        return None
    time = parse_time_or_age(query[name].replace(" ", "+"), now)
    if time is None:
        message = f"'{name}' must be a time in ISO 8601, or a duration before now such as 30m, 2h or 3d"
        raise wrong_query(name, f"{message}, not '{printable(query[name][:64])}'.")
    return time
