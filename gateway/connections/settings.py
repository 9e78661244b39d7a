"""The settings of a connection.

The gateway checks settings by the entry's rules when they are given, and again when they are used.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting
from gateway.catalog.template_places import known_settings
from gateway.catalog.value import BadValue, check_value
from gateway.errors import InvalidRequest, Issue, joined_issues
from gateway.text import close_matches

MAX_SETTINGS: Final = 250


def accepted_settings(provider: Provider, sent_settings: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return `sent_settings` with names in the entry's spelling, and without empty texts. Raises InvalidRequest with
    every error.

    Unknown settings are kept, because scripts and proxied paths can use them. An unknown name that is similar to a
    known name is refused, because a mistyped `subdomain` would silently connect another site.
    """
    if len(sent_settings) > MAX_SETTINGS:
        message = f"A connection has at most {MAX_SETTINGS} settings, and {len(sent_settings)} were given."
        raise InvalidRequest("connection_validation_failed", message, errors=[Issue("too_big", message, tuple(path))])
    known_names = {
        name.casefold(): name for name in (*provider.connection_config, *(provider.connection_configuration or ()))
    }
    config = {
        known_names.get(name.casefold(), name): value
        for name, value in sent_settings.items()
        if value not in ("", None)
    }
    issues = [
        Issue("unrecognized_keys", f"There is no setting '{name}'; did you mean '{similar}'?", (*path, name))
        for name in config
        if name.casefold() not in known_names and (similar := _similar_name(name, known_names.values()))
    ] + [
        Issue("invalid_format", fault, (*path, name))
        for name, value in config.items()
        if (fault := _value_fault(name, value, provider.connection_config.get(name)))
    ]
    if issues:
        raise InvalidRequest("connection_validation_failed", joined_issues(issues), errors=issues)
    return config


def _similar_name(name: str, known_names: Iterable[str]) -> str | None:
    return next(iter(close_matches(name, known_names, 1, 0.75)), None)


def check_required_settings(provider: Provider, config: Mapping[str, Any], path: Sequence[str]) -> None:
    """Raise InvalidRequest, which names every required setting that is missing."""
    missing = [
        Issue("invalid_type", f"The setting '{name}' ({setting.title}) is missing.", (*path, name))
        for name, setting in provider.connection_config.items()
        if not (setting.optional or setting.automated or setting.default_value is not None or config.get(name))
    ]
    if missing:
        raise InvalidRequest("connection_validation_failed", joined_issues(missing), errors=missing)


def without_protected_settings(provider: Provider, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` without the settings that an end user may not choose. The gateway itself sets some of them
    (`automated` in the entry, except the site's ID), and only the provider returns the others.

    Otherwise an end user could name another customer's account. For example, Stripe would then revoke the access of
    that account.
    """
    automated_names = {name for name, setting in provider.connection_config.items() if setting.automated} - {"cloudId"}
    returned_names = known_settings(provider) - {
        *provider.connection_config,
        *(provider.connection_configuration or ()),
    }
    return {
        name: value for name, value in config.items() if name not in automated_names | returned_names | {"webhook_url"}
    }


def split_secret_settings(provider: Provider, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the plain settings, which may be stored and shown unencrypted, and the entry's secret settings."""
    secret_names = {name for name, setting in provider.connection_config.items() if setting.secret}
    plain_settings = {name: value for name, value in config.items() if name not in secret_names}
    return plain_settings, {name: str(value) for name, value in config.items() if name in secret_names}


def _value_fault(name: str, value: Any, setting: Setting | None) -> str | None:
    if setting is None:
        return None
    if not isinstance(value, str):
        return f"The setting '{name}' must be text."
    try:
        check_value(name, value, setting)
    except BadValue as fault:
        return f"The setting '{name}' {fault.why}."
    return None
