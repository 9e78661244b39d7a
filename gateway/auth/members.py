"""The members of a credential as templates name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.catalog.auth_modes import CLIENT
from gateway.catalog.value import flat_values
from gateway.secret import Secret


def member_values(held: Mapping[str, Any], bare: Iterable[str] = ()) -> dict[str, Secret]:
    """``credentials.name`` for every text and number that `held` has at any depth, and `bare` names without the prefix."""
    flat = {name: Secret(text) for name, text in flat_values(held).items() if name != "type"}
    found = {f"credentials.{name}": secret for name, secret in flat.items()}
    return found | {name: flat[name] for name in bare if name in flat}


def typed_values(held: Mapping[str, Any], token: str | None = None) -> dict[str, Secret]:
    """As `token_values`, with every text at the top of `held` without the prefix too: what an entry declares is named so.

    Not the client's two names: they are the integration's where the mode does not say otherwise.
    """
    texts = (name for name, value in held.items() if isinstance(value, str) and name not in CLIENT)
    return token_values(held, token, texts)


def token_values(held: Mapping[str, Any], token: str | None, bare: Iterable[str] = ()) -> dict[str, Secret]:
    """The same with the token under both of its names; without one, neither is there."""
    found = member_values(held, bare)
    if token:
        found["accessToken"] = found["access_token"] = Secret(token)
    return found
