"""Compares the scopes that the provider granted with the scopes that the integration needs.

The result is computed on each read and not stored. Therefore a scope that is added to an integration is immediately
missing in its connections.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.oauth.authorize import scope_list
from gateway.records.connection import RefusedScopes
from gateway.records.integration import Integration

OFTEN_UNNAMED: Final = frozenset({"openid", "profile", "email", "offline_access", "offline", "refresh_token"})
"""Scopes that many providers grant without naming them in the response."""
ANY: Final = "any"  # the value of `scope_challenge` for APIs that require any one of several scopes
ALL_REGISTERED: Final = "/.default"  # Microsoft: all scopes that the app is registered with


@dataclass(frozen=True, slots=True)
class ScopeDrift:
    """The scopes of a connection. `granted`: None if the provider did not report scopes, which means that all requested
    scopes are granted (RFC 6749 §5.1). `needed`: scopes that the integration requires. `refused`: further scopes that
    the API required with a 403. `any_of`: scopes that are alternatives: the API needs one of them, and the integration
    requires none of them.
    """

    granted: tuple[str, ...] | None
    needed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed and refused scopes that were not granted. An end user grants missing scopes by authorizing
        again."""
        lacking_scopes = () if self.granted is None else self._not_granted(self.needed)
        return tuple(dict.fromkeys((*lacking_scopes, *self.refused)))

    def union(self, known_scopes: Collection[str] = ()) -> tuple[str, ...]:
        """Return the scopes to request so that none is lost: all needed scopes, and the granted ones that are in
        `known_scopes`.

        `known_scopes` is necessary because providers also grant scopes that an app may not request, such as scopes of
        every token.
        """
        requested = tuple(dict.fromkeys((*self.needed, *self.refused)))
        available = {scope.lower() for scope in requested}
        granted_extra = (
            scope for scope in self.granted or () if scope in known_scopes and not is_covered(scope.lower(), available)
        )
        return (*requested, *granted_extra)

    def _not_granted(self, scopes: Iterable[str]) -> tuple[str, ...]:
        available = {scope.lower() for scope in self.granted or ()}
        return tuple(scope for scope in scopes if not is_covered(scope.lower(), available))


def scope_drift(
    credential: Mapping[str, Any] | None,
    provider: Provider,
    integration: Integration | None,
    needed: Iterable[str] | None = None,
    refused: RefusedScopes | None = None,
) -> ScopeDrift:
    """Return the scope drift of a connection with this decrypted credential.

    `needed`: replaces the integration's scopes, for example with those of a set of operations; None replaces nothing.
    `refused`: scopes that the API required with a 403, None if there was no such 403.
    """
    if needed is None:
        own_scopes = integration.scopes if integration is not None else None
        needed = own_scopes if own_scopes is not None else provider.default_scopes or ()
    raw = credential.get("raw") if credential is not None else None
    drift = ScopeDrift(_granted_scopes(raw if isinstance(raw, Mapping) else {}), tuple(needed))
    if refused is None:
        return drift
    lacking_scopes = drift._not_granted(refused.scopes)
    if provider.proxy.scope_challenge != ANY:
        return replace(drift, refused=lacking_scopes)
    requested = {scope.lower() for scope in drift.needed}
    has_alternative = len(lacking_scopes) < len(refused.scopes) or any(
        is_covered(scope.lower(), requested) for scope in refused.scopes
    )
    return drift if has_alternative else replace(drift, any_of=refused.scopes)


def _granted_scopes(response: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the scopes in a token response (RFC 6749 §5.1): one text or, from some providers, a list. Return None if
    the response has no scopes."""
    scopes = response.get("scope", response.get("scopes"))
    if isinstance(scopes, str):
        return scope_list(scopes) or None
    if isinstance(scopes, Sequence) and scopes and all(isinstance(scope, str) for scope in scopes):
        return tuple(scopes)
    return None


def is_covered(scope: str, available: set[str]) -> bool:
    """Return whether `available` includes `scope`. All scopes must be in lower case. Some providers use a short name in
    requests and a URL in responses."""
    if scope in OFTEN_UNNAMED or scope.endswith(ALL_REGISTERED) or scope in available:
        return True
    return any(
        available_scope.endswith(f"/{scope}") or scope.endswith(f"/{available_scope}") for available_scope in available
    )
