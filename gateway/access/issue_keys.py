"""Creates and revokes keys, for the API and the command line. A key cannot mint a key with more rights than its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.freeze_operations import freeze_limits
from gateway.access.key_forms import RequestedKey, check_request, completed_replacement, default_scopes, mint
from gateway.access.key_rule import names_operations
from gateway.access.known_keys import MintedKeyCache
from gateway.access.refusals import CREATE_KEY, KEY_CREATORS, rule_and_fix
from gateway.access.scopes import REVOKE, covers
from gateway.catalog.load_catalog import Catalog
from gateway.errors import Forbidden, InvalidRequest, Issue, NotFound
from gateway.off_loop import off_loop
from gateway.records.access import KeyLimits, MintedKey
from gateway.secret import Secret, digest
from gateway.store import Store
from gateway.store.minted_keys import NewMintedKey

MAX_RULES_WITH_ANCESTORS: Final = 1000  # maximum number of rules of a new key and its ancestors

log = structlog.get_logger(__name__)


def check_rules_together(limits: Sequence[KeyLimits]) -> None:
    """Raise InvalidRequest if a new key has rules, and too many together with its ancestors.

    The number is limited because each call of the key is compared with the rules of all these keys. `limits`: the
    limits of the new key first, then of its ancestors.
    """
    if limits[0].rules and sum(len(key_limits.rules) for key_limits in limits) > MAX_RULES_WITH_ANCESTORS:
        message = f"At most {MAX_RULES_WITH_ANCESTORS:,} rules in a key together with the keys that minted it."
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("limits", "rules"))])


class KeyIssuer:
    """Creates and revokes keys. `catalog`: returns the current catalog, for rules that name operations."""

    def __init__(self, store: Store, minted: MintedKeyCache, catalog: Callable[[], Catalog]) -> None:
        self._store = store
        self._minted = minted
        self._catalog = catalog

    async def create(
        self, requested: RequestedKey, environment: str, created_by: str, caller: Caller | None = None
    ) -> tuple[Secret, MintedKey]:
        """Create a key; return the key itself and its record. The key cannot be read again later.

        `created_by`: a text for the record that says who creates the key. `caller`: the caller of the API; None for an
        operator, who uses no key.

        Raises InvalidRequest, Forbidden, Conflict, NotFound.
        """
        now = clock.now()
        requester = default_parent = None if caller is None else caller.key
        replaced_key = await self._replaced_key(requested, environment, caller)
        if replaced_key is not None:
            requested, default_parent = (
                completed_replacement(requested, replaced_key),
                await self._parent_of(replaced_key),
            )
        requested = await self._freeze(requested, environment if caller is None else caller.share)
        # The holder of the requesting key receives the new key. So the requesting key becomes its parent, and revoking
        # the parent also revokes the new key.
        parent = (
            requester
            if requester is not None and (replaced_key is None or replaced_key.id != requester.id)
            else default_parent
        )
        check_request(requested, now)
        scopes = tuple(requested.scopes) if requested.scopes is not None else default_scopes(requested)
        if caller is not None:
            check_may_mint(scopes, caller)
        inherited_limits = (
            replaced_key.limits
            if replaced_key is not None
            else default_parent.limits
            if default_parent is not None
            else ()
        )
        all_limits = (requested.limits, *inherited_limits)
        check_rules_together(all_limits)
        expiry_times = [
            requested.expires_at,
            *(key.expires_at for key in (default_parent, requester) if key is not None),
        ]
        secret = mint(requested.kind)
        new_key = NewMintedKey(
            digest=digest(secret.reveal()),
            environment=environment,
            kind=requested.kind,
            name=requested.name,
            last_four=secret.reveal()[-4:],
            scopes=scopes,
            limits=tuple(key_limits for key_limits in all_limits if key_limits != KeyLimits()),
            rate=requested.rate,
            budget=requested.budget,
            created_by=created_by,
            parent_id=None if parent is None else parent.id,
            expires_at=min((moment for moment in expiry_times if moment is not None), default=None),
            replaces=requested.replaces,
            replaced_ends_at=None if requested.replaces is None else now + requested.overlap,
        )
        key = await self._store.keys.add(new_key, now=now)
        if replaced_key is not None:
            self._minted.forget(replaced_key.digest)
        self._minted.forget(key.digest)
        log.info(
            "key_created",
            key_id=key.id,
            environment=environment,
            name=key.name,
            last_four=key.last_four,
            scopes=list(key.scopes),
            by=created_by,
            replaces=requested.replaces,
        )
        return secret, key

    async def _replaced_key(self, requested: RequestedKey, environment: str, caller: Caller | None) -> MintedKey | None:
        """Return the key that the new key replaces; None if it replaces none. Raises NotFound, Forbidden."""
        if requested.replaces is None:
            return None
        replaced_key = await self.find(environment, requested.replaces, caller)
        if caller is not None and caller.key is not None:
            await self._check_may_replace(replaced_key, caller.key)
        return replaced_key

    async def _freeze(self, requested: RequestedKey, share: str) -> RequestedKey:
        """Return the request with a snapshot of the operations that its rules name. Raises InvalidRequest.

        Reads the operations in a thread, because this takes about 20 ms for each provider. `share`: the name by which
        callers take turns in the thread (`Caller.share`).
        """
        if not any(map(names_operations, requested.limits.rules)):
            return requested
        limits = await off_loop(share, freeze_limits, requested.limits, self._catalog())
        return replace(requested, limits=limits)

    async def revoke(self, environment: str, key_id: int, revoked_by: str, caller: Caller | None = None) -> int:
        """Revoke the key and every key that it minted, directly or through other keys; return how many were revoked.

        This process refuses the revoked keys immediately. Raises NotFound.
        """
        key = await self.find(environment, key_id, caller)
        revoked_digests = await self._store.keys.revoke(environment, key.id, now=clock.now())
        for key_digest in revoked_digests:
            self._minted.forget(key_digest)
        log.info(
            "key_revoked",
            key_id=key.id,
            environment=environment,
            name=key.name,
            keys=len(revoked_digests),
            by=revoked_by,
        )
        return len(revoked_digests)

    async def withdraw(self, key: MintedKey, withdrawn_by: str) -> None:
        """Revoke a new key that could not be shown to anybody, and undo its replacement of another key.

        `key`: the record that `create` returned.
        """
        await self._store.keys.withdraw(key, now=clock.now())
        self._minted.forget(key.digest)
        if key.replaced is not None:
            self._minted.forget(key.replaced.before.digest)
        log.info("key_revoked", key_id=key.id, environment=key.environment, name=key.name, keys=1, by=withdrawn_by)

    async def find(self, environment: str, key_id: int, caller: Caller | None = None) -> MintedKey:
        """Return the key with the id `key_id`. Raises NotFound if it does not exist, or if a limited `caller` did not mint it.

        So a limited key does not find itself and cannot replace itself. Otherwise, revoking the key would not end its
        replacement.
        """
        key = await self._store.keys.find(environment, key_id)
        if key is None or not may_see_key(caller, key):
            raise NotFound(
                "not_found",
                f"There is no key {key_id}. List the keys with `gateway keys list` or GET /environment/api-keys.",
            )
        return key

    async def _check_may_replace(self, replaced_key: MintedKey, requester: MintedKey) -> None:
        """Raise Forbidden if the key `requester` is not allowed to replace the key `replaced_key`.

        A descendant of `replaced_key` is not allowed: it would become the parent of its ancestor's replacement. Any
        other key is allowed if it is `replaced_key` itself, minted `replaced_key` (directly or through other keys), or
        has the scope to revoke keys. The ancestors are read from the store, because a rotation may just have changed
        the parent of `requester`.
        """
        if await self._is_ancestor(
            replaced_key, await self._store.keys.find(requester.environment, requester.id) or requester
        ):
            raise Forbidden(
                "forbidden",
                f"Key {replaced_key.id} is an ancestor of this key, so this key cannot replace it.",
                payload=rule_and_fix(
                    "key", f"Use a key of gateway.yaml, or gateway keys create --replaces {replaced_key.id}."
                ),
            )
        if (
            replaced_key.id != requester.id
            and not covers(requester.scopes, REVOKE)
            and not await self._is_ancestor(requester, replaced_key)
        ):
            raise Forbidden(
                "forbidden",
                f"This key did not mint key {replaced_key.id}, so it needs the scope {REVOKE} to replace it.",
                payload={
                    "required": [REVOKE],
                    **rule_and_fix("scope", f"Use a key with the scope {REVOKE}: {CREATE_KEY}."),
                },
            )

    async def _is_ancestor(self, ancestor: MintedKey, key: MintedKey) -> bool:
        seen_ids: set[int] = set()
        parent = await self._parent_of(key)
        while parent is not None and parent.id not in seen_ids:
            if parent.id == ancestor.id:
                return True
            seen_ids.add(parent.id)
            parent = await self._parent_of(parent)
        return False

    async def _parent_of(self, key: MintedKey) -> MintedKey | None:
        return None if key.parent_id is None else await self._store.keys.find(key.environment, key.parent_id)


def may_see_key(caller: Caller | None, key: MintedKey) -> bool:
    """Return whether the caller can see the key. A limited key sees only the keys that it minted itself."""
    caller_key = None if caller is None else caller.key
    return caller_key is None or not caller_key.limits or key.parent_id == caller_key.id


def check_may_mint(scopes: Sequence[str], caller: Caller) -> None:
    """Raise Forbidden if the caller is not allowed to mint a key with these scopes.

    The caller's key must have all scopes of the new key, and neither a rate nor a budget.
    """
    caller_key = caller.key
    if caller_key is None:
        return
    missing_scopes = [scope for scope in scopes if not covers(caller_key.scopes, scope)]
    if missing_scopes:
        raise Forbidden(
            "forbidden",
            f"A key can only grant scopes that it has. This key lacks: {', '.join(missing_scopes)}.",
            payload={
                "missing": missing_scopes,
                **rule_and_fix("scope", "Leave these scopes out, or use a key that has them.", KEY_CREATORS),
            },
        )
    if caller_key.rate is not None or caller_key.budget is not None:
        raise Forbidden(
            "forbidden",
            "A key with a rate or a budget cannot mint keys, since the calls of minted keys would not count against its limits.",
            payload=rule_and_fix(
                "rate" if caller_key.rate is not None else "budget", f"Use a key without rate and budget: {CREATE_KEY}."
            ),
        )
