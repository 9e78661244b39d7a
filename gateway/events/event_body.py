"""Builds the bodies of events as UTF-8 JSON with sorted keys. The bodies have the members of Nango's events and, in
addition, `event` and `timestamp` (docs/compatibility.md#events)."""

import base64
import json
from collections.abc import Mapping
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # the type stubs do not have it
from typing import Any, Final

from gateway.events.signatures import SIGNATURE_HEADERS
from gateway.http.headers import normalized_name
from gateway.records.event import FORWARD, Delivery, EventContent

SENDER: Final = "nango"  # Nango's published clients check for this value
NO_AUTH_MODE: Final = "unknown"  # Nango's published types declare this value and require the member
JSON: Final = "application/json"

# Header fields of each forwarded webhook, which name the integration that received the webhook.
ENVIRONMENT: Final = "gateway-environment"
INTEGRATION: Final = "gateway-integration"
PROVIDER: Final = "gateway-provider"

_DROPPED_PREFIXES: Final = (
    *(
        "host",
        "authorization",
        "connection",
        "keep-alive",
        "content-length",
        "content-type",
        "content-encoding",
        "cookie",
    ),
    *(
        "set-cookie",
        "referer",
        "user-agent",
        "sec-",
        "proxy-",
        "www-authenticate",
        "server",
        "gateway-",
        "x-forwarded-",
    ),
)
"""Beginnings of names of header fields that are not forwarded: the names that Nango's contract excludes, and the
gateway's own names."""
_HOP_BY_HOP: Final = frozenset(
    {"transfer-encoding", "te", "trailer", "upgrade", "expect", "forwarded", "x-real-ip", "via", "accept-encoding"}
)


MAX_WHOLE: Final = 2**53  # above it, JavaScript cannot represent every whole number


def _parse_float(text: str) -> int | float:
    """Return a whole number as an integer, because JSON.stringify writes ``5.0`` as ``5``."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < MAX_WHOLE else number


class _PurePythonDecoder(json.JSONDecoder):
    """Parses JSON like `json.loads`, but in Python code, so that other threads can run meanwhile. The C code of
    `json.loads` blocks other threads until it has parsed the whole text."""

    def __init__(self) -> None:
        super().__init__(parse_float=_parse_float)
        self.scan_once = py_make_scanner(self)


MAX_FIELDS: Final = 10_000
MAX_C_PARSE_BYTES: Final = 1 << 20
PYTHON_DECODER: Final = _PurePythonDecoder()
WRITER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def webhook_size(content: EventContent) -> int:
    """Return the rough size of a forwarded webhook in bytes; 0 for the gateway's own events."""
    return len(content.received["body"]) if content.event == FORWARD else 0


def build_message(delivery: Delivery, content: EventContent, auth_mode: str | None) -> tuple[bytes, dict[str, str]]:
    """Return the body and the header fields of a delivery, without signatures. `auth_mode`: auth mode of the provider's
    entry; None: the provider has no entry."""
    if content.event != FORWARD:
        return _dump_json(_connection_event(delivery, content, auth_mode)), {"content-type": JSON}
    received_body = base64.b64decode(content.received["body"])
    fields = {name.lower(): value for name, value in content.received["headers"]}
    forwarded_fields = {name: value for name, value in fields.items() if is_forwarded(name)} | {
        ENVIRONMENT: content.environment,
        INTEGRATION: content.integration_id,
        PROVIDER: content.provider,
    }
    content_type = fields.get("content-type", "")
    if delivery.connection_id is None:
        coding = {name: value for name, value in fields.items() if name == "content-encoding"}
        return received_body, {**forwarded_fields, **coding, "content-type": content_type or JSON}
    message_fields = {
        "from": content.provider,
        "type": FORWARD,
        "connectionId": delivery.connection_id,
        "providerConfigKey": content.integration_id,
        "payload": _payload(received_body, content_type),
    }
    try:
        body = _dump_json(message_fields, in_python=len(received_body) > MAX_C_PARSE_BYTES)
    except (ValueError, RecursionError):  # the value has NaN or an infinite number, or nests too deep
        body = _dump_json(message_fields | {"payload": received_body.decode("utf-8", "replace")})
    return body, {**forwarded_fields, "content-type": JSON}


def is_forwarded(name: str) -> bool:
    """Return whether a header field of a provider's webhook is forwarded. Upper case and underscores in the name make
    no difference (`normalized_name`)."""
    name = normalized_name(name)
    return name not in SIGNATURE_HEADERS and name not in _HOP_BY_HOP and not name.startswith(_DROPPED_PREFIXES)


def _connection_event(delivery: Delivery, content: EventContent, auth_mode: str | None) -> dict[str, Any]:
    facts = content.facts
    body = {
        "from": SENDER,
        "type": "auth",
        "event": content.event,
        "timestamp": content.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "connectionId": delivery.connection_id,
        "providerConfigKey": content.integration_id,
        "provider": content.provider,
        "authMode": auth_mode or NO_AUTH_MODE,
        "environment": content.environment,
        "operation": facts["operation"],
        "success": facts["success"],
        "error": facts.get("error"),
        "warning": facts.get("warning"),
        "tags": facts.get("tags"),
        "endUser": _end_user(facts.get("end_user")),
        "diesAt": facts.get("dies_at"),
    }
    return {name: value for name, value in body.items() if value is not None}


def _end_user(stored_end_user: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not stored_end_user:
        return None
    body = {
        "endUserId": stored_end_user["id"],
        "endUserEmail": stored_end_user.get("email"),
        "organizationId": stored_end_user.get("organization_id"),
        "tags": stored_end_user.get("tags") or {},
    }
    return {name: value for name, value in body.items() if value is not None}


def _payload(body: bytes, content_type: str) -> Any:
    """Convert the body of a webhook: return JSON as a value, a form as an object, anything else as text."""
    text = body.decode("utf-8", "replace")
    if content_type.startswith("application/x-www-form-urlencoded"):
        from urllib.parse import parse_qsl

        try:
            return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError:
            return text
    try:
        return (
            json.loads(text, parse_float=_parse_float)
            if len(body) <= MAX_C_PARSE_BYTES
            else PYTHON_DECODER.decode(text)
        )
    except (ValueError, RecursionError):
        return text


def _dump_json(value: Any, *, in_python: bool = False) -> bytes:
    """Serialize like JavaScript's JSON.stringify, so that a client that parses and serializes the body gets the same
    text again."""
    try:
        # `iterencode` is written in Python, so other threads can run.
        return "".join(WRITER.iterencode(value)).encode() if in_python else WRITER.encode(value).encode()
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
