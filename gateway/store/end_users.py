"""An end user as JSON in a column; connections and sessions both carry one."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gateway.records.connection import EndUser


def end_user_to_json(end_user: EndUser | None) -> dict[str, Any] | None:
    if end_user is None:
        return None
    given = {field.name: getattr(end_user, field.name) for field in fields(end_user)}
    return {name: value for name, value in given.items() if value is not None}


def end_user_from_json(stored: Mapping[str, Any] | None) -> EndUser | None:
    return None if stored is None else EndUser(**stored)
