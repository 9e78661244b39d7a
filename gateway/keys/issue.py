"""Makes and ends keys, for the API and for the command line alike. Nobody gives away more than is theirs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.access.refusals import CREATE, MINTERS, told
from gateway.access.rules import parse
from gateway.access.scopes import EVERYTHING, PROXY, covers, is_scope
from gateway.errors import Forbidden, InvalidRequest, Issue, NotFound, told_together
from gateway.keys.caller import Caller
from gateway.keys.mint import mint
from gateway.keys.minted import Minted
from gateway.records.access import ANY_INTEGRATION, Key, Kind, Limits
from gateway.secret import Secret, digest
from gateway.store import Store
from gateway.store.keys import NewKey

log = structlog.get_logger(__name__)

OVERLAP: Final = timedelta(days=1)
MOST: Final = 50  # of each kind of limit in one key
LONGEST: Final = 511  # ``INTEGRATION/CONNECTION``
OF_CAPABILITY: Final = ("environment:proxy", "environment:connect_sessions:write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A key that is asked for. `scopes` None: everything, or with limits the proxy alone, or those of what it replaces.

    `replaces`: the id of a key that goes on for `overlap`, so that both work while its users move over.
    """

    name: str
    kind: Kind = "key"
    scopes: Sequence[str] | None = None
    limits: Limits = field(default_factory=Limits)
    rate: int | None = None
    budget: int | None = None
    expires_at: datetime | None = None
    replaces: int | None = None
    overlap: timedelta = OVERLAP


class Issuer:
    def __init__(self, store: Store, minted: Minted) -> None:
        self._store = store
        self._minted = minted

    async def create(self, wish: Wish, environment: str, by: str, caller: Caller | None = None) -> tuple[Secret, Key]:
        """The key, which is told this once, and its record. `by`: who asks, in words. `caller` None: the operator.

        Raises InvalidRequest, Forbidden, Conflict, NotFound.
        """
        now = clock.now()
        asks = None if caller is None else caller.key
        above = asks
        old = None if wish.replaces is None else await self.find(environment, wish.replaces, caller)
        if old is not None:
            if asks is not None:
                await self._check_not_above(old, asks)
            wish, above = _like(wish, old), await self._parent_of(old)
        # Whoever has a key replaced holds what replaces it, so that ends with them as if they had just minted it.
        parent = asks if asks is not None and (old is None or old.id != asks.id) else above
        check(wish, now)
        scopes = tuple(wish.scopes) if wish.scopes is not None else _usual_scopes(wish)
        if caller is not None:
            check_within(scopes, caller)
        inherited = old.limits if old is not None else above.limits if above is not None else ()
        limits = (wish.limits, *inherited)
        ends = [wish.expires_at, *(one.expires_at for one in (above, asks) if one is not None)]
        text = mint(wish.kind)
        new = NewKey(
            digest=digest(text.reveal()),
            environment=environment,
            kind=wish.kind,
            name=wish.name,
            last_four=text.reveal()[-4:],
            scopes=scopes,
            limits=tuple(one for one in limits if one != Limits()),
            rate=wish.rate,
            budget=wish.budget,
            created_by=by,
            parent_id=None if parent is None else parent.id,
            expires_at=min((at for at in ends if at is not None), default=None),
            replaces=wish.replaces,
            replaced_ends_at=None if wish.replaces is None else now + wish.overlap,
        )
        key = await self._store.keys.add(new, now=now)
        if wish.replaces is not None:
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
            replaces=wish.replaces,
        )
        return text, key

    async def revoke(self, environment: str, key_id: int, by: str, caller: Caller | None = None) -> int:
        """End it, and every key that it minted; how many. Effective here at once. Raises NotFound."""
        key = await self.find(environment, key_id, caller)
        ended = await self._store.keys.revoke(environment, key.id, now=clock.now())
        for one in ended:
            self._minted.forget(one)
        log.info("key_revoked", key_id=key.id, environment=environment, name=key.name, keys=len(ended), by=by)
        return len(ended)

    async def find(self, environment: str, key_id: int, caller: Caller | None = None) -> Key:
        """Raises NotFound, also for one that this caller did not mint, if it is a minted key itself that is limited."""
        found = await self._store.keys.find(environment, key_id)
        if found is None or not sees(caller, found):
            raise NotFound("not_found", f"There is no key {key_id}. GET /environment/api-keys lists those there are.")
        return found

    async def _check_not_above(self, old: Key, asks: Key) -> None:
        """Raises Forbidden where `asks` comes from `old`: it would belong to its own replacement, and outlive a revocation."""
        seen: set[int] = set()
        above = await self._parent_of(asks)
        while above is not None and above.id not in seen:
            if above.id == old.id:
                raise Forbidden(
                    "forbidden",
                    f"Key {old.id} minted this key, or one that it comes from, so it is not for this key to replace.",
                    payload=told("key", "Let it replace itself, or use a key of gateway.yaml or gateway keys create."),
                )
            seen.add(above.id)
            above = await self._parent_of(above)

    async def _parent_of(self, key: Key) -> Key | None:
        return None if key.parent_id is None else await self._store.keys.find(key.environment, key.parent_id)


def _like(wish: Wish, old: Key) -> Wish:
    """What a replacement does not say is as it was."""
    return replace(
        wish,
        kind=old.kind,
        scopes=old.scopes if wish.scopes is None else wish.scopes,
        rate=wish.rate or old.rate,
        budget=wish.budget or old.budget,
    )


def sees(caller: Caller | None, key: Key) -> bool:
    """A key with limits sees what it minted itself; any other sees all keys of its environment."""
    above = None if caller is None else caller.key
    return above is None or not above.limits or key.parent_id == above.id


def check(wish: Wish, now: datetime) -> None:
    """Raises InvalidRequest with every fault at once."""
    issues = [*_scope_issues(wish), *_limit_issues(wish)]
    if not wish.name.strip() or len(wish.name) > 255 or not wish.name.isprintable():
        issues.append(Issue("custom", "display_name must have 1 to 255 printable characters.", ("display_name",)))
    if wish.expires_at is not None and wish.expires_at <= now:
        issues.append(Issue("custom", "expires_at is in the past.", ("expires_at",)))
    if issues:
        raise InvalidRequest("invalid_body", told_together(issues), errors=issues)


def check_within(scopes: Sequence[str], caller: Caller) -> None:
    """Raises Forbidden where the caller would give away more than it has."""
    above = caller.key
    if above is None:
        return
    missing = [scope for scope in scopes if not covers(above.scopes, scope)]
    if missing:
        raise Forbidden(
            "forbidden",
            f"A key can give away no more than it has, and this one lacks: {', '.join(missing)}.",
            payload={"missing": missing, **told("scope", "Leave these scopes out, or ask whoever has them.", MINTERS)},
        )
    if above.rate is not None or above.budget is not None:
        raise Forbidden(
            "forbidden",
            "A key with a rate or a budget mints no keys, since their calls would not count as its own.",
            payload=told("rate" if above.rate is not None else "budget", f"Use a key without them: {CREATE}."),
        )


def _usual_scopes(wish: Wish) -> tuple[str, ...]:
    limited = wish.kind == "capability" or wish.limits != Limits()
    return (PROXY,) if limited else (EVERYTHING,)


def _scope_issues(wish: Wish) -> list[Issue]:
    issues = []
    for n, scope in enumerate(wish.scopes or ()):
        if not is_scope(scope):
            issues.append(Issue("custom", f"'{scope[:64]}' is no scope; docs/keys.md lists them.", ("scopes", str(n))))
        elif wish.kind == "capability" and scope not in OF_CAPABILITY:
            told = f"A capability has no other scopes than {' and '.join(OF_CAPABILITY)}."
            issues.append(Issue("custom", told, ("scopes", str(n))))
    if wish.scopes is not None and not wish.scopes:
        issues.append(Issue("custom", "scopes is empty; leave it out, or name at least one.", ("scopes",)))
    return issues


def _limit_issues(wish: Wish) -> list[Issue]:
    limits = wish.limits
    told: list[tuple[str, tuple[str, ...]]] = [
        (f"At most {MOST} {name} in a key.", (name,)) for name, values in limits.as_json().items() if len(values) > MOST
    ]
    of_tags = *limits.tags, *limits.tags.values()
    named = {"integrations": limits.integrations, "connections": limits.connections, "tags": of_tags}
    told += [
        (f"{text[:64]!r} is empty, too long or not printable, so there can be none of that name.", (name,))
        for name, texts in named.items()
        for text in texts
        if not text or len(text) > LONGEST or not text.isprintable()
    ]
    told += [(fault, ("connections", str(n))) for n, one in enumerate(limits.connections) for fault in _connection(one)]
    told += [(fault, ("rules", str(n))) for n, one in enumerate(limits.rules) for fault in _rule(one)]
    told += [(fault, ("hosts", str(n))) for n, one in enumerate(limits.hosts) for fault in _host(one)]
    for name, value in (("rate", wish.rate), ("budget", wish.budget)):
        if value is not None and not 1 <= value <= 10**9:
            told.append((f"{name} is a whole number from 1 to 1000000000.", (name,)))
    if wish.kind == "capability" and wish.replaces is None and not _one_connection(limits):
        told.append(
            ("A capability leads to one connection: name exactly one INTEGRATION/CONNECTION.", ("connections",))
        )
    return [Issue("custom", message, ("limits", *path)) for message, path in told]


def _connection(text: str) -> Iterator[str]:
    integration_id, _, connection_id = text.partition("/")
    if not integration_id or not connection_id:
        yield f"'{text[:64]}' names no connection: write INTEGRATION/CONNECTION."


def _rule(text: str) -> Iterator[str]:
    try:
        parse(text)
    except ValueError as wrong:
        yield f"'{text[:128]}' {wrong}."


def _host(text: str) -> Iterator[str]:
    labels = text.removeprefix("*.").split(".")
    if not all(label.isascii() and label.replace("-", "").isalnum() for label in labels):
        yield f"'{text[:64]}' is no host name, nor *.example.com; leave scheme and port out."


def _one_connection(limits: Limits) -> bool:
    return len(limits.connections) == 1 and not limits.connections[0].startswith(f"{ANY_INTEGRATION}/")
