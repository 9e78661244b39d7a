"""Errors for the limits of a key. Each error names the rule, who can change the rule, and the next step."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.access.key_policy import Breach
from gateway.access.scopes import CONNECT as SCOPE
from gateway.errors import Forbidden, GatewayError, NotFound

CREATE_KEY: Final = "gateway keys create, or POST /environment/api-keys"
KEY_CREATORS: Final = "anyone who may create keys in this environment"


def rule_and_fix(rule: str, fix: str, changed_by: str = KEY_CREATORS) -> dict[str, Any]:
    """Return the payload members that name the rule that blocked a request, and how to change it."""
    return {"rule": rule, "changed_by": changed_by, "fix": fix}


def missing_scope_error(*scopes: str) -> Forbidden:
    """Return the error for a key that needs one of `scopes` and has none of them."""
    return Forbidden(
        "forbidden",
        f"Insufficient scope. Required: {scopes[0]}",
        payload={
            "required": list(scopes),
            **rule_and_fix("scope", f"Use a key with the scope {scopes[0]}: {CREATE_KEY}."),
        },
        headers={"WWW-Authenticate": f'Bearer realm="gateway", error="insufficient_scope", scope="{scopes[0]}"'},
    )


def field_scope_error(scope: str, field: str) -> Forbidden:
    """Return the error for a request that would be allowed without `field` in its body."""
    return Forbidden(
        "forbidden",
        f"This key may not set {field}. Leave it out, or use a key with the scope {scope}.",
        payload={
            "required": [scope],
            **rule_and_fix("scope", f"Leave {field} out, or use a key with the scope {scope}."),
        },
    )


def beyond_limits_error(reason: str) -> Forbidden:
    """Return the error for an action that a key with limits to integrations or connections is not allowed to do.

    `reason`: the end of a sentence that says why.
    """
    return Forbidden(
        "forbidden",
        f"This key is limited to some integrations or connections, and {reason}.",
        payload=rule_and_fix("limits", f"Use a key without such limits: {CREATE_KEY}."),
    )


def breach_error(breach: Breach, method: str, path: str, *, below_base: bool = False) -> Forbidden:
    """Return the error for a breach.

    `path`: the caller's path after ``/proxy``. `below_base`: whether the provider's base URL has a path. The error does
    not contain that path, because it can be secret.
    """
    broken_limit = breach.broken_limit
    rule, fix = "rules", f"Send a request that this key allows, or use a key that allows {method} {path}."
    if below_base:
        fix = (
            "Send a request that this key allows, or use a key that allows this request. Rules match the whole path sent to "
            "the provider, including the path of its base URL. Send the request with Gateway-Dry-Run: true and a key "
            "without rules to see that path."
        )
    if broken_limit == "rules":
        fix += " In a rule, * matches any characters except '/', and ** matches any characters."
    if broken_limit == "hosts":
        rule, fix = "hosts", "Leave Base-Url-Override out, or name an allowed host in it."
    elif broken_limit == "ambiguous_path":
        rule, fix = "plain_path", "Write the path in its plain form: no encoded delimiters, no ';', no empty segments."
    elif broken_limit == "body":
        rule, fix = (
            "body",
            "Send one of the tools, queries or mutations that the key's rules name, in one plain JSON message.",
        )
    elif broken_limit in ("method_override", "ambiguous_query"):
        rule, fix = broken_limit, "Send the request with its real method and path, without that header or parameter."
    payload: dict[str, Any] = rule_and_fix(rule, fix)
    if breach.allowed:
        payload["allowed"] = list(breach.allowed)
    location = " below the provider's base URL" if below_base else ""
    return Forbidden(
        "forbidden", f"This key does not allow {method} {path}{location}: {breach.reason}.", payload=payload
    )


def unread_body_error(reason: str = "The body of this kind of call cannot be read") -> Forbidden:
    """Return the error if a rule must read the request's body, but the body cannot be read.

    `reason`: a sentence without its period that says why.
    """
    return Forbidden(
        "forbidden",
        f"A rule of this key reads the body of the request. {reason}, so the request is refused.",
        payload=rule_and_fix("body", "Send the request as an ordinary POST to /proxy, without Gateway-Paginate."),
    )


def no_integration_error(environment: str, integration_id: str) -> NotFound:
    """Return the error for an integration that does not exist, or that a limited key is not allowed to use.

    A missing and a forbidden integration get the same error, so that a limited key does not learn whether the
    integration exists.
    """
    return NotFound(
        "unknown_provider_config",
        f"Environment '{environment}' has no integration '{integration_id}' that this key may use.",
        payload={
            "provider_config_key": integration_id,
            **rule_and_fix(
                "limits",
                f"Name an integration that this key may use, or use a key that may use this integration: {CREATE_KEY}.",
            ),
        },
    )


def no_connection_error(integration_id: str, connection_id: str) -> NotFound:
    """Return the error for a connection that does not exist, or that a limited key is not allowed to use.

    A missing and a forbidden connection get the same error, so that a limited key does not learn whether the connection
    exists.
    """
    return NotFound(
        "unknown_connection",
        f"Integration '{integration_id}' has no connection '{connection_id}' that this key may use.",
        payload={
            "provider_config_key": integration_id,
            "connection_id": connection_id,
            **rule_and_fix(
                "limits",
                f"Name a connection that this key may use, or use a key that may use this connection: {CREATE_KEY}.",
            ),
        },
    )


def with_payload(fault: GatewayError, payload: Mapping[str, Any], message: str | None = None) -> GatewayError:
    """Return a copy of `fault` with more payload and, if `message` is not None, with this message.

    The original stays unchanged, because several callers can share `fault`.
    """
    return type(fault)(
        fault.code,
        fault.message if message is None else message,
        errors=fault.errors,
        payload={**(fault.payload or {}), **payload},
        retry_after_s=fault.retry_after_s,
        headers=fault.headers,
        close=fault.close,
    )


# ── The next step for a connection that is missing or must be authorized again: one sentence for API errors, events
# and the CLI.
#
# Each message says how to create a link. `with_link` replaces this instruction with the link itself, because SDKs show
# only the message.

RECONNECT_STEP: Final = "create a link with POST /connect/sessions/reconnect and let the end user authorize again"
"""The next step for a connection that exists. The connection keeps its id, its end user and its settings."""
CONNECT_STEP: Final = "create a link with POST /connect/sessions and let the end user connect"
"""The next step for a connection id that does not exist. A connection created with the link gets a new id."""


def sentence(step: str) -> str:
    return f"{_capitalize(step)}."


def with_link(message: str, url: str) -> str:
    """Return `message` with the instruction to open `url` in place of the instruction to create a link."""
    return _replace_step(
        _replace_step(message, RECONNECT_STEP, f"open {url} to authorize again"), CONNECT_STEP, f"open {url} to connect"
    )


def with_code_challenge(message: str) -> str:
    """Return `message` for an environment whose links must be bound to a user of the application (`code_challenge`)."""
    return _replace_step(
        _replace_step(message, RECONNECT_STEP, with_challenge(RECONNECT_STEP)),
        CONNECT_STEP,
        with_challenge(CONNECT_STEP),
    )


def with_challenge(step: str) -> str:
    link_step, _, remainder = step.partition(" and let ")
    return f"{link_step} and a code_challenge, let {remainder}, and complete the session"


def without_scope(message: str) -> str:
    """Return `message` for a key without the scope to create the link."""
    return _replace_step(
        _replace_step(message, RECONNECT_STEP, with_scope(RECONNECT_STEP)), CONNECT_STEP, with_scope(CONNECT_STEP)
    )


def with_scope(step: str) -> str:
    link_step, _, remainder = step.partition(" and let ")
    return f"{link_step} (needs a key with the scope {SCOPE}) and let {remainder}"


def _replace_step(message: str, step: str, new_step: str) -> str:
    for change_case in (str, _capitalize):
        message = message.replace(change_case(step), change_case(new_step))
    return message


def _capitalize(step: str) -> str:
    return f"{step[:1].upper()}{step[1:]}"
