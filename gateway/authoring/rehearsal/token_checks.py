"""Checks of token requests, by auth mode."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.authoring.rehearsal.actor import Arrival
from gateway.authoring.rehearsal.arrival_checks import (
    Check,
    KnownValues,
    client_proof,
    equal,
    header_fields,
    params,
    registered_proof,
)
from gateway.authoring.rehearsal.connect_step import CODE
from gateway.authoring.rehearsal.samples import Samples
from gateway.catalog.provider import Provider

BILL_NAMES = {"username": "username", "password": "password", "organization_id": "organizationId", "dev_key": "devKey"}
GRANTS = frozenset({"OAUTH2", "CUSTOM", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"})


def token_checks(arrivals: list[Arrival], known: KnownValues, samples: Samples, callback: str) -> Iterator[Check]:
    """Check the token requests that created the credential."""
    provider = known.provider
    if not arrivals:
        yield Check("a token was requested", False, ("token_url",), "token_url received no request")
        return
    first = arrivals[0]
    yield from _method(first, provider)
    yield from header_fields(first, provider.token_headers, known, ("token_headers",))
    match provider.auth_mode:
        case mode if mode in GRANTS:
            yield from _code(first, known, samples, callback)
            yield from _later_steps(arrivals[1:], known)
        case "OAUTH2_CC":
            grant = {"grant_type": "client_credentials", **_filled(provider.token_params, known)}
            yield from params(first, grant, ("token_params",), provider.token_param_renames, provider.body_format)
            client = (samples.typed.get("client_id", ""), samples.typed.get("client_secret", ""))
            yield from client_proof(first, provider, client, provider.token_param_renames)
        case "TWO_STEP":
            yield from _two_step(arrivals, known)
        case "BILL":
            own = {name: samples.typed[typed] for typed, name in BILL_NAMES.items()}
            expected = _filled(provider.token_params, known) or own
            yield from params(first, expected, ("token_params",), {}, provider.body_format)
        case "APP":
            signed = first.headers.get("Authorization", "").startswith("Bearer ey")
            yield Check("the app authenticates with a signed JWT", signed, ("jwt",), "Authorization does not have one")


def access_checks(came: list[Arrival], known: KnownValues, user_token: str) -> Iterator[Check]:
    """Check that the end user's access to the installation is confirmed before the installation's token is requested.
    `came`: the requests that created the connection, in order. `user_token`: the end user's access token."""
    role, place = "installation_access_url", ("installation_access_url",)
    first = next((one for one in came if one.role in {role, "installation_token_url"}), None)
    ok = first is not None and first.role == role
    yield Check(f"{role} is called before installation_token_url", ok, place, "it was not")
    if first is None or not ok:
        return
    yield Check("the method is GET", first.method == "GET", place, f"it was {first.method}")
    yield equal("field authorization", f"Bearer {user_token}", first.headers.get("Authorization"), place)
    others = {name: text for name, text in known.provider.token_headers.items() if name.lower() != "authorization"}
    yield from header_fields(first, others, known, ("token_headers",))


def refresh_checks(arrival: Arrival, known: KnownValues, samples: Samples, refresh_token: str) -> Iterator[Check]:
    """Check a refresh request (RFC 6749 §6); of modes without refresh tokens, only that there is a request."""
    provider = known.provider
    if provider.auth_mode not in GRANTS or arrival.role == "installation_token_url":
        yield Check("a token was requested again", True, ("token_url",))
        return
    renames = provider.refresh_param_renames or provider.token_param_renames
    standard: dict[str, str] = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    own = _filled(provider.refresh_params or provider.token_params, known)
    by_access = provider.refresh is not None and provider.refresh.by_access_token
    expected = own if by_access else {**own, **standard}
    place = ("refresh_params",) if provider.refresh_params else ("token_params",)
    yield from params(arrival, expected, place, renames, provider.body_format)
    yield from header_fields(arrival, provider.token_headers, known, ("token_headers",))
    if known.registered:
        yield from registered_proof(arrival, known, renames)
    if provider.auth_mode == "OAUTH2" and "Authorization" not in provider.token_headers:
        yield from client_proof(arrival, provider, (samples.client_id, samples.client_secret), renames)


def _method(arrival: Arrival, provider: Provider) -> Iterator[Check]:
    wanted = provider.token_request_method or "POST"
    yield Check(
        f"the method is {wanted}", arrival.method == wanted, ("token_request_method",), f"it was {arrival.method}"
    )


def _code(arrival: Arrival, known: KnownValues, samples: Samples, callback: str) -> Iterator[Check]:
    provider = known.provider
    standard = {"grant_type": "authorization_code", "code": CODE, "redirect_uri": callback}
    expected: Mapping[str, Any] = {**_filled(provider.token_params, known), **standard}
    renames = provider.token_param_renames
    yield from params(arrival, expected, ("token_params",), renames, provider.body_format)
    if not provider.disable_pkce:
        name = renames.get("code_verifier", "code_verifier")
        ok = not name or name in arrival.params(provider.body_format)
        yield Check("the PKCE verifier is sent", ok, ("disable_pkce",), "it is missing")
    if known.registered:
        yield from registered_proof(arrival, known, renames)
    if provider.auth_mode in {"OAUTH2", "CUSTOM"}:
        yield from client_proof(arrival, provider, (samples.client_id, samples.client_secret), renames)


def _two_step(arrivals: list[Arrival], known: KnownValues) -> Iterator[Check]:
    provider = known.provider
    first = arrivals[0]
    if provider.token_body is not None:
        yield from _body(first, known.deep(provider.token_body), ("token_body",))
    else:
        yield from params(first, _filled(provider.token_params, known), ("token_params",), {}, provider.body_format)
    yield from _later_steps(arrivals[1:], known)


def _later_steps(later: list[Arrival], known: KnownValues) -> Iterator[Check]:
    provider = known.provider
    for index, step in enumerate(provider.additional_steps or ()):
        place = ("additional_steps", index)
        if index >= len(later):
            yield Check(f"step {index + 2} was requested", False, place, "no request was received")
            return
        arrival = later[index]
        ok = arrival.method == step.method
        what = f"the method of step {index + 2} is {step.method}"
        yield Check(what, ok, (*place, "method"), f"it was {arrival.method}")
        yield from header_fields(arrival, step.headers, known, (*place, "headers"))
        if step.body is not None:
            yield from _body(arrival, known.deep(step.body), (*place, "body"))
        else:
            expected = _filled(step.params, known)
            yield from params(arrival, expected, (*place, "params"), {}, step.body_format or provider.body_format)


def _body(arrival: Arrival, expected: Any, place: tuple[str | int, ...]) -> Iterator[Check]:
    arrived = arrival.params("json")
    for name, value in expected.items():
        if value not in ({}, []):
            yield equal(f"member {name}", value, arrived.get(name), (*place, name))


def _filled(templates: Mapping[str, str], known: KnownValues) -> dict[str, str]:
    """Return the fields whose values are known. The gateway leaves fields without a value out of the request."""
    texts = {name: known.text(template) for name, template in templates.items()}
    return {name: text for name, text in texts.items() if text is not None}
