"""A foreign credential ▸ one of ours: what another gateway shows of it, in the form that the auth mode takes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway.auth.mode import AuthMode
from gateway.auth.moments import iso, moment
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.moving.moved import Moved

INSTALLED: Final = frozenset({"APP", "CUSTOM"})
USER: Final = "userCredentials"
BROUGHT: Final = ("access_token", "expires_at", "raw")


class Hidden(Exception):
    """The other gateway shows no credential at all."""


def credential_of(
    moved: Moved, mode: AuthMode, provider: Provider, now: datetime
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """What is to be held, the settings beside it, and notes on what was changed.

    Raises Hidden, and InvalidRequest with every fault.
    """
    config = dict(moved.config)
    if moved.own:
        _check_type(moved, mode)
        return dict(moved.credentials), config, []
    given = {name: value for name, value in moved.credentials.items() if value is not None}
    if not given and moved.shown and mode.name != "NONE":
        raise Hidden
    _check_type(moved, mode)
    given.setdefault("type", mode.types()[0])
    notes: list[str] = []
    if mode.name in INSTALLED:
        for name in ("installation_id", "app_id"):
            if name not in given and config.get(name):
                given[name] = str(config[name])
    _date(given, now, notes)
    held = _accepted(given, mode, provider, now, notes) if moved.shown else mode.accept(given, provider, now)
    if mode.name in INSTALLED:
        held |= {name: given[name] for name in BROUGHT if given.get(name)}
        user = config.pop(USER, None)
        if mode.name == "CUSTOM" and isinstance(user, Mapping):
            held["user"] = dict(user)
    elif isinstance(given.get("raw"), Mapping) and "raw" in held:
        held["raw"] = dict(
            given["raw"]
        )  # the provider's own answer, which entries may read, and not our form around it
    return held, config, notes


def _check_type(moved: Moved, mode: AuthMode) -> None:
    kind = moved.credentials.get("type")
    if kind is not None and kind not in (mode.name, *mode.types()):
        message = f"The integration here takes credentials of type '{mode.name}', not {str(kind)[:40]!r}."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("credentials", "type"))])


def _date(given: dict[str, Any], now: datetime, notes: list[str]) -> None:
    """An end that cannot be read counts as now: without one, a token would never be renewed ahead of its end."""
    when = given.get("expires_at")
    if isinstance(when, str) and moment(when) is None:
        if when.strip().isdigit():
            given["expires_at"] = int(when)
            return
        if not when.strip():
            del given["expires_at"]
            return
        given["expires_at"] = iso(now)
        notes.append("expires_at could not be read; it counts as ended, so that the first call renews it")


def _accepted(
    given: Mapping[str, Any], mode: AuthMode, provider: Provider, now: datetime, notes: list[str]
) -> dict[str, Any]:
    """As the mode takes it, without the members that it does not know: another gateway keeps more than it asks for."""
    try:
        return mode.accept(given, provider, now)
    except InvalidRequest as fault:
        unknown = {str(one.path[1]) for one in fault.errors if one.code == "unrecognized_keys" and len(one.path) == 2}
        if not unknown or not unknown <= set(given):
            raise
        known = {name: value for name, value in given.items() if name not in unknown}
        held = mode.accept(known, provider, now)
        notes.append(f"left out, since nothing here reads them: {', '.join(sorted(unknown))}")
        return held
