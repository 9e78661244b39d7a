"""Checks the settings that an application fixes for future connections, when it creates the connect session.

The gateway checks these settings early, because an error at a later time would be shown only to the end user. Settings
that the end user enters later are allowed to be missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.auth.context import AuthContext, check_settings
from gateway.catalog.hosts import open_setting
from gateway.catalog.render import Unresolved, render_url
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import URL_FIELDS
from gateway.catalog.value import BadValue
from gateway.connections.settings import accepted_settings
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard
from gateway.errors import InvalidRequest, Issue
from gateway.origin import DEFAULT_PORTS

SETTING_PREFIX: Final = "connectionConfig."
PLACEHOLDER_VALUE: Final = "x"  # used for a missing value; "x" is valid everywhere in a URL except as a port
BROWSER_URL_FIELD: Final = "authorization_url"  # only browsers open this URL; the gateway sends no request to it


def check_fixed_settings(context: AuthContext, guard: Guard, settings: Mapping[str, Any], path: Sequence[str]) -> None:
    """Check the settings that an application fixes for a connect session, without regard to case in their names.

    `context`: the integration's context, without settings. `path`: the member of the request's body
    that contains the settings, for error messages.

    Raises InvalidRequest if a setting breaks the entry's rules, or is invalid in one of the entry's URLs. Also raises
    InvalidRequest if a setting names a host to which the integration or the gateway allows no requests.
    """
    config = accepted_settings(context.provider, settings, path)
    context = AuthContext(context.provider, context.integration, config, public_url=context.public_url)
    check_settings(context, path)
    for key in (*URL_FIELDS, "proxy.base_url"):
        _check_url(context, guard, key, path)


def _check_url(context: AuthContext, guard: Guard, key: str, path: Sequence[str]) -> None:
    provider, template = context.provider, context.template(key)
    names = {name for name in context.config if f"{SETTING_PREFIX}{name}" in placeholders(template)}
    if not names:
        return
    rules = {name: rule for name, rule in provider.connection_config.items() if name in names or rule.default_value}
    missing: tuple[str, ...] = ()
    try:
        try:
            url = render_url(template, context.config, rules)
        except Unresolved as fault:
            missing = fault.names
            placeholder_values = dict.fromkeys(missing, PLACEHOLDER_VALUE)
            settings = {name.removeprefix(SETTING_PREFIX): text for name, text in placeholder_values.items()}
            url = render_url(template, {**settings, **context.config}, rules, placeholder_values)
    except BadValue as fault:
        name = fault.name.removeprefix(SETTING_PREFIX)
        if name in names:
            raise _setting_error(path, name, f"The setting '{name}' cannot be used: {fault.why}.") from fault
        return
    setting = open_setting(provider, template)
    if missing or setting not in names or key == BROWSER_URL_FIELD:
        return
    parts = urlsplit(url)
    try:
        guard.check(parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme])  # type: ignore[arg-type]
    except EgressError as fault:
        raise _setting_error(path, setting, f"The setting '{setting}' cannot be used: {fault.message}") from fault


def _setting_error(path: Sequence[str], name: str, message: str) -> InvalidRequest:
    return InvalidRequest(
        "connection_validation_failed", message, errors=[Issue("invalid_format", message, (*path, name))]
    )
