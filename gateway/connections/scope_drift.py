"""Granted against needed scopes: what a connection may do, as its provider said, and what its integration asks for.

Computed on each read and not stored, so an integration that gains a scope marks its connections at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.oauth.authorize import scope_list
from gateway.records.integration import Integration

OFTEN_UNNAMED: Final = frozenset({"openid", "profile", "email", "offline_access", "offline", "refresh_token"})
"""Scopes that many providers grant without naming them in the answer."""
ALL_REGISTERED: Final = "/.default"  # Microsoft: whatever the app is registered with


@dataclass(frozen=True, slots=True)
class ScopeDrift:
    """`granted` None: the provider did not say, which by RFC 6749 §5.1 means all that was requested then."""

    granted: tuple[str, ...] | None
    needed: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Of those that are needed. The end user grants these by authorizing again."""
        if self.granted is None:
            return ()
        have = {scope.lower() for scope in self.granted}
        return tuple(scope for scope in self.needed if not _is_covered(scope.lower(), have))

    @property
    def union(self) -> tuple[str, ...]:
        """What to ask for so that nothing is lost: all that is granted, and all that is needed."""
        return tuple(dict.fromkeys((*self.needed, *(self.granted or ()))))


def scope_drift(
    credential: Mapping[str, Any] | None,
    provider: Provider,
    integration: Integration | None,
    needed: Iterable[str] | None = None,
) -> ScopeDrift:
    """Of a connection with this opened credential. `needed`: in place of the integration's scopes, such as those that a set
    of operations needs.
    """
    if needed is None:
        own = integration.scopes if integration is not None else None
        needed = own if own is not None else provider.default_scopes or ()
    raw = credential.get("raw") if credential is not None else None
    return ScopeDrift(_granted(raw if isinstance(raw, Mapping) else {}), tuple(needed))


def _granted(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Those that a token answer names (RFC 6749 §5.1), as a text or, with some, as a list."""
    named = answer.get("scope", answer.get("scopes"))
    if isinstance(named, str):
        return scope_list(named) or None
    if isinstance(named, Sequence) and named and all(isinstance(one, str) for one in named):
        return tuple(named)
    return None


def _is_covered(scope: str, have: set[str]) -> bool:
    """`scope` and `have` in lower case. Some name their scopes in short, and in answers by an address."""
    if scope in OFTEN_UNNAMED or scope.endswith(ALL_REGISTERED) or scope in have:
        return True
    return any(one.endswith(f"/{scope}") or scope.endswith(f"/{one}") for one in have)
