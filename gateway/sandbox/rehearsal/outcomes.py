"""What a step comes to: the credential's place, the pages of a list, what became of tokens; and what stays open."""

import base64
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gateway.catalog.places import Place
from gateway.catalog.provider import Provider
from gateway.catalog.template import placeholders
from gateway.catalog.traffic import Paginate
from gateway.sandbox.rehearsal import signed
from gateway.sandbox.rehearsal.actor import CALL
from gateway.sandbox.rehearsal.answers import PAGE, RECORDS
from gateway.sandbox.rehearsal.arrival import Arrival
from gateway.sandbox.rehearsal.checks import Check, Known, proxied
from gateway.sandbox.rehearsal.samples import Samples


def placed(
    arrival: Arrival, known: Known, samples: Samples, entry: Mapping[str, Any], shown: Mapping[str, Any]
) -> Iterator[Check]:
    """A proxied call with the credential on it. `shown`: the connection as our API shows it."""
    provider = known.provider
    yield from proxied(arrival, known, entry, CALL, _default(known))
    held = shown.get("credentials", {})
    client = (samples.client_id, samples.client_secret)
    match provider.auth_mode:
        case "OAUTH1":
            token = (held["oauth_token"], held["oauth_token_secret"])
            yield from signed.oauth1(arrival, client, token, provider.signature_method or "HMAC-SHA1")
        case "TBA":
            token = (samples.typed["token_id"], samples.typed["token_secret"])
            yield from signed.oauth1(arrival, client, token, provider.signature_method or "HMAC-SHA256")
        case "AWS_SIGV4":
            yield from signed.aws(arrival, known, samples.typed.get("access_key_id", ""))
        case "JWT" if provider.jwt is not None:
            key, *_ = (samples.typed[name.rpartition(".")[2]] for name in placeholders(provider.jwt.key))
            yield from signed.jwt(held["token"], key, known)


def _default(known: Known) -> str | None:
    """What the mode writes where the entry says nothing: the whole field, or how it begins."""
    match known.provider.auth_mode:
        case "BASIC" | "INSTALL_PLUGIN":
            pair = f"{known.values.get('username', '')}:{known.values.get('password', '')}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "OAUTH1" | "TBA":
            return "OAuth "
        case "API_KEY" | "NONE" | "AWS_SIGV4" | "BILL":
            return None
    return f"Bearer {known.values['accessToken']}" if "accessToken" in known.values else "Bearer "


def paged(way: Paginate, status: int, text: str, came: list[Arrival]) -> Iterator[Check]:
    """A whole list; `text` is what the caller got."""
    place: Place = ("proxy", "paginate")
    lines = [json.loads(line) for line in text.splitlines() if line.strip()] if status == 200 else []
    trailer = lines[-1].get("gateway_trailer", {}) if lines else {}
    told = f"it answered {status}: {text[:200]}" if status != 200 else json.dumps(trailer)[:200]
    expected = [f"r{number}" for number in range(RECORDS)]
    whole = [line.get("id") for line in lines[:-1]] == expected and bool(trailer.get("complete"))
    yield Check(f"{RECORDS} records of {-(-RECORDS // PAGE)} pages come once each, in order", whole, place, told)
    if limit := way.limit_name_in_request:
        ok = all(one.query.get(limit) == str(PAGE) for one in came[:1])
        yield Check(
            f"query {limit} is the page size", ok, (*place, "limit_name_in_request"), "it is missing or another"
        )
    moving = way.cursor_name_in_request if way.type == "cursor" else way.offset_name_in_request
    if way.type != "link" and moving and len(came) > 1:
        ok = all(moving in one.query for one in came[1:])
        yield Check(
            f"query {moving} leads to the next page", ok, (*place, f"{way.type}_name_in_request"), "it is missing"
        )


def revoked(
    provider: Provider, told: Collection[Mapping[str, Any]], came: list[Arrival], tokens: Collection[str]
) -> Iterator[Check]:
    """`told` is what our API says of each token; `tokens` are all that were given out."""
    place: Place = ("revocation_url",)
    yield Check("revocation_url was called", bool(came), place, "no request came")
    for outcome in told:
        ok = outcome["outcome"] in {"revoked", "already_invalid"}
        yield Check(f"{outcome['token']} is revoked", ok, place, str(outcome))
    spec = provider.revocation
    wanted = spec.method if spec else "POST"
    for one in came[:1]:
        yield Check(f"the method is {wanted}", one.method == wanted, ("revocation", "method"), f"it was {one.method}")
        name = (spec.param_renames if spec else {}).get("token", "token")
        if name:
            ok = one.params(spec.body_format if spec else None).get(name) in tokens
            yield Check(f"parameter {name} is a token", ok, ("revocation",), "it is missing or another")


def unproved(provider: Provider) -> list[str]:
    """What stays open, however well it went."""
    found = [
        "the real provider was not called: whether its addresses, scopes and answers are what the entry says is not shown"
    ]
    if provider.alternatives:
        found.append(f"alternatives were not tried: {', '.join(provider.alternatives)}")
    if provider.proxy.paginate_alternatives:
        found.append("proxy.paginate_alternatives were not tried")
    if provider.require_client_certificate:
        found.append("the client certificate was not asked for: the sandbox speaks plain HTTP")
    if provider.proxy.retry is not None:
        found.append("proxy.retry was not tried")
    if provider.webhook_signature is not None:
        found.append("webhook_signature was not tried")
    return found
