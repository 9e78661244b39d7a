"""Checks the token requests of a rehearsal, by auth mode."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.authoring.rehearsal.actor import ReceivedRequest
from gateway.authoring.rehearsal.connect_step import CODE
from gateway.authoring.rehearsal.request_checks import (
    KnownValues,
    RehearsalCheck,
    client_auth_checks,
    equality_check,
    header_checks,
    parameter_checks,
    registered_client_checks,
)
from gateway.authoring.rehearsal.samples import Samples
from gateway.catalog.provider import Provider

BILL_NAMES = {"username": "username", "password": "password", "organization_id": "organizationId", "dev_key": "devKey"}
GRANTS = frozenset({"OAUTH2", "CUSTOM", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"})


def token_checks(
    arrivals: list[ReceivedRequest], known_values: KnownValues, samples: Samples, callback: str
) -> Iterator[RehearsalCheck]:
    """Check the token requests that created the credential."""
    provider = known_values.provider
    if not arrivals:
        yield RehearsalCheck("a token was requested", False, ("token_url",), "token_url received no request")
        return
    first_request = arrivals[0]
    yield from _method_checks(first_request, provider)
    yield from header_checks(first_request, provider.token_headers, known_values, ("token_headers",))
    match provider.auth_mode:
        case mode if mode in GRANTS:
            yield from _code_checks(first_request, known_values, samples, callback)
            yield from _later_step_checks(arrivals[1:], known_values)
        case "OAUTH2_CC":
            grant = {"grant_type": "client_credentials", **_known_fields(provider.token_params, known_values)}
            yield from parameter_checks(
                first_request, grant, ("token_params",), provider.token_param_renames, provider.body_format
            )
            client = (samples.typed_values.get("client_id", ""), samples.typed_values.get("client_secret", ""))
            yield from client_auth_checks(first_request, provider, client, provider.token_param_renames)
        case "TWO_STEP":
            yield from _two_step_checks(arrivals, known_values)
        case "BILL":
            own_params = {name: samples.typed_values[typed_values] for typed_values, name in BILL_NAMES.items()}
            expected = _known_fields(provider.token_params, known_values) or own_params
            yield from parameter_checks(first_request, expected, ("token_params",), {}, provider.body_format)
        case "APP":
            has_jwt = first_request.headers.get("Authorization", "").startswith("Bearer ey")
            yield RehearsalCheck(
                "the app authenticates with a signed JWT", has_jwt, ("jwt",), "Authorization does not have one"
            )


def access_checks(
    requests: list[ReceivedRequest], known_values: KnownValues, user_token: str
) -> Iterator[RehearsalCheck]:
    """Check that the gateway calls `installation_access_url` before it requests the installation's token.

    The call confirms that the end user has access to the installation.
    `requests`: the requests that created the connection, in order. `user_token`: the end user's access token.
    """
    role, place = "installation_access_url", ("installation_access_url",)
    first_request = next((request for request in requests if request.role in {role, "installation_token_url"}), None)
    passed = first_request is not None and first_request.role == role
    yield RehearsalCheck(f"{role} is called before installation_token_url", passed, place, "it was not")
    if first_request is None or not passed:
        return
    yield RehearsalCheck("the method is GET", first_request.method == "GET", place, f"it was {first_request.method}")
    yield equality_check(
        "field authorization", f"Bearer {user_token}", first_request.headers.get("Authorization"), place
    )
    other_headers = {
        name: text for name, text in known_values.provider.token_headers.items() if name.lower() != "authorization"
    }
    yield from header_checks(first_request, other_headers, known_values, ("token_headers",))


def refresh_checks(
    arrival: ReceivedRequest, known_values: KnownValues, samples: Samples, refresh_token: str
) -> Iterator[RehearsalCheck]:
    """Check a refresh request (RFC 6749 §6). For auth modes without refresh tokens, only note that there was a request."""
    provider = known_values.provider
    if provider.auth_mode not in GRANTS or arrival.role == "installation_token_url":
        yield RehearsalCheck("a token was requested again", True, ("token_url",))
        return
    renames = provider.refresh_param_renames or provider.token_param_renames
    standard_params: dict[str, str] = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    own_params = _known_fields(provider.refresh_params or provider.token_params, known_values)
    uses_access_token = provider.refresh is not None and provider.refresh.by_access_token
    expected = own_params if uses_access_token else {**own_params, **standard_params}
    place = ("refresh_params",) if provider.refresh_params else ("token_params",)
    yield from parameter_checks(arrival, expected, place, renames, provider.body_format)
    yield from header_checks(arrival, provider.token_headers, known_values, ("token_headers",))
    if known_values.registered_client:
        yield from registered_client_checks(arrival, known_values, renames)
    if provider.auth_mode == "OAUTH2" and "Authorization" not in provider.token_headers:
        yield from client_auth_checks(arrival, provider, (samples.client_id, samples.client_secret), renames)


def _method_checks(arrival: ReceivedRequest, provider: Provider) -> Iterator[RehearsalCheck]:
    expected_method = provider.token_request_method or "POST"
    yield RehearsalCheck(
        f"the method is {expected_method}",
        arrival.method == expected_method,
        ("token_request_method",),
        f"it was {arrival.method}",
    )


def _code_checks(
    arrival: ReceivedRequest, known_values: KnownValues, samples: Samples, callback: str
) -> Iterator[RehearsalCheck]:
    provider = known_values.provider
    standard_params = {"grant_type": "authorization_code", "code": CODE, "redirect_uri": callback}
    expected: Mapping[str, Any] = {**_known_fields(provider.token_params, known_values), **standard_params}
    renames = provider.token_param_renames
    yield from parameter_checks(arrival, expected, ("token_params",), renames, provider.body_format)
    if not provider.disable_pkce:
        name = renames.get("code_verifier", "code_verifier")
        passed = not name or name in arrival.params(provider.body_format)
        yield RehearsalCheck("the PKCE verifier is sent", passed, ("disable_pkce",), "it is missing")
    if known_values.registered_client:
        yield from registered_client_checks(arrival, known_values, renames)
    if provider.auth_mode in {"OAUTH2", "CUSTOM"}:
        yield from client_auth_checks(arrival, provider, (samples.client_id, samples.client_secret), renames)


def _two_step_checks(arrivals: list[ReceivedRequest], known_values: KnownValues) -> Iterator[RehearsalCheck]:
    provider = known_values.provider
    first_request = arrivals[0]
    if provider.token_body is not None:
        yield from _body_checks(first_request, known_values.fill_json(provider.token_body), ("token_body",))
    else:
        yield from parameter_checks(
            first_request,
            _known_fields(provider.token_params, known_values),
            ("token_params",),
            {},
            provider.body_format,
        )
    yield from _later_step_checks(arrivals[1:], known_values)


def _later_step_checks(later_requests: list[ReceivedRequest], known_values: KnownValues) -> Iterator[RehearsalCheck]:
    provider = known_values.provider
    for index, step in enumerate(provider.additional_steps or ()):
        place = ("additional_steps", index)
        if index >= len(later_requests):
            yield RehearsalCheck(f"step {index + 2} was requested", False, place, "no request was received")
            return
        arrival = later_requests[index]
        passed = arrival.method == step.method
        check_text = f"the method of step {index + 2} is {step.method}"
        yield RehearsalCheck(check_text, passed, (*place, "method"), f"it was {arrival.method}")
        yield from header_checks(arrival, step.headers, known_values, (*place, "headers"))
        if step.body is not None:
            yield from _body_checks(arrival, known_values.fill_json(step.body), (*place, "body"))
        else:
            expected = _known_fields(step.params, known_values)
            yield from parameter_checks(
                arrival, expected, (*place, "params"), {}, step.body_format or provider.body_format
            )


def _body_checks(arrival: ReceivedRequest, expected: Any, place: tuple[str | int, ...]) -> Iterator[RehearsalCheck]:
    received_members = arrival.params("json")
    for name, value in expected.items():
        if value not in ({}, []):
            yield equality_check(f"member {name}", value, received_members.get(name), (*place, name))


def _known_fields(templates: Mapping[str, str], known_values: KnownValues) -> dict[str, str]:
    """Return the fields whose templates can be filled in. The gateway does not send fields without a value."""
    texts = {name: known_values.text(template) for name, template in templates.items()}
    return {name: text for name, text in texts.items() if text is not None}
