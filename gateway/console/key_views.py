"""Keys at the console: who made which, what each may do and has done, whether it would allow a call; revoke."""

from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.api.keys import as_json
from gateway.console.call_views import row
from gateway.console.console_page import SignedIn, View, console_path
from gateway.errors import NotFound
from gateway.records.access import MintedKey
from gateway.records.operation import OperationFilter
from gateway.runtime import RUNTIME, generation_of

MOST: Final = 500
RECENT: Final = 20


async def keys(request: web.Request, environment: str) -> View:
    """Those of gateway.yaml by name alone, minted ones as a tree of who minted whom."""
    ended = bool(request.query.get("ended"))
    runtime, now = request.app[RUNTIME], clock.now()
    found = await runtime.store.keys.list(environment, alive_at=None if ended else now, limit=MOST)
    declared = generation_of(request).config.environments[environment]
    data = {
        "title": "Keys",
        "ended": ended,
        "declared": len(declared.secret_keys),
        "keys": [{**_shown(key), "depth": depth} for key, depth in tree(found)],
        "more": len(found) == MOST,
    }
    return View("keys.html", data, "keys")


def tree(found: list[MintedKey]) -> list[tuple[MintedKey, int]]:
    """Each behind the one that minted it, and how deep it stands; one whose maker is not among them stands at the top."""
    there = {key.id for key in found}
    below: dict[int | None, list[MintedKey]] = {}
    for key in found:
        below.setdefault(key.parent_id if key.parent_id in there else None, []).append(key)
    result: list[tuple[MintedKey, int]] = []
    waiting = [(key, 0) for key in reversed(below.get(None, []))]
    while waiting:
        key, depth = waiting.pop()
        result.append((key, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(key.id, []))]
    return result


def _shown(key: MintedKey) -> dict[str, Any]:
    shown: dict[str, Any] = dict(as_json(key))
    shown |= {name: shown.get(name) for name in ("rate", "budget", "calls", "expires_at", "revoked_at", "last_used_at")}
    shown["parent_id"] = key.parent_id
    shown["alive"] = key.alive(clock.now())
    return shown


async def key(request: web.Request, environment: str) -> View:
    one = await _found(request, environment, request.query.get("id", ""))
    its = OperationFilter(environment, key_id=one.id, limit=RECENT)
    operations = await request.app[RUNTIME].store.call_log.find(its)
    asked = {name: request.query.get(name, "").strip()[:2000] for name in ("method", "path", "host")}
    data = {
        "title": f"Key {one.id}",
        "key": _shown(one),
        "operations": [row(found) for found in operations.operations],
        "asked": asked,
        "verdict": _verdict(one, asked) if asked["path"] else None,
    }
    return View("key.html", data, "keys")


def _verdict(one: MintedKey, asked: dict[str, str]) -> dict[str, Any]:
    """Whether its scopes and rules would let this request leave; `path` is what the provider gets, base address included."""
    policy = Policy(one.scopes, one.limits)
    path, _, query = asked["path"].partition("?")
    method = asked["method"].upper() or "GET"
    if not policy.may_proxy:
        return {"passes": False, "why": "it has no scope for proxied calls", "rule": None}
    if not one.alive(clock.now()):
        return {"passes": False, "why": "it is revoked or expired", "rule": None}
    decided = policy.decision(SentRequest(method, asked["host"], path, query, ()))
    if isinstance(decided, Breach):
        unknown = " (give the host too: rules by operation are bound to it)" if policy.operation_sets else ""
        return {"passes": False, "why": decided.why + ("" if asked["host"] else unknown), "rule": None}
    return {"passes": True, "why": "a rule allows it" if decided else "it has no rules", "rule": decided or None}


async def _found(request: web.Request, environment: str, text: str) -> MintedKey:
    """Raises NotFound."""
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19):
        raise NotFound("not_found", "A key's id is a whole number.")
    return await request.app[RUNTIME].issuer.find(environment, int(text))


async def revoke(request: web.Request, who: SignedIn, environment: str, fields: dict[str, str]) -> View | str:
    """End it and every key that it minted."""
    one = await _found(request, environment, fields.get("id", ""))
    ended = await request.app[RUNTIME].issuer.revoke(environment, one.id, f"{who.name} at the console")
    data = {
        "title": "The key is revoked",
        "message": f"Key {one.id} ({one.name}) and what it minted are over: {ended} in all.",
        "back": console_path(request, environment, "keys"),
    }
    return View("outcome.html", data, "keys")
