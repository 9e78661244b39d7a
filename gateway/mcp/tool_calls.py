"""Builds the request of a tool call from its arguments. No I/O.

``/proxy`` checks the outgoing bytes against the key's rules later.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from gateway.access.key_rule import WEBSOCKET, KeyRule
from gateway.http.compact_json import compact_json
from gateway.mcp.rule_tools import RuleTool
from gateway.mcp.tool_list import BODILESS

MAX_TARGET_CHARS: Final = 8190  # maximum length, which is the same as for a request line
DEFAULT_MAX_BYTES: Final = 20_000
MAX_BYTES: Final = 1 << 20
MAX_SELECT_CHARS: Final = 512
MAX_LABEL_CHARS: Final = 100
MAX_CHECKED_CHARS: Final = 65_536  # maximum length of a text body that is checked for encoded JSON
_METHOD: Final = re.compile(r"[A-Z]{1,16}(?:-[A-Z]{1,16})?")
_TARGET: Final = re.compile(r"(?:[/?][!\"$-\[\]-~]*)?")
_LOST_SPACE: Final = re.compile(r"^\s|\s$|\s/|/\s")  # white space that would be lost in a header field
_PATH_SAFE: Final = "!$&'()*+,:=@"  # RFC 3986 §3.3, without ``;``, which some servers split at
_COMMON_ARGUMENTS: Final = frozenset({"connection", "max_bytes", "method", "query", "select"})
_COMMON_ARGUMENTS_WITH_BODY: Final = _COMMON_ARGUMENTS | {"body", "body_as"}
_API_ARGUMENTS: Final = _COMMON_ARGUMENTS_WITH_BODY | {"path"}
# The GraphQL document is the member `query` of `body`.
_GRAPHQL_ARGUMENTS: Final = _COMMON_ARGUMENTS_WITH_BODY - {"query", "body_as"}
_OPTION_ARGUMENTS: Final = _COMMON_ARGUMENTS | {"body_as", "cursor"}


class InvalidArguments(Exception):
    """The arguments do not form a valid request. The text names the argument, the reason and the fix."""


class UnknownArgument(InvalidArguments):
    """The tool does not have the argument.

    `ToolRun` adds the valid arguments to the text, because they depend on the key.
    """


@dataclass(slots=True)
class ToolCall:
    """A request to a provider, and how to shorten the response.

    - `target`: the path and query below the provider's base URL
    - `connection`: the connection that the caller named; None if it named none
    - `integrations`: the integrations that the call can use; None means all
    - `select`: a JMESPath expression for the response; None selects all
    - `max_bytes`: the maximum size of the result in bytes
    - `cursor`: the cursor that came with the previous page of a list; None for the first page
    """

    method: str
    target: str
    body: bytes | None
    content_type: str | None
    connection: str | None
    integrations: tuple[str, ...] | None
    select: str | None
    max_bytes: int
    cursor: str | None = None


def call_of_rule(tool: RuleTool, arguments: Mapping[str, Any]) -> ToolCall:
    """Return the call that the arguments of a rule's tool describe. Raises InvalidArguments."""
    accepted = _COMMON_ARGUMENTS if BODILESS.issuperset(tool.methods) else _COMMON_ARGUMENTS_WITH_BODY
    if isinstance(tool.rule, KeyRule) and tool.rule.body is not None:
        accepted = _GRAPHQL_ARGUMENTS
    _refuse_unknown_arguments(arguments.keys() - tool.own_argument_names, accepted)
    method = arguments.get("method", tool.methods[0] if len(tool.methods) == 1 else None)
    if method not in tool.methods:
        raise InvalidArguments(f"'method' must be one of {', '.join(tool.methods)}.")
    path = tool.fixed_path
    if path is None:
        path = "".join(
            [
                part
                if isinstance(part, str)
                else _fill_argument(part.name, arguments.get(part.name), part.may_have_slash, part.optional)
                for part in tool.path
            ]
        )
    return _call(str(method), path, arguments, tool.integrations)


def call_of_api(arguments: Mapping[str, Any]) -> ToolCall:
    """Return the call that the arguments of `call_api` describe. Raises InvalidArguments."""
    _refuse_unknown_arguments(arguments.keys(), _API_ARGUMENTS)
    method, path = arguments.get("method"), arguments.get("path")
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise InvalidArguments("'method' must be a method in capitals, such as GET.")
    if method == WEBSOCKET:  # in rules, an upgrade and not a method
        raise InvalidArguments("A tool cannot open a WebSocket.")
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidArguments("'path' must begin with '/': the path below the provider's base URL.")
    return _call(method, path, arguments, None)


def _refuse_unknown_arguments(names: AbstractSet[str], accepted: AbstractSet[str]) -> None:
    if unknown := names - accepted:
        raise UnknownArgument(f"Unknown argument '{min(unknown)[:64]}'.")


def _fill_argument(name: str, value: Any, may_have_slash: bool, optional: bool) -> str:
    if value is None and optional:
        return ""
    if value is None:
        raise InvalidArguments(f"Argument '{name}' is missing.")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidArguments(f"'{name}' must be text or a whole number.")
    text = str(value)
    if not text and not optional:
        raise InvalidArguments(f"'{name}' must not be empty.")
    if not may_have_slash and "/" in text:
        raise InvalidArguments(f"'{name}' is one segment of the path, so it cannot hold '/'.")
    return quote(text, safe=_PATH_SAFE + ("/" if may_have_slash else ""))


def _call(method: str, path: str, arguments: Mapping[str, Any], integrations: tuple[str, ...] | None) -> ToolCall:
    if arguments.keys().isdisjoint(_OPTION_ARGUMENTS):  # the usual call
        target = _checked_target(path)
        body, content_type = _json_body(arguments.get("body"))
        return ToolCall(method, target, body, content_type, None, integrations, None, DEFAULT_MAX_BYTES)
    query = _query(arguments.get("query"))
    target = _checked_target(path + ("&" if "?" in path else "?") + query if query else path)
    body, content_type = _body(arguments)
    connection, select = arguments.get("connection"), arguments.get("select")
    if connection is not None and not isinstance(connection, str):
        raise InvalidArguments("'connection' must be text: INTEGRATION/CONNECTION.")
    if select is not None and (not isinstance(select, str) or len(select) > MAX_SELECT_CHARS):
        raise InvalidArguments(f"'select' must be a JMESPath expression of at most {MAX_SELECT_CHARS} characters.")
    max_bytes = arguments.get("max_bytes", DEFAULT_MAX_BYTES)
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or not 100 <= max_bytes <= MAX_BYTES:
        raise InvalidArguments(f"'max_bytes' must be a whole number from 100 to {MAX_BYTES}.")
    cursor = arguments.get("cursor") or None
    if cursor is not None and not isinstance(cursor, str):
        raise InvalidArguments("'cursor' must be text, as returned with the previous page.")
    return ToolCall(method, target, body, content_type, connection, integrations, select or None, max_bytes, cursor)


def _checked_target(target: str) -> str:
    if not _TARGET.fullmatch(target) or len(target) > MAX_TARGET_CHARS:
        raise InvalidArguments(
            f"The path must have at most {MAX_TARGET_CHARS} visible ASCII characters, without '#' and '\\'. "
            "Percent-encode others."
        )
    return target


def _query(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise InvalidArguments("'query' must be an object of names and values.")
    pairs, size = [], 0
    for pair in _pairs(value):
        size += len(pair)
        if size > MAX_TARGET_CHARS:
            raise InvalidArguments(f"'query' has more than {MAX_TARGET_CHARS} characters. Send fewer, or send a body.")
        pairs.append(pair)
    return "&".join(pairs)


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        encoded_name = quote(name, safe="[]")
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            if isinstance(item, (dict, list)):
                fix = (
                    f" Send a nested member as '{name[:64]}[{next(iter(item))[:64]}]'."
                    if isinstance(item, dict) and item
                    else ""
                )
                raise InvalidArguments(f"'{name[:64]}' must be text, a number, true or false, or a list of these.{fix}")
            text = item if isinstance(item, str) else json.dumps(item)
            yield f"{encoded_name}={text if text.isascii() and text.isalnum() else quote(text, safe='')}"


def _body(arguments: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    body, body_as = arguments.get("body"), arguments.get("body_as", "json")
    if body_as not in ("json", "form"):
        raise InvalidArguments("'body_as' must be json or form.")
    if body is None or body_as == "json":
        return _json_body(body)
    _refuse_encoded_json(body)
    if not isinstance(body, dict):
        raise InvalidArguments("A form's 'body' must be an object of names and values.")
    return "&".join(_pairs(body)).encode(), "application/x-www-form-urlencoded"


def _json_body(body: Any) -> tuple[bytes | None, str | None]:
    if body is None:
        return None, None
    _refuse_encoded_json(body)
    return compact_json(body), "application/json"


def _refuse_encoded_json(body: Any) -> None:
    if isinstance(body, str) and _is_encoded_json(body):
        raise InvalidArguments("'body' must be JSON, not JSON encoded as text.")


def _is_encoded_json(text: str) -> bool:
    """Return whether the text is a JSON object or array, which a model encoded by mistake.

    Longer text is not checked, because reading it would take too long: return False above `MAX_CHECKED_CHARS`.
    """
    if len(text) > MAX_CHECKED_CHARS or not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def chosen_connection(call: ToolCall, candidates: Mapping[str, str] | None) -> str:
    """Return the connection of a call, ``INTEGRATION/CONNECTION``.

    `candidates`: the connections that the key can use, each with a label of the account; None if unknown. If the call
    names no connection, exactly one must be possible, because the gateway never guesses. Otherwise, or if the named
    connection is malformed, raises InvalidArguments.
    """
    connections = [
        name for name in candidates or () if call.integrations is None or name.partition("/")[0] in call.integrations
    ]
    if call.connection is not None:
        integration, separator, connection = call.connection.partition("/")
        if not separator or not integration or not connection or _LOST_SPACE.search(call.connection):
            raise InvalidArguments(
                f"'connection' must be INTEGRATION/CONNECTION. {_choice_sentence(connections, candidates)}".rstrip()
            )
        return call.connection
    if len(connections) == 1:
        return connections[0]
    if connections:
        raise InvalidArguments(_choice_sentence(connections, candidates))
    if candidates is None:
        raise InvalidArguments(
            "Set 'connection' to INTEGRATION/CONNECTION. This key names none, and may not list them: that needs the "
            "scope environment:connections:list."
        )
    raise InvalidArguments(
        "This key has no connection for this call. Ask the user to connect an account, then call again."
    )


def _choice_sentence(connections: Sequence[str], candidates: Mapping[str, str] | None) -> str:
    """Return the sentence that names the connections, each with its label; empty if there are none."""
    labeled = [
        f"{name} ({candidates[name][:MAX_LABEL_CHARS]})" if candidates and candidates[name] else name
        for name in connections[:50]
    ]
    return f"Set 'connection' to one of {', '.join(labeled)}." if labeled else ""
