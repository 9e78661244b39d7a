"""Errors, as models."""

from typing import Any

from gateway.openapi.answers.model import Absent, Answer


class Issue(Answer):
    """One fault among several."""

    code: str
    """Which rule: unrecognized_keys, invalid_type, too_small, too_big, invalid_format, custom."""
    message: str
    path: list[str]
    """Where: the names that lead there."""


class ErrorDetail(Answer):
    code: str
    """API: it does not change."""
    message: str
    """What to do next; it may change."""
    errors: list[Issue] | Absent = None
    payload: dict[str, Any] | Absent = None
    """For programs; what it holds depends on the code."""


class Error(Answer):
    """Every answer of ours that is an error, with the code in the header Gateway-Error too."""

    error: ErrorDetail


class ErrorText(Answer):
    """What a provider is told whose webhook is not signed well."""

    error: str
