"""The next step for a connection that is missing or must be authorized again: one sentence for API errors, events and the CLI.

A message says how to create a link; `with_link` puts the link itself in its place, since SDKs show the message alone.
"""

from typing import Final

from gateway.access.scopes import CONNECT as SCOPE

RECONNECT: Final = "create a link with POST /connect/sessions/reconnect and let the end user authorize again"
"""For a connection that exists: it keeps its id, its end user and its settings."""
CONNECT: Final = "create a link with POST /connect/sessions and let the end user connect"
"""For an id that does not exist. What is connected under such a link gets an id of its own."""


def sentence(step: str) -> str:
    return f"{_capital(step)}."


def with_link(message: str, url: str) -> str:
    """`message`, telling its reader to open `url`."""
    return _instead(_instead(message, RECONNECT, f"open {url} to authorize again"), CONNECT, f"open {url} to connect")


def bound(message: str) -> str:
    """`message` where a link must be bound to the application's own user."""
    return _instead(_instead(message, RECONNECT, with_challenge(RECONNECT)), CONNECT, with_challenge(CONNECT))


def with_challenge(step: str) -> str:
    method, _, then = step.partition(" and let ")
    return f"{method} and a code_challenge, let {then}, and complete the session"


def without_scope(message: str) -> str:
    """`message` for a key that may not create that link."""
    return _instead(_instead(message, RECONNECT, with_scope(RECONNECT)), CONNECT, with_scope(CONNECT))


def with_scope(step: str) -> str:
    method, _, then = step.partition(" and let ")
    return f"{method} (needs a key with the scope {SCOPE}) and let {then}"


def _instead(message: str, step: str, other: str) -> str:
    for spelled in (str, _capital):
        message = message.replace(spelled(step), spelled(other))
    return message


def _capital(step: str) -> str:
    return f"{step[:1].upper()}{step[1:]}"
