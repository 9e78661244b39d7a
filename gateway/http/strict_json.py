"""Parses JSON strictly: refuses text that two parsers could read differently, and values that cannot be stored."""

import json
from collections.abc import Iterable
from math import isinf
from typing import Any, NoReturn

from gateway.errors import InvalidRequest


def parse(raw: bytes) -> Any:
    """Parse a JSON text (RFC 8259) in UTF-8.

    Raises InvalidRequest ``invalid_json`` for invalid JSON, for duplicate names in an object, for NaN or infinite
    numbers, and for lone surrogates.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise _json_error(f"is not UTF-8 (byte {fault.start + 1})") from None
    if not text.strip():
        raise _json_error("is empty; send a JSON object")
    try:
        value = json.loads(
            text, object_pairs_hook=_object_from_pairs, parse_constant=_refuse_constant, parse_float=_finite_number
        )
    except json.JSONDecodeError as fault:
        raise _json_error(f"is not JSON (line {fault.lineno}, column {fault.colno})") from None
    except RecursionError:
        raise _json_error("is nested too deep") from None
    except ValueError:
        raise _json_error("contains a whole number of too many digits") from None
    if "\\u" in text and not _is_unicode(value):
        raise _json_error(r"contains half a surrogate pair (\ud800 to \udfff), which is not a character")
    return value


def _object_from_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _json_error(f"has the duplicate key {name[:64]!r} in one object")
        members[name] = value
    return members


def _refuse_constant(constant: str) -> NoReturn:
    raise _json_error(f"contains {constant}, which is not JSON")


def _finite_number(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _json_error("contains a number that is too large")
    return number


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except RecursionError:
        raise _json_error("is nested too deep") from None
    return True


def _json_error(fault: str) -> InvalidRequest:
    return InvalidRequest("invalid_json", f"The body {fault}.")
