"""Names of values in templates: which stand for the same, and which are a credential."""

from collections.abc import Collection, Mapping
from typing import Final

from gateway.catalog.auth_modes import REQUEST
from gateway.catalog.template import placeholders

# The requirement's field writes accessToken, the credential's JSON access_token; both are in use.
_SAME: Final = {"accessToken": "access_token", "access_token": "accessToken"}


def find(values: Mapping[str, str], name: str) -> str | None:
    """The value called `name`, under that name or under the one that means the same; None if it is not there."""
    for known in spellings(name):
        if known in values:
            return values[known]
    return None


def spellings(name: str) -> tuple[str, ...]:
    """`name` first, then the other names of the same value: ``credentials.apiKey`` is ``apiKey``."""
    bare = name.removeprefix("credentials.")
    other = (_SAME[bare],) if bare in _SAME else ()
    return (name, *((bare,) if bare != name else ()), *other)


def carries_credential(template: str, *, secret_settings: Collection[str] = ()) -> bool:
    """Whether `template` puts a credential on a request, which makes its place a slot that callers cannot fill.

    `secret_settings` are the names in ``connectionConfig`` that the entry calls secret.
    """
    return any(_is_credential(name, secret_settings) for name in placeholders(template))


def _is_credential(name: str, secret_settings: Collection[str]) -> bool:
    namespace, dot, rest = name.partition(".")
    if dot and namespace == "connectionConfig":
        return rest in secret_settings
    return namespace != "metadata" and name not in REQUEST
