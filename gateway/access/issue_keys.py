"""Creates and revokes keys, for the API and the command line. A key cannot mint a key with more rights than its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.freeze_operations import freeze_limits
from gateway.access.key_forms import RequestedKey, check_request, completed_replacement, default_scopes, mint
from gateway.access.known_keys import Minted
from gateway.access.operation_rules import is_reference
from gateway.access.refusals import CREATE, MINTERS, rule_and_fix
from gateway.access.scopes import REVOKE, covers
from gateway.catalog.load_catalog import Catalog
from gateway.errors import Forbidden, InvalidRequest, Issue, NotFound
from gateway.records.access import KeyLimits, MintedKey
from gateway.secret import Secret, digest
from gateway.store import Store
from gateway.store.minted_keys import NewMintedKey

MOST_WITH_ANCESTORS: Final = 1000  # maximum number of rules that are compared with each call of a new key

log = structlog.get_logger(__name__)


def check_rules_together(limits: Sequence[KeyLimits]) -> None:
    """Raise InvalidRequest if a new key, the first in `limits`, has rules and too many together with its ancestors."""
    if limits[0].rules and sum(len(one.rules) for one in limits) > MOST_WITH_ANCESTORS:
        message = f"At most {MOST_WITH_ANCESTORS:,} rules in a key and its ancestors."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("limits", "rules"))])


class KeyIssuer:
    """Creates and revokes keys. `catalog` returns the current catalog, for rules that name operations."""

    def __init__(self, store: Store, minted: Minted, catalog: Callable[[], Catalog]) -> None:
        self._store = store
        self._minted = minted
        self._catalog = catalog

    async def create(
        self, requested: RequestedKey, environment: str, by: str, caller: Caller | None = None
    ) -> tuple[Secret, MintedKey]:
        """Create a key; return the key itself, which is shown only once, and its record. `by`: the text for
        `created_by`. `caller` None: an operator, without a key.

        Raises InvalidRequest, Forbidden, Conflict, NotFound.
        """
        now = clock.now()
        asks = above = None if caller is None else caller.key
        old = None if requested.replaces is None else await self.find(environment, requested.replaces, caller)
        if old is not None:
            if asks is not None:
                await self._check_may_replace(old, asks)
            requested, above = completed_replacement(requested, old), await self._parent_of(old)
        if any(map(is_reference, requested.limits.rules)):
            requested = replace(requested, limits=freeze_limits(requested.limits, self._catalog()))
        # The new key is returned to the key that requested it. So that key becomes the parent, as if it had minted the
        # new one, and revoking it also ends the replacement.
        parent = asks if asks is not None and (old is None or old.id != asks.id) else above
        check_request(requested, now)
        scopes = tuple(requested.scopes) if requested.scopes is not None else default_scopes(requested)
        if caller is not None:
            check_within(scopes, caller)
        inherited = old.limits if old is not None else above.limits if above is not None else ()
        limits = (requested.limits, *inherited)
        check_rules_together(limits)
        ends = [requested.expires_at, *(one.expires_at for one in (above, asks) if one is not None)]
        text = mint(requested.kind)
        new = NewMintedKey(
            digest=digest(text.reveal()),
            environment=environment,
            kind=requested.kind,
            name=requested.name,
            last_four=text.reveal()[-4:],
            scopes=scopes,
            limits=tuple(one for one in limits if one != KeyLimits()),
            rate=requested.rate,
            budget=requested.budget,
            created_by=by,
            parent_id=None if parent is None else parent.id,
            expires_at=min((at for at in ends if at is not None), default=None),
            replaces=requested.replaces,
            replaced_ends_at=None if requested.replaces is None else now + requested.overlap,
        )
        key = await self._store.keys.add(new, now=now)
        if requested.replaces is not None:
            self._minted.missed()
        self._minted.forget(key.digest)
        log.info(
            "key_created",
            key_id=key.id,
            environment=environment,
            name=key.name,
            last_four=key.last_four,
            scopes=list(key.scopes),
            by=by,
            replaces=requested.replaces,
        )
        return text, key

    async def revoke(self, environment: str, key_id: int, by: str, caller: Caller | None = None) -> int:
        """Revoke the key and every key that it minted, directly or through other keys; return how many. Effective in
        this process immediately. Raises NotFound."""
        key = await self.find(environment, key_id, caller)
        ended = await self._store.keys.revoke(environment, key.id, now=clock.now())
        for one in ended:
            self._minted.forget(one)
        log.info("key_revoked", key_id=key.id, environment=environment, name=key.name, keys=len(ended), by=by)
        return len(ended)

    async def find(self, environment: str, key_id: int, caller: Caller | None = None) -> MintedKey:
        """Return the key. Raises NotFound, also if a limited `caller` did not mint the key. So a limited key does not
        find itself and cannot replace itself: revoking it would not end the replacement."""
        found = await self._store.keys.find(environment, key_id)
        if found is None or not may_see_key(caller, found):
            raise NotFound("not_found", f"There is no key {key_id}. GET /environment/api-keys lists the keys.")
        return found

    async def _check_may_replace(self, old: MintedKey, asks: MintedKey) -> None:
        """Raise Forbidden if `asks` descends from `old`, since it would become the parent of its ancestor's
        replacement; or if it neither minted `old`, directly or through other keys, nor may revoke keys."""
        if await self._is_ancestor(old, asks):
            raise Forbidden(
                "forbidden",
                f"Key {old.id} is an ancestor of this key, so this key cannot replace it.",
                payload=rule_and_fix("key", f"Use a key of gateway.yaml, or gateway keys create --replaces {old.id}."),
            )
        if old.id != asks.id and not covers(asks.scopes, REVOKE) and not await self._is_ancestor(asks, old):
            raise Forbidden(
                "forbidden",
                f"This key did not mint key {old.id}, so it needs the scope {REVOKE} to replace it.",
                payload={
                    "required": [REVOKE],
                    **rule_and_fix("scope", f"Use a key with the scope {REVOKE}: {CREATE}."),
                },
            )

    async def _is_ancestor(self, one: MintedKey, of: MintedKey) -> bool:
        seen: set[int] = set()
        above = await self._parent_of(of)
        while above is not None and above.id not in seen:
            if above.id == one.id:
                return True
            seen.add(above.id)
            above = await self._parent_of(above)
        return False

    async def _parent_of(self, key: MintedKey) -> MintedKey | None:
        return None if key.parent_id is None else await self._store.keys.find(key.environment, key.parent_id)


def may_see_key(caller: Caller | None, key: MintedKey) -> bool:
    """Return whether the caller may see the key: a limited key sees only keys that it minted, any other sees all."""
    above = None if caller is None else caller.key
    return above is None or not above.limits or key.parent_id == above.id


def check_within(scopes: Sequence[str], caller: Caller) -> None:
    """Raise Forbidden if the new key would have scopes that the caller lacks."""
    above = caller.key
    if above is None:
        return
    missing = [scope for scope in scopes if not covers(above.scopes, scope)]
    if missing:
        raise Forbidden(
            "forbidden",
            f"A key can only grant scopes that it has. This key lacks: {', '.join(missing)}.",
            payload={
                "missing": missing,
                **rule_and_fix("scope", "Leave these scopes out, or use a key that has them.", MINTERS),
            },
        )
    if above.rate is not None or above.budget is not None:
        raise Forbidden(
            "forbidden",
            "A key with a rate or a budget cannot mint keys, since their calls would not count against its limits.",
            payload=rule_and_fix("rate" if above.rate is not None else "budget", f"Use a key without them: {CREATE}."),
        )
