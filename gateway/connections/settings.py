"""The settings of a connection: checked against the entry's forms when they are given, again when they are used."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Setting
from gateway.catalog.value import BadValue, check_value
from gateway.errors import InvalidRequest, Issue, joined_issues
from gateway.text import close_matches

MOST_SETTINGS: Final = 250


def accepted(provider: Provider, given: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """`given` under the entry's own spelling of the names, empty texts left out. Raises InvalidRequest with every fault.

    Settings that the entry does not know are kept, since scripts and proxied paths may want them; but not one that is
    nearly the name of a known one, since a mistyped `subdomain` would connect another site in silence.
    """
    if len(given) > MOST_SETTINGS:
        message = f"A connection has at most {MOST_SETTINGS} settings, and {len(given)} were given."
        raise InvalidRequest("connection_validation_failed", message, errors=[Issue("too_big", message, tuple(path))])
    known = {
        name.casefold(): name for name in (*provider.connection_config, *(provider.connection_configuration or ()))
    }
    config = {known.get(name.casefold(), name): value for name, value in given.items() if value not in ("", None)}
    issues = [
        Issue("unrecognized_keys", f"There is no setting '{name}'; did you mean '{near}'?", (*path, name))
        for name in config
        if name.casefold() not in known and (near := _nearly(name, known.values()))
    ] + [
        Issue("invalid_format", fault, (*path, name))
        for name, value in config.items()
        if (fault := _fault(name, value, provider.connection_config.get(name)))
    ]
    if issues:
        raise InvalidRequest("connection_validation_failed", joined_issues(issues), errors=issues)
    return config


def _nearly(name: str, known: Iterable[str]) -> str | None:
    return next(iter(close_matches(name, known, 1, 0.75)), None)


def complete(provider: Provider, config: Mapping[str, Any], path: Sequence[str]) -> None:
    """Raises InvalidRequest naming every setting that the end user must give and did not."""
    missing = [
        Issue("invalid_type", f"The setting '{name}' ({setting.title}) is missing.", (*path, name))
        for name, setting in provider.connection_config.items()
        if not (setting.optional or setting.automated or setting.default_value is not None or config.get(name))
    ]
    if missing:
        raise InvalidRequest("connection_validation_failed", joined_issues(missing), errors=missing)


def by_browser(provider: Provider, config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` without what an end user may not choose: settings of the service's own, apart from the site's id."""
    own = {name for name, setting in provider.connection_config.items() if setting.automated} - {"cloudId"}
    return {name: value for name, value in config.items() if name not in own and name != "webhook_url"}


def parted(provider: Provider, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Separate the settings that may be stored and shown as they are from those that the entry calls secret."""
    secret = {name for name, setting in provider.connection_config.items() if setting.secret}
    plain = {name: value for name, value in config.items() if name not in secret}
    return plain, {name: str(value) for name, value in config.items() if name in secret}


def _fault(name: str, value: Any, setting: Setting | None) -> str | None:
    if setting is None:
        return None
    if not isinstance(value, str):
        return f"The setting '{name}' must be text."
    try:
        check_value(name, value, setting)
    except BadValue as fault:
        return f"The setting '{name}' {fault.why}."
    return None
