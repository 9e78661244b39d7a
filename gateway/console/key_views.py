"""The console's pages of keys: the tree of keys, the rights and calls of one key, and forms to mint and revoke keys.

The page of a key can also check whether the key allows a given request.
"""

import math
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.access.caller import Access, Caller
from gateway.access.key_policy import Breach, Policy, SentRequest
from gateway.api.keys import NewKeyBody, key_json, operator_warnings, requested_key, secret_json
from gateway.api.request_body import validated
from gateway.console.call_views import rows
from gateway.console.console_page import SignedIn, View, console_path
from gateway.console.query_fields import fields_of, number_in
from gateway.console.sign_in import FORM_BYTES
from gateway.errors import GatewayError, InvalidRequest, NotFound
from gateway.off_loop import off_loop
from gateway.records.access import Environment, MintedKey
from gateway.records.connection import Connection
from gateway.records.filters import single_or_any_set
from gateway.records.operation import OperationFilter
from gateway.runtime import RUNTIME, generation_of
from gateway.text import whole_number

ROWS_PER_PAGE: Final = 80
MAX_RECENT_ROWS: Final = 20
MINT_FIELDS: Final = (
    "name",
    "kind",
    "scopes",
    "rules",
    "integrations",
    "connections",
    "hosts",
    "rate",
    "budget",
    "days",
)
FORM_FIELDS: Final = (*MINT_FIELDS, "parent")


async def keys(request: web.Request, environment: str) -> View:
    """Show the number of keys in gateway.yaml, and the minted keys as a tree, each below the key that minted it."""
    show_ended = bool(request.query.get("ended"))
    runtime, now = request.app[RUNTIME], clock.now()
    before_id = number_in(fields_of(request.query, ("before",)), "before")
    keys = await runtime.store.keys.list(
        environment, alive_at=None if show_ended else now, before_id=before_id, limit=ROWS_PER_PAGE + 1
    )
    keys, has_more = keys[:ROWS_PER_PAGE], len(keys) > ROWS_PER_PAGE
    environment_config = generation_of(request).config.environments[environment]
    integrations = [
        integration.integration_id for integration in generation_of(request).integrations.list_in(environment)
    ]
    data = {
        "title": "Keys",
        "faults": [],
        "typed": {
            **dict.fromkeys(FORM_FIELDS, ""),
            "integrations": integrations[0] if len(integrations) == 1 else "",
            "days": "90",
        },
        "ended": show_ended,
        "declared": len(environment_config.secret_keys),
        "keys": [{**_key_json(key), "depth": depth} for key, depth in in_tree_order(keys)],
        "following": keys[-1].id if has_more else None,
        "parents": [{"id": key.id, "name": key.name} for key in keys if key.is_valid(now)],
        "integrations": integrations,
    }
    return View("keys.html", data, "keys")


def in_tree_order(keys: list[MintedKey]) -> list[tuple[MintedKey, int]]:
    """Return the keys in the order of the tree, each with its depth: a key comes after the key that minted it.

    The depth is 0 if the key that minted it is not in `keys`.
    """
    ids = {key.id for key in keys}
    children: dict[int | None, list[MintedKey]] = {}
    for key in keys:
        children.setdefault(key.parent_id if key.parent_id in ids else None, []).append(key)
    result: list[tuple[MintedKey, int]] = []
    pending = [(key, 0) for key in reversed(children.get(None, []))]
    while pending:
        key, depth = pending.pop()
        result.append((key, depth))
        pending += [(child, depth + 1) for child in reversed(children.get(key.id, []))]
    return result


def _key_json(key: MintedKey) -> dict[str, Any]:
    key_object: dict[str, Any] = dict(key_json(key))
    key_object |= {
        name: key_object.get(name) for name in ("rate", "budget", "calls", "expires_at", "revoked_at", "last_used_at")
    }
    key_object["parent_id"] = key.parent_id
    key_object["alive"] = key.is_valid(clock.now())
    return key_object


async def key(request: web.Request, environment: str) -> View:
    key = await _find_key(request, environment, request.query.get("id", ""))
    key_filter = OperationFilter(environment, key_ids=single_or_any_set(key.id), limit=MAX_RECENT_ROWS)
    operations = await request.app[RUNTIME].store.call_log.find(key_filter)
    query = {name: request.query.get(name, "").strip()[:2000] for name in ("method", "path", "host")}
    data = {
        "title": f"Key {key.id}",
        "key": _key_json(key),
        "operations": await rows(request.app[RUNTIME].store, environment, operations.operations),
        "asked": query,
        "verdict": await off_loop(str(key.id), _verdict_of_query, key, query) if query["path"] else None,
    }
    return View("key.html", data, "keys")


def _verdict_of_query(key: MintedKey, query: dict[str, str]) -> dict[str, Any]:
    """Return whether the key allows the request in `query`.

    The ``path`` in `query` is the path that is sent to the provider, with the path of the base URL.
    """
    path, _, query_string = query["path"].partition("?")
    return verdict(key, SentRequest(query["method"].upper() or "GET", query["host"], path, query_string, ()))


def verdict(key: MintedKey, sent_request: SentRequest, connection: Connection | None = None) -> dict[str, Any]:
    """Return whether the key's scopes, limits and rules would allow this request now, and why.

    `connection`: the connection that the request uses; None: the limits on connections are not checked.
    """
    policy = Policy(key.scopes, key.limits)
    if not policy.may_proxy:
        return {"passes": False, "why": "it has no scope for proxied calls", "rule": None}
    if not key.is_valid(clock.now()):
        return {"passes": False, "why": "it is revoked or expired", "rule": None}
    if connection is not None and not (
        policy.reaches(connection.ref.integration_id, connection.ref.connection_id)
        and policy.allows_tags(connection.tags)
    ):
        return {"passes": False, "why": "its limits do not include this connection", "rule": None}
    decision = policy.decision(sent_request)
    if isinstance(decision, Breach):
        host_hint = " (give the host too: its rules for operations need it)" if policy.operation_sets else ""
        return {"passes": False, "why": decision.reason + ("" if sent_request.host else host_hint), "rule": None}
    return {"passes": True, "why": "a rule allows it" if decision else "it has no rules", "rule": decision or None}


async def _find_key(request: web.Request, environment: str, text: str) -> MintedKey:
    """Return the key with the id in `text`. Raises NotFound."""
    key_id = whole_number(text)
    if key_id is None:
        raise NotFound("not_found", "A key's id is a whole number.")
    key = await request.app[RUNTIME].store.keys.find(environment, key_id)
    if key is None:
        raise NotFound("not_found", f"Environment '{environment}' has no key {key_id}. Keys lists the existing keys.")
    return key


async def refused_mint(request: web.Request, environment: str, fields: dict[str, str], fault: GatewayError) -> View:
    """Show the page of keys with the faults of the form, and with the values that the operator typed."""
    view = await keys(request, environment)
    typed_fields = fields_of(fields, FORM_FIELDS, FORM_BYTES)
    faults = [issue.message for issue in fault.errors] or [fault.message]
    return View(view.template, {**view.data, "faults": faults, "typed": typed_fields}, view.section)


async def mint(request: web.Request, signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Mint a key. Only this page shows the key. If the form names a parent key, the parent's limits apply too."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    body = validated(_mint_request_body(fields), NewKeyBody, "invalid_body")
    key_request, caller = requested_key(body), None
    if parent := fields.get("parent", ""):
        parent_key = await _find_key(request, environment, parent)
        if not parent_key.is_valid(clock.now()):
            raise InvalidRequest(
                "invalid_body", f"Key {parent_key.id} is revoked or expired, so it cannot be the parent of a key."
            )
        caller = Caller(
            Environment(environment), Access(parent_key, Policy(parent_key.scopes, parent_key.limits), None, math.inf)
        )
    secret, key = await runtime.issuer.create(key_request, environment, f"{signed_in.name} at the console", caller)
    secret_object = secret_json(secret, key, generation.public_url)
    data = {
        "title": f"Key {key.id}",
        "message": "Copy the key now: it is not shown again. The gateway stores only its digest.",
        "link": secret_object.get("base_url", secret_object["secret"]),
        "until": "it is revoked" if key.expires_at is None else key.expires_at.isoformat(timespec="seconds"),
        "details": await operator_warnings(key_request, environment, runtime),
        "back": console_path(request, environment, "key", id=str(key.id)),
    }
    return View("outcome.html", data, "keys")


def _mint_request_body(fields: dict[str, str]) -> dict[str, Any]:
    """Return the fields of the form as the body of the API request that mints a key. Raises InvalidRequest."""
    # The whole form has at most FORM_BYTES, so no field is cut here. A rule that is cut would allow other requests.
    sent_fields = fields_of(fields, MINT_FIELDS, FORM_BYTES)
    limits: dict[str, Any] = {
        name: lines
        for name in ("rules", "integrations", "connections", "hosts")
        if (lines := sent_fields[name].split("\n"))[0]
    }
    limits = {name: [line.strip() for line in lines if line.strip()] for name, lines in limits.items()}
    limits |= {name: number_in(sent_fields, name) for name in ("rate", "budget") if sent_fields[name]}
    body: dict[str, Any] = {"display_name": sent_fields["name"], "kind": sent_fields["kind"] or "key", "limits": limits}
    if sent_fields["scopes"]:
        body["scopes"] = sent_fields["scopes"].split()
    if (days := number_in(sent_fields, "days")) is not None:
        body["expires_in_s"] = days * 86_400
    return body


async def revoke(request: web.Request, signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View | str:
    """Revoke the key and every key that it minted."""
    key = await _find_key(request, environment, fields.get("id", ""))
    revoked_count = await request.app[RUNTIME].issuer.revoke(environment, key.id, f"{signed_in.name} at the console")
    data = {
        "title": "The key is revoked",
        "message": f"Key {key.id} ({key.name}) and the keys that it minted: {revoked_count} revoked.",
        "back": console_path(request, environment, "keys"),
    }
    return View("outcome.html", data, "keys")
