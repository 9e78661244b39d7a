"""Scopes in plain words, as far as their own spelling tells: ``write:jira-work`` is to create and change jira work."""

import re
from collections.abc import Sequence
from typing import Final

from gateway.pages.words import Words

VERBS: Final = {
    "read": "scope_read", "readonly": "scope_read", "view": "scope_read", "list": "scope_read", "get": "scope_read",
    "write": "scope_write", "readwrite": "scope_write", "edit": "scope_write", "create": "scope_write",
    "update": "scope_write", "send": "scope_write", "modify": "scope_write", "post": "scope_write",
    "delete": "scope_delete", "remove": "scope_delete",
    "manage": "scope_manage", "admin": "scope_manage", "full": "scope_manage",
}  # fmt: skip
WHOLE: Final = {
    "offline_access": "scope_offline", "offline": "scope_offline", "refresh_token": "scope_offline",
    "openid": "scope_identity", "read:me": "scope_identity",
    "email": "scope_email", "profile": "scope_profile",
}  # fmt: skip
LONGEST: Final = 80
_BREAK: Final = re.compile(r"[\s:/._-]+")


def in_words(scope: str, words: Words) -> str:
    """One sentence. What cannot be read is shown as it is."""
    if scope in WHOLE:
        return words(WHOLE[scope])
    # An address as a scope says what it means in its path: https://www.googleapis.com/auth/calendar.readonly
    named = re.sub(r"^https?://[^/]+/(auth/)?", "", scope)[:LONGEST] or scope[:LONGEST]
    parts = [part for part in _BREAK.split(named) if part]
    verb = next((part for part in (*parts[:1], *parts[-1:]) if part.lower() in VERBS), None)
    if verb is None:
        return words("scope_other", subject=" ".join(parts) or scope)
    parts.remove(verb)
    return words(VERBS[verb.lower()], subject=" ".join(parts)) if parts else words("scope_other", subject=scope)


def granted(scopes: Sequence[str], words: Words) -> list[tuple[str, tuple[str, ...]]]:
    """Sentences, each with the scopes that it stands for, in their order."""
    told: dict[str, list[str]] = {}
    for scope in scopes:
        told.setdefault(in_words(scope, words), []).append(scope)
    return [(sentence, tuple(names)) for sentence, names in told.items()]
