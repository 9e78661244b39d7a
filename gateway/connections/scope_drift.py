"""Granted against needed scopes: what a connection may do, as its provider said, and what its integration asks for.

Computed on each read and not stored, so an integration that gains a scope marks its connections at once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.oauth.authorize import scope_list
from gateway.records.connection import RefusedScopes
from gateway.records.integration import Integration

OFTEN_UNNAMED: Final = frozenset({"openid", "profile", "email", "offline_access", "offline", "refresh_token"})
"""Scopes that many providers grant without naming them in the answer."""
ANY: Final = "any"  # a value of `scope_challenge`
ALL_REGISTERED: Final = "/.default"  # Microsoft: whatever the app is registered with


@dataclass(frozen=True, slots=True)
class ScopeDrift:
    """`granted` None: the provider did not say, which by RFC 6749 §5.1 means all that was requested then. `needed`: what the
    integration asks for. `refused`: what the API asked for with 403 besides. `any_of`: scopes of which the API needs any
    one, while the integration asks for none of them.
    """

    granted: tuple[str, ...] | None
    needed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed scopes that were not granted. An end user grants them by authorizing again."""
        lacking = () if self.granted is None else self._not_granted(self.needed)
        return tuple(dict.fromkeys((*lacking, *self.refused)))

    def union(self, known: Collection[str] = ()) -> tuple[str, ...]:
        """The scopes to request so that none is lost: all that are needed, and of those granted the ones in `known`.

        Providers also grant scopes that may not be requested, such as those that every token has. Hence `known`.
        """
        wanted = tuple(dict.fromkeys((*self.needed, *self.refused)))
        have = {scope.lower() for scope in wanted}
        more = (scope for scope in self.granted or () if scope in known and not is_covered(scope.lower(), have))
        return (*wanted, *more)

    def _not_granted(self, scopes: Iterable[str]) -> tuple[str, ...]:
        have = {scope.lower() for scope in self.granted or ()}
        return tuple(scope for scope in scopes if not is_covered(scope.lower(), have))


def scope_drift(
    credential: Mapping[str, Any] | None,
    provider: Provider,
    integration: Integration | None,
    needed: Iterable[str] | None = None,
    refused: RefusedScopes | None = None,
) -> ScopeDrift:
    """Return the scope drift of a connection with this opened credential.

    `needed`: in place of the integration's scopes, such as those that a set of operations needs. `refused`: see
    Connection.
    """
    if needed is None:
        own = integration.scopes if integration is not None else None
        needed = own if own is not None else provider.default_scopes or ()
    raw = credential.get("raw") if credential is not None else None
    drift = ScopeDrift(_granted(raw if isinstance(raw, Mapping) else {}), tuple(needed))
    if refused is None:
        return drift
    lacking = drift._not_granted(refused.scopes)
    if provider.proxy.scope_challenge != ANY:
        return replace(drift, refused=lacking)
    asked = {scope.lower() for scope in drift.needed}
    suffices = len(lacking) < len(refused.scopes) or any(is_covered(scope.lower(), asked) for scope in refused.scopes)
    return drift if suffices else replace(drift, any_of=refused.scopes)


def _granted(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the scopes that a token answer names (RFC 6749 §5.1), as one text or, from some providers, as a list."""
    named = answer.get("scope", answer.get("scopes"))
    if isinstance(named, str):
        return scope_list(named) or None
    if isinstance(named, Sequence) and named and all(isinstance(one, str) for one in named):
        return tuple(named)
    return None


def is_covered(scope: str, have: set[str]) -> bool:
    """`scope` and `have` in lower case. Some name their scopes in short, and in answers by an address."""
    if scope in OFTEN_UNNAMED or scope.endswith(ALL_REGISTERED) or scope in have:
        return True
    return any(one.endswith(f"/{scope}") or scope.endswith(f"/{one}") for one in have)
