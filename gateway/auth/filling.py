"""Templates of the entry, filled with one connection's settings: addresses, parameters, header fields."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.catalog.interpolate import (
    BadValue,
    Moment,
    Unresolved,
    placeholders,
    render_text,
    render_url,
    setting_values,
)
from gateway.catalog.provider import Provider
from gateway.catalog.value import flat_values
from gateway.errors import InvalidRequest
from gateway.oauth.client_auth import Client
from gateway.secret import Secret

NONE: Final[Mapping[str, str]] = {}
_GONE: Final = object()


def filled(provider: Provider, template: str, config: Mapping[str, Any], credential: Mapping[str, str] = NONE) -> str:
    """An address of the entry with this connection's settings in it. Raises InvalidRequest naming the setting."""
    try:
        return render_url(template, config, provider.connection_config, credential)
    except Unresolved as fault:
        names = ", ".join(sorted(fault.names))
        raise InvalidRequest(
            "unresolved_setting",
            f"Provider '{provider.name}' needs the connection's setting {names}. Connect again with it, "
            "or import the connection with it in connection_config.",
        ) from fault
    except BadValue as fault:
        raise InvalidRequest(
            "unresolved_setting", f"The connection's setting '{fault.name}' cannot be used: {fault.why}."
        ) from fault


def chosen(provider: Provider, key: str, template: str | None, config: Mapping[str, Any]) -> str | None:
    """`template`, or the first of the entry's `alternatives` for `key` whose settings were all given."""
    given = {f"connectionConfig.{name}" for name, text in flat_values(config).items() if text}
    forms = ((form, placeholders(form)) for form in provider.alternatives.get(key, ()))
    return next((form for form, needed in forms if needed and needed <= given), template)


def values(
    provider: Provider, client: Client | None, config: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> dict[str, Secret]:
    """What templates outside addresses may name, apart from the credential; settings with their defaults."""
    known = {name: Secret(text) for name, text in setting_values(config, provider.connection_config).items()}
    plain = {name: value for name, value in (metadata or {}).items() if isinstance(value, str | int | float)}
    known |= {f"metadata.{name}": Secret(str(value)) for name, value in plain.items()}
    if client is not None:
        known["clientId"] = Secret(client.client_id)
        if client.client_secret:
            known["clientSecret"] = client.client_secret
    return known


def revealed(values: Mapping[str, Secret]) -> dict[str, str]:
    """`values` as plain text, for the moment in which a template is filled."""
    return {name: secret.reveal() for name, secret in values.items()}


def texts(templates: Mapping[str, str], known: Mapping[str, Secret], *, moment: Moment | None = None) -> dict[str, str]:
    """`templates` filled in; one whose setting is missing is left out. Raises InvalidRequest for what cannot be sent."""
    plain = revealed(known)
    moment = moment or Moment()
    filled_in: dict[str, str] = {}
    for name, template in templates.items():
        try:
            filled_in[name] = render_text(template, plain, moment=moment)
        except Unresolved:
            continue
        except BadValue as fault:
            raise InvalidRequest("unresolved_setting", f"Parameter '{name}' cannot be sent: {fault.why}.") from fault
    return filled_in


def filled_json(value: Any, known: Mapping[str, str], moment: Moment) -> Any:
    """JSON with templates in its texts, filled in. A member whose values are not there is left out, and so is an object or
    a list of which nothing is left; a text without placeholders stays as it is.
    """
    match value:
        case str():
            return render_text(value, known, moment=moment, breaks=True)
        case Mapping():
            return {
                name: filled for name, inner in value.items() if (filled := _kept(inner, known, moment)) is not _GONE
            }
        case list():
            return [filled for inner in value if (filled := _kept(inner, known, moment)) is not _GONE]
        case _:
            return value


def _kept(value: Any, known: Mapping[str, str], moment: Moment) -> Any:
    try:
        filled = filled_json(value, known, moment)
    except Unresolved:
        return _GONE
    return _GONE if value and filled in ({}, []) else filled
