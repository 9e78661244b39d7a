"""Finds the caller of a bearer token. Keeps minted keys in memory, by digest.

A change of a key by any process removes the key from memory: normally within 0.1 s, and within `live.trust_s` at the
latest. The change feed (`ChangeFeed.follow`) reports these changes together with the changes of connections. If the
store cannot be read, a key in memory stays valid for at most `live.ttl_s`.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from gateway import clock
from gateway.access.caller import Access, Caller, Meter, build_access, compiled_policy
from gateway.access.key_forms import CAPABILITY_PREFIX, PREFIX, PREFIXES, key_kind
from gateway.access.key_policy import is_slow_to_compile
from gateway.access.refusals import CREATE_KEY, rule_and_fix
from gateway.config import Config
from gateway.errors import GatewayError, Unauthorized, exc_info_of
from gateway.off_loop import off_loop
from gateway.records.access import Environment, KeyKind, KeyLimits, MintedKey
from gateway.records.audit import AuditActor, current_actor
from gateway.records.connection import ConnectionRef
from gateway.secret import digest
from gateway.store import Store

MAX_CACHED: Final = 10_000
MAX_CACHED_BYTES: Final = 128 * 1024 * 1024  # maximum size of the cached keys with their rules, as `CachedSize` counts
WRITE_INTERVAL_S: Final = 30.0
IDLE_S: Final = 30.0  # after this time without a call, unspent calls of a budget are returned to the store
MAX_PARALLEL_READS: Final = 8
RETRY_READ_S: Final = 5.0  # time between two attempts, if the store cannot be read

log = structlog.get_logger(__name__)

# Measured sizes, a little above the usual ones. A rule has a fixed part and, for each character, a compiled part.
KEY_BYTES: Final = 2_000
RULE_BYTES: Final = 1_000
RULE_CHAR_BYTES: Final = 24
VALUE_BYTES: Final = 100
OPERATION_CHAR_BYTES: Final = 60  # for each character of a packed snapshot of operations


class CachedSize:
    """The estimated size of the cached keys in bytes, with all rules compiled.

    Keys with the same snapshot of operations share its unpacked form (`operation_rules.operation_set`), so this form
    counts once.
    """

    def __init__(self) -> None:
        self.total = 0
        self._uses_by_snapshot: Counter[tuple[str, str]] = Counter()

    def add(self, limits: Iterable[KeyLimits]) -> None:
        self.total += KEY_BYTES
        for key_limits in limits:
            self.total += _own_bytes(key_limits)
            for rule_and_snapshot in key_limits.operations.items():
                self.total += (
                    0 if self._uses_by_snapshot[rule_and_snapshot] else OPERATION_CHAR_BYTES * len(rule_and_snapshot[1])
                )
                self._uses_by_snapshot[rule_and_snapshot] += 1

    def subtract(self, limits: Iterable[KeyLimits]) -> None:
        self.total -= KEY_BYTES
        for key_limits in limits:
            self.total -= _own_bytes(key_limits)
            for rule_and_snapshot in key_limits.operations.items():
                self._uses_by_snapshot[rule_and_snapshot] -= 1
                if not self._uses_by_snapshot[rule_and_snapshot]:
                    del self._uses_by_snapshot[rule_and_snapshot]
                    self.total -= OPERATION_CHAR_BYTES * len(rule_and_snapshot[1])

    def clear(self) -> None:
        self.total = 0
        self._uses_by_snapshot.clear()


def _own_bytes(limits: KeyLimits) -> int:
    values = [*limits.integrations, *limits.connections, *limits.hosts, *limits.tags, *limits.tags.values()]
    values += limits.operations.values()
    rules = RULE_BYTES * len(limits.rules) + RULE_CHAR_BYTES * sum(map(len, limits.rules))
    return rules + VALUE_BYTES * len(values) + sum(map(len, values))


class MintedKeyCache:
    """The cache of minted keys. A reload of the configuration does not replace this cache.

    The cache keeps at most `MAX_CACHED` keys of at most `MAX_CACHED_BYTES` together, and drops the oldest first.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._callers: dict[str, Caller] = {}
        self._size = CachedSize()
        self._unknown_digests: dict[str, None] = {}
        self._meters: dict[str, Meter] = {}
        # Meters that may have calls reserved in the store, also those that are no longer in `_meters`.
        self._reserving: set[Meter] = set()
        self._loading: dict[str, asyncio.Task[Caller | None]] = {}
        self._load_limit = asyncio.Semaphore(MAX_PARALLEL_READS)
        self._ended_keys: dict[str, None] = {}  # used keys that were later found to be expired or revoked
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_used: set[str] = set()  # keys whose first use is recorded, but not in their cached rows
        self._being_checked: set[str] = set()  # keys that a task reads to find out whether they have ended
        # Keys that the next write marks as used in the store. The write also marks the cached callers with
        # `has_unsaved_use`.
        self._used_keys: set[str] = set()

    def peek(self, key_digest: str) -> Caller | None:
        """Return the caller with this key digest from the cache, without I/O, and mark the key as used.

        Return None if the key is not in the cache, or has expired.
        """
        caller = self._callers.get(key_digest)
        if caller is None or caller.access is None or not caller.access.is_valid:
            return None
        caller.access.has_unsaved_use = True
        return caller

    async def caller(self, key_digest: str) -> Caller | None:
        """Return the caller with this key digest, from the cache or from the store; None if the key is not valid.

        Raises Unavailable if the store cannot be read.
        """
        caller = self.peek(key_digest) or await self._caller(key_digest)
        if caller is not None:
            self._used_keys.add(key_digest)
        return caller

    async def _caller(self, key_digest: str) -> Caller | None:
        if key_digest in self._unknown_digests or key_digest in self._callers:
            cached = self._callers.get(key_digest)
            return cached if cached is not None and cached.access is not None and cached.access.is_valid else None
        task = self._loading.get(key_digest)
        if task is None:
            task = self._loading[key_digest] = asyncio.create_task(self._load(key_digest))
            task.add_done_callback(lambda done: self._on_loaded(key_digest, done))
        return await asyncio.shield(task)

    def _on_loaded(self, key_digest: str, task: "asyncio.Task[Caller | None]") -> None:
        if self._loading.get(key_digest) is task:
            del self._loading[key_digest]
        if not task.cancelled():
            task.exception()  # marks the error as handled; otherwise asyncio logs it if no caller waits for the task

    def is_first_use(self, access: Access) -> bool:
        """Return whether no use of the key is recorded yet."""
        return access.key.last_used_at is None and access.key.digest not in self._first_used

    def record_first_use(self, caller: Caller, address: str) -> None:
        """Record the first use of a minted key in the background, with the caller's IP address `address`.

        Does nothing for later uses. Does not wait for the store. If the store cannot be written, `write` records the
        use later, without the address.
        """
        access = caller.access
        if access is None or not self.is_first_use(access):
            return
        if len(self._first_used) >= MAX_CACHED:
            self._first_used.clear()
        self._first_used.add(access.key.digest)
        task = asyncio.create_task(self._write_first_use(access.key.digest, caller.actor(address)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_first_use(self, key_digest: str, actor: AuditActor) -> None:
        current_actor.set(actor)
        try:
            await self._store.keys.record_uses([key_digest], now=clock.now())
        except GatewayError as fault:
            log.warning("key_use_not_written", detail=fault.message)

    def forget(self, key_digest: str) -> None:
        """Remove a key from the cache, because this or another process has changed the key.

        If the key was in the cache, read the key again in the background.
        """
        dropped_caller = self._drop(key_digest)
        self._unknown_digests.pop(key_digest, None)
        self._loading.pop(key_digest, None)
        if dropped_caller is not None:
            self._read_again(key_digest)

    def has_ended(self, access: Access) -> bool:
        """Return whether a running exchange with this key must stop, because the key was revoked or has expired.

        `access`: the key at the start of the exchange. After that, the key may have been revoked, or may have got an
        earlier end. If the key is no longer in the cache, return False and read the key in the background, so that a
        later call returns the result.
        """
        key_digest = access.key.digest
        if key_digest in self._ended_keys or not access.is_valid:
            return True
        cached_caller = self._callers.get(key_digest)
        if (
            cached_caller is None or cached_caller.access is None
        ):  # the key is not in the cache, so its end may have been missed
            if key_digest not in self._being_checked:
                self._being_checked.add(key_digest)
                self._read_again(key_digest)
            return False
        return not cached_caller.access.is_valid

    def handle_change(self, ref: ConnectionRef) -> None:
        if not ref.integration_id:  # a change of a key (`minted_keys.changed_key`), not of a connection
            self.forget(ref.connection_id)

    def handle_missed_changes(self) -> None:
        """Remove all keys from the cache, because this process may have missed changes."""
        for caller in self._callers.values():
            self._record_use(caller)
        self._callers.clear()
        self._size.clear()
        self._unknown_digests.clear()
        self._loading.clear()

    def _read_again(self, key_digest: str) -> None:
        """Read a key from the store again, to find out whether the key has ended."""

        async def read() -> None:
            try:
                if await self._caller(key_digest) is None:
                    while len(self._ended_keys) >= MAX_CACHED:
                        del self._ended_keys[next(iter(self._ended_keys))]
                    self._ended_keys[key_digest] = None
            except GatewayError as fault:
                log.warning("key_not_read", detail=fault.message)
                await clock.sleep(RETRY_READ_S)
            finally:
                self._being_checked.discard(key_digest)

        task = asyncio.create_task(read())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _record_use(self, caller: Caller | None) -> None:
        """Remember the use of a cached key, so that `write` stores the use even if the key leaves the cache."""
        if caller is not None and caller.access is not None and caller.access.has_unsaved_use:
            caller.access.has_unsaved_use = False
            self._used_keys.add(caller.access.key.digest)

    async def _load(self, key_digest: str) -> Caller | None:
        policy = None
        key, parents = await self._read(key_digest)
        if key is not None and is_slow_to_compile(key.limits):
            oldest_ancestor = parents[-1] if parents else key.id  # all descendants of one key take turns under its name
            policy = await off_loop(str(oldest_ancestor), compiled_policy, key)
            # Read the key again, because the key may have ended in the meantime. The limits of a key never change.
            key, parents = await self._read(key_digest)
        # `forget` and `handle_missed_changes` remove the task. The result can then be older than the change, so it
        # is not cached.
        may_cache = self._loading.get(key_digest) is asyncio.current_task()
        if key is None:
            if may_cache:
                while len(self._unknown_digests) >= MAX_CACHED:
                    del self._unknown_digests[next(iter(self._unknown_digests))]
                self._unknown_digests[key_digest] = None
            return None
        caller = Caller(Environment(key.environment), build_access(key, self._meter_for(key), parents, policy))
        if may_cache:
            self._keep(key_digest, caller, key.limits)
        return caller

    async def _read(self, key_digest: str) -> tuple[MintedKey | None, tuple[int, ...]]:
        """Return the key and the ids of its ancestors. The key is None if it is not valid."""
        async with self._load_limit:
            key = await self._store.keys.get(key_digest)
            if key is None or not key.is_valid(clock.now()):
                return None, ()
            return key, () if key.parent_id is None else await self._store.keys.ancestors(key)

    def _keep(self, key_digest: str, caller: Caller, limits: Sequence[KeyLimits]) -> None:
        """Cache the caller. Then drop the oldest callers until the cache is within its limits."""
        self._drop(key_digest)
        self._callers[key_digest] = caller
        self._size.add(limits)
        while len(self._callers) > MAX_CACHED or (self._size.total > MAX_CACHED_BYTES and len(self._callers) > 1):
            self._drop(next(iter(self._callers)))

    def _drop(self, key_digest: str) -> Caller | None:
        """Remove the caller from the cache and return it; return None if it is not in the cache."""
        caller = self._callers.pop(key_digest, None)
        if caller is not None and caller.access is not None:
            self._size.subtract(caller.access.key.limits)
            self._record_use(caller)
        return caller

    def _meter_for(self, key: MintedKey) -> Meter | None:
        """Return the key's meter; None if the key has neither a rate nor a budget.

        The meter is kept when the key is removed from the cache. Otherwise the key would get a new minute of calls when
        it is loaded again. At most `MAX_CACHED` meters are kept. A meter that is removed stays in `_reserving` until its
        unspent calls are back in the store.
        """
        if key.rate is None and key.budget is None:
            return None
        meter = self._meters.get(key.digest)
        if meter is None or (meter.rate, meter.budget) != (key.rate, key.budget):

            async def reserve_calls(limit: int) -> int:
                reserved = await self._store.keys.reserve_calls(key.digest, limit)
                if reserved > 0:
                    self._reserving.add(new_meter)
                return reserved

            while len(self._meters) >= MAX_CACHED:
                del self._meters[next(iter(self._meters))]
            meter = self._meters[key.digest] = new_meter = Meter(key.rate, key.budget, reserve_calls)
        return meter

    async def write(self) -> None:
        """Store uses of keys and return unspent calls of idle keys, every `WRITE_INTERVAL_S`, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_S)
            try:
                await self._write(IDLE_S)
            except Exception as fault:  # the next run may succeed, and this task must not end
                log.warning("key_use_not_written", detail=str(fault), exc_info=exc_info_of(fault))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._write(0.0)
        except GatewayError as fault:
            log.warning("key_use_not_written", detail=fault.message)

    async def _write(self, idle_s: float) -> None:
        for caller in self._callers.values():
            self._record_use(caller)
        used_keys, self._used_keys = self._used_keys, set()
        if used_keys:
            try:
                await self._store.keys.record_uses(sorted(used_keys), now=clock.now())
            except GatewayError:
                self._used_keys |= used_keys  # stored with the next write
                raise
        for meter in list(self._reserving):
            if not await meter.return_unspent(idle_s):
                self._reserving.discard(meter)


# ── Finds the caller of a request's bearer token. Only digests of keys are kept in memory.

INVALID_TOKEN_HEADERS: Final = {"WWW-Authenticate": 'Bearer realm="gateway", error="invalid_token"'}  # RFC 6750 §3.1


class KeyLookup:
    """Finds keys of gateway.yaml and minted keys.

    Keys are searched by digest, so the duration of a search reveals nothing about a key.
    """

    def __init__(self, by_digest: Mapping[str, Caller], minted: MintedKeyCache, environments: Collection[str]) -> None:
        self._by_digest = dict(by_digest)
        self._environments = frozenset(environments)
        self._minted = minted

    @classmethod
    def from_config(cls, config: Config, minted: MintedKeyCache) -> "KeyLookup":
        return cls(
            {
                digest(key.reveal()): Caller(Environment(environment.name))
                for environment in config.environments.values()
                for key in environment.secret_keys
            },
            minted,
            config.environments,
        )

    def find_known(self, key_digest: str) -> Caller | None:
        """Return the caller with this key digest (`secret.digest`), without reading the store.

        Return None if the key is neither in gateway.yaml nor in the cache.
        """
        declared_caller = self._by_digest.get(key_digest)
        return declared_caller if declared_caller is not None else self._declared_caller(self._minted.peek(key_digest))

    async def caller(self, text: str, kind: KeyKind = "key") -> Caller:
        """Return the caller with the key or capability `text`.

        Raises Unauthorized if `text` is not valid, and Unavailable if the store cannot be read.
        """
        key_digest = digest(text)
        caller = self.find_known(key_digest)
        if caller is None and key_kind(text) == kind:
            caller = self._declared_caller(await self._minted.caller(key_digest))
        if caller is None or (caller.key.kind if caller.key is not None else "key") != kind:
            raise wrong_kind_error(text, kind) or invalid_key_error(kind)
        return caller

    def _declared_caller(self, caller: Caller | None) -> Caller | None:
        """Return the caller; None if gateway.yaml no longer has its environment."""
        return caller if caller is not None and caller.environment.name in self._environments else None


def wrong_kind_error(text: str, kind: KeyKind) -> Unauthorized | None:
    """Return the error for a key of the wrong kind, the documentation's placeholder, or a mistyped key.

    Return None for any other text.

    A key of the wrong kind is a secret key sent as a capability, or a capability sent as a secret key. The error says
    how to use the text, and does not reveal whether the key exists.
    """
    if kind == "key" and CAPABILITY_PREFIX in text:
        message = "This is a capability URL, not a secret key."
        fix = "Use it as the base URL, <gateway>/c/<capability>, where no key is needed; or send a secret key."
    elif kind == "key" and text == "<SECRET_KEY>":
        message = "This is the placeholder of the documentation, not a secret key."
        fix = "Replace it with one of environments.<name>.secret_keys in gateway.yaml."
    elif kind == "capability" and text.startswith(PREFIX):
        message = "This is a secret key, not a capability URL."
        fix = "Send it to /proxy as 'Authorization: Bearer <key>'; URLs get logged, so replace this key."
    elif text.startswith(PREFIXES[kind]) and key_kind(text) is None:
        name = "capability URL" if kind == "capability" else "secret key"
        message = f"This {name} is mistyped or incomplete: its checksum is wrong."
        fix = f"Copy the whole {name} again."
    else:
        return None
    return Unauthorized(
        "unknown_account", f"{message} {fix}", payload=rule_and_fix("key", fix), headers=INVALID_TOKEN_HEADERS
    )


def invalid_key_error(kind: KeyKind) -> Unauthorized:
    """Return the error for an invalid key. Unknown, revoked and expired keys get the same error."""
    if kind == "capability":
        message = "Invalid capability URL: unknown, expired or revoked."
        fix = f"Ask the person who gave you the URL for a new one: {CREATE_KEY}."
    else:
        message = "Invalid secret key: unknown, expired or revoked."
        fix = f"Use a key from environments.<name>.secret_keys in gateway.yaml, or create a key: {CREATE_KEY}."
    return Unauthorized(
        "unknown_account", f"{message} {fix}", payload=rule_and_fix("key", fix), headers=INVALID_TOKEN_HEADERS
    )
