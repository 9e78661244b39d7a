"""Runs the steps of a rehearsal (connect, verify, call, refresh, page, revoke) and returns the outcome of each step."""

import base64
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientError

from gateway.authoring.rehearsal import request_checks
from gateway.authoring.rehearsal.actor import (
    CALL_PATH,
    LIST_PATH,
    PlayedProvider,
    ReceivedRequest,
    Sockets,
    serve_actor,
)
from gateway.authoring.rehearsal.connect_step import (
    CODE,
    authorization_checks,
    connect_by_browser,
    connect_by_form,
    expected_callback,
    import_credential,
    integration_keys,
    is_redirecting,
    state_in,
)
from gateway.authoring.rehearsal.played_responses import PAGE_SIZE, RECORDS
from gateway.authoring.rehearsal.rehearsal_gateway import INTEGRATION, Gateway, RehearsalRefused, run_gateway
from gateway.authoring.rehearsal.request_checks import KnownValues, RehearsalCheck, header_checks, proxied_call_checks
from gateway.authoring.rehearsal.samples import Samples, samples_for
from gateway.authoring.rehearsal.stage import Stage
from gateway.authoring.rehearsal.token_checks import access_checks, refresh_checks, token_checks
from gateway.catalog.pagination import is_requested_by_post
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Paginate
from gateway.catalog.template import placeholders
from gateway.catalog.template_places import Place
from gateway.catalog.value import flat_values
from gateway.records.provider_call import scrubbed

# ── The state of a rehearsal, and the values with which the next request is compared.

TOKEN_ROLES: Final = ("token_url", "refresh_url", "installation_token_url")


@dataclass(slots=True)
class RehearsalState:
    """The state of a rehearsal: the connection, and the values that the played provider has issued so far.

    `entry`: the rewritten entry. `config`: the connection's settings. `connection_json`: the connection as the gateway's
    API shows it.
    """

    gateway: Gateway
    actor: PlayedProvider
    samples: Samples
    entry: dict[str, Any]
    connection_id: str = "rehearsal"
    config: dict[str, str] = field(default_factory=dict)
    connection_json: dict[str, Any] = field(default_factory=dict)

    @property
    def provider(self) -> Provider:
        return self.actor.provider

    def secrets(self) -> list[str]:
        """Return the values that the report must mask: entered credentials, client secrets and issued tokens."""
        registered_secret = self.actor.registered_client.get("client_secret")
        known_secrets = [*self.samples.secrets(), *([registered_secret] if registered_secret else [])]
        return [*known_secrets, *self.actor.tokens, *self.actor.refresh_tokens]

    def step_place(self, step: str, first_index: int) -> Place:
        """Return the entry's field that describes `step`, for messages.

        If no single field describes the step, return the field of the last request. `first_index`: the index of the
        step's first request.
        """
        arrivals = self.actor.received_since(first_index)
        place = {
            "verification": ("proxy", "verification"),
            "page": ("proxy", "paginate"),
            "revocation": ("revocation_url",),
        }
        if step in place or not arrivals:
            return place.get(step, ())
        role = arrivals[-1].role
        return (
            ("proxy", "base_url") if role == "proxy" else ("additional_steps",) if role.startswith("step") else (role,)
        )

    def known_values(self) -> KnownValues:
        """Return the values that fill the placeholders of templates in the next request."""
        credentials = self.connection_json.get("credentials", {})
        stored_values = {name: value for name, value in credentials.items() if isinstance(value, str)}
        credential_values = {**self.samples.typed_values, **stored_values}
        values = {
            placeholder: text
            for name, text in credential_values.items()
            for placeholder in (name, f"credentials.{name}")
        }
        values |= {f"assertionOption.{name}": text for name, text in self.samples.assertion.items()}
        client = {"clientId": self.samples.client_id, "clientSecret": self.samples.client_secret}
        if self.provider.auth_mode == "OAUTH2_CC":
            client = {
                "clientId": credential_values.get("client_id", ""),
                "clientSecret": credential_values.get("client_secret", ""),
            }
        registered_client = self.actor.registered_client
        if registered_client:
            client = {
                "clientId": registered_client["client_id"],
                "clientSecret": registered_client.get("client_secret", ""),
            }
        if self.provider.auth_mode == "INSTALL_PLUGIN":
            values |= {"username": client["clientId"], "password": client["clientSecret"]}
        # The gateway builds a SIGNATURE token and reuses it for a while, so the next token is not known in advance.
        names = ("access_token", "token", "session_id")
        token = next(filter(None, map(credentials.get, names)), None) or self.actor.access_token
        if token and self.provider.auth_mode != "SIGNATURE":
            values |= {"accessToken": token, "credentials.accessToken": token}
        values |= {f"credentials.raw.{name}": text for name, text in flat_values(self.actor.raw).items()}
        for step, responses in self.actor.steps.items():
            values |= {f"{step}.{name}": text for name, text in flat_values(responses).items()}
        return KnownValues(self.provider, self.config, {**values, **client}, registered_client)

    async def read_connection(self) -> None:
        """Update `connection_json` and `config` from the gateway's API."""
        self.connection_json = await self.gateway.connection(self.connection_id)
        values = flat_values(self.connection_json.get("connection_config") or {})
        self.config = {**self.samples.config, **{name: text for name, text in values.items() if text}}

    def token_requests(self, first_index: int) -> list[ReceivedRequest]:
        """Return the requests to token URLs and for additional steps, from the index `first_index` on."""
        arrivals = self.actor.received_since(first_index)
        return [arrival for arrival in arrivals if arrival.role in TOKEN_ROLES or arrival.role.startswith("step")]


# ── Checks of single steps (the credential in a call, the pages of a list, the revocation of tokens), and the points that
# a rehearsal cannot prove.


def call_checks(
    arrival: ReceivedRequest,
    known_values: KnownValues,
    samples: Samples,
    entry: Mapping[str, Any],
    connection: Mapping[str, Any],
) -> Iterator[RehearsalCheck]:
    """Check a proxied call and its credential. `connection`: the connection as the gateway's API shows it."""
    provider = known_values.provider
    yield from proxied_call_checks(arrival, known_values, entry, CALL_PATH, _default_authorization(known_values))
    credentials = connection.get("credentials", {})
    client = (samples.client_id, samples.client_secret)
    match provider.auth_mode:
        case "OAUTH1":
            token = (credentials["oauth_token"], credentials["oauth_token_secret"])
            yield from request_checks.oauth1_checks(arrival, client, token, provider.signature_method or "HMAC-SHA1")
        case "TBA":
            token = (samples.typed_values["token_id"], samples.typed_values["token_secret"])
            yield from request_checks.oauth1_checks(arrival, client, token, provider.signature_method or "HMAC-SHA256")
        case "AWS_SIGV4":
            yield from request_checks.aws_checks(arrival, known_values, samples.typed_values.get("access_key_id", ""))
        case "JWT" if provider.jwt is not None:
            key, *_ = (samples.typed_values[name.rpartition(".")[2]] for name in placeholders(provider.jwt.key))
            yield from request_checks.jwt_checks(credentials["token"], key, known_values)


def _default_authorization(known_values: KnownValues) -> str | None:
    """Return the Authorization field that the auth mode writes if no template of the entry has a credential.

    A result that ends with a space is only the beginning of the field. Return None if the mode writes no such field.
    """
    match known_values.provider.auth_mode:
        case "BASIC" | "INSTALL_PLUGIN":
            pair = f"{known_values.values.get('username', '')}:{known_values.values.get('password', '')}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "OAUTH1" | "TBA":
            return "OAuth "
        case "API_KEY" | "NONE" | "AWS_SIGV4" | "BILL":
            return None
    return f"Bearer {known_values.values['accessToken']}" if "accessToken" in known_values.values else "Bearer "


def page_checks(scheme: Paginate, status: int, text: str, arrivals: list[ReceivedRequest]) -> Iterator[RehearsalCheck]:
    """Check a list that the gateway paginated.

    `text`: the body that the caller received. `arrivals`: the requests to the provider, one for each page.
    """
    place: Place = ("proxy", "paginate")
    lines = [json.loads(line) for line in text.splitlines() if line.strip()] if status == 200 else []
    trailer = lines[-1].get("gateway_trailer", {}) if lines else {}
    detail = f"the status was {status}: {text[:200]}" if status != 200 else json.dumps(trailer)[:200]
    expected = [f"r{number}" for number in range(RECORDS)]
    is_complete = [line.get("id") for line in lines[:-1]] == expected and bool(trailer.get("complete"))
    page_count = -(-RECORDS // PAGE_SIZE)
    yield RehearsalCheck(
        f"{RECORDS} records of {page_count} pages are returned once each, in order", is_complete, place, detail
    )
    if limit := scheme.limit_name_in_request:
        passed = all(arrival.query.get(limit) == str(PAGE_SIZE) for arrival in arrivals[:1])
        limit_place = (*place, "limit_name_in_request")
        yield RehearsalCheck(
            f"query {limit} is the page size", passed, limit_place, "it is missing or has another value"
        )
    name = scheme.cursor_name_in_request if scheme.type == "cursor" else scheme.offset_name_in_request
    if scheme.type != "link" and name and len(arrivals) > 1:
        passed = all(name in arrival.query for arrival in arrivals[1:])
        limit_place = (*place, f"{scheme.type}_name_in_request")
        yield RehearsalCheck(f"query {name} selects the next page", passed, limit_place, "it is missing")


def revocation_checks(
    provider: Provider,
    outcomes: Collection[Mapping[str, Any]],
    arrivals: list[ReceivedRequest],
    tokens: Collection[str],
) -> Iterator[RehearsalCheck]:
    """Check the requests with which the gateway revoked tokens at the provider. `outcomes`: the gateway's report for
    each token. `tokens`: all issued tokens."""
    place: Place = ("revocation_url",)
    yield RehearsalCheck("revocation_url was called", bool(arrivals), place, "no request was received")
    for outcome in outcomes:
        passed = outcome["outcome"] in {"revoked", "already_invalid"}
        yield RehearsalCheck(f"{outcome['token']} is revoked", passed, place, str(outcome))
    spec = provider.revocation
    expected_method = spec.method if spec else "POST"
    for arrival in arrivals[:1]:
        passed = arrival.method == expected_method
        yield RehearsalCheck(
            f"the method is {expected_method}", passed, ("revocation", "method"), f"it was {arrival.method}"
        )
        name = (spec.param_renames if spec else {}).get("token", "token")
        if name:
            passed = arrival.params(spec.body_format if spec else None).get(name) in tokens
            yield RehearsalCheck(
                f"parameter {name} is a token", passed, ("revocation",), "it is missing or has another value"
            )


def unproved_points(provider: Provider) -> list[str]:
    """Return the points that a rehearsal cannot prove for this provider."""
    points = [
        "the real provider was not called, so its URLs, scopes and responses may differ from the entry",
    ]
    if provider.alternatives:
        points.append(f"alternatives were not tested: {', '.join(provider.alternatives)}")
    if provider.proxy.paginate_alternatives:
        points.append("proxy.paginate_alternatives were not tested")
    if provider.require_client_certificate:
        points.append("the client certificate was not requested, since the sandbox uses plain HTTP")
    if provider.proxy.retry is not None:
        points.append("proxy.retry was not tested")
    if provider.webhook_signature is not None:
        points.append("webhook_signature was not tested")
    return points


# Auth modes whose tokens the gateway refreshes by a request to the provider.
MODES_WITH_REFRESH: Final = frozenset(
    {"OAUTH2", "OAUTH2_CC", "TWO_STEP", "BILL", "APP", "CUSTOM", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"}
)
REFRESH_SKIPPED: Final = {
    "JWT": "the gateway signs a new token itself, without a request to the provider",
    "SIGNATURE": "the gateway builds a new token itself, without a request to the provider",
}


@dataclass(slots=True)
class RehearsedStep:
    """A step of a rehearsal.

    `sent`: the masked lines of each request to the provider. `skipped`: why the step was skipped; None if the step ran.
    """

    name: str
    sent: list[list[str]] = field(default_factory=list)
    checks: list[RehearsalCheck] = field(default_factory=list)
    skipped: str | None = None


@dataclass(slots=True)
class RehearsalReport:
    """A finished rehearsal.

    `origins`: for each origin of the provider, the local origin that replaced it. `unproved`: the points that the
    rehearsal could not prove, as text.
    """

    steps: list[RehearsedStep]
    origins: Mapping[str, str]
    unproved: list[str]

    @property
    def ok(self) -> bool:
        return all(check.ok for step in self.steps for check in step.checks)


async def rehearse(provider: Provider, given_values: Mapping[str, str]) -> RehearsalReport:
    """Run all steps for `provider`. `given_values`: values for settings and credentials, by name. Raises NoSample, Faults."""
    samples = samples_for(provider, given_values)
    sockets = Sockets()
    stage = Stage(provider, sockets.origins())
    entry = stage.entry()
    sandbox_origin = next(iter(stage.origins.values()))
    actor = PlayedProvider(stage, entry)
    with tempfile.TemporaryDirectory(prefix="gateway-rehearsal-") as folder:
        integration = integration_keys(provider, samples, sandbox_origin)
        async with serve_actor(actor, sockets), run_gateway(Path(folder), entry, integration) as gateway:
            rehearsal = _Rehearsal(gateway, actor, samples, entry)
            await rehearsal.run_all_steps()
    known_values = {
        **samples.typed_values,
        **{f"credentials.{name}": value for name, value in samples.typed_values.items()},
    }
    return RehearsalReport(
        rehearsal.steps, stage.shown_origins(samples.config, known_values), unproved_points(provider)
    )


@dataclass(slots=True)
class _Rehearsal(RehearsalState):
    steps: list[RehearsedStep] = field(default_factory=list)

    async def run_all_steps(self) -> None:
        steps = {
            "connect": self._connect,
            "verification": self._verification,
            "call": self._call,
            "refresh": self._refresh,
            "page": self._page,
            "revocation": self._revocation,
        }
        for name, run in steps.items():
            step = RehearsedStep(name)
            self.steps.append(step)
            first_index = len(self.actor.arrivals)
            try:
                await run(step, first_index)
            except (RehearsalRefused, ClientError, TimeoutError) as fault:
                step.checks.append(
                    RehearsalCheck(
                        f"{name} works",
                        False,
                        self.step_place(step.name, first_index),
                        str(fault) or "no response in time",
                    )
                )
            step.sent = [arrival.masked_lines(self.secrets()) for arrival in self.actor.received_since(first_index)]
            secret_values = tuple(self.secrets())
            step.checks = [
                replace(check, what=scrubbed(check.what, secret_values), detail=scrubbed(check.detail, secret_values))
                for check in step.checks
            ]
            if name == "connect" and not all(check.ok for check in step.checks) and not self.connection_json:
                return  # without a connection no other step can run

    async def _connect(self, step: RehearsedStep, first_index: int) -> None:
        self.config = dict(self.samples.config)
        request_url = ""
        if is_redirecting(self.provider):
            self.connection_id, request_url = await connect_by_browser(self.gateway, self.actor, self.samples)
        else:
            await connect_by_form(self.gateway, self.provider, self.samples, self.connection_id)
        await self.read_connection()
        known_values = self.known_values()
        if request_url:
            step.checks += authorization_checks(
                request_url, self.provider, known_values, self.samples, self.gateway, self.entry
            )
        arrivals = self.token_requests(first_index)
        if self.provider.auth_mode in MODES_WITH_REFRESH:
            callback = f"{self.gateway.url}/oauth/callback"
            if request_url:
                callback = expected_callback(request_url, self.provider, callback)
                callback_values = {"callback.state": state_in(request_url, self.provider), "callback.code": CODE}
                known_values = replace(known_values, values={**known_values.values, **callback_values})
            step.checks += token_checks(arrivals, known_values, self.samples, callback)
        if self.provider.auth_mode == "CUSTOM" and self.provider.installation_access_url is not None:
            step.checks += access_checks(self.actor.received_since(first_index), known_values, self.actor.tokens[0])
        for key in ("token_response_metadata", "redirect_uri_metadata"):
            for name in getattr(self.provider, key) or ():
                step.checks.append(
                    RehearsalCheck(f"{name} is stored as a setting", name in self.config, (key,), "it is not")
                )
        step.checks.append(RehearsalCheck("the connection is stored", bool(self.connection_json), ("auth_mode",)))

    async def _verification(self, step: RehearsedStep, _: int) -> None:
        spec = self.provider.proxy.verification
        if spec is None:
            step.skipped = "the entry has no proxy.verification"
            return
        first_index = 0
        if is_redirecting(self.provider):  # the gateway does not verify new grants, so import the credential
            first_index = len(self.actor.arrivals)
            await import_credential(self.gateway, self.provider, self.connection_json)
        known_values = self.known_values()
        arrivals = [
            arrival for arrival in self.actor.received_since(first_index, "proxy") if arrival.method == spec.method
        ]
        paths = [path for endpoint in spec.endpoints if (path := known_values.path(f"http://host{endpoint}"))]
        matches = [arrival for arrival in arrivals if any(map(arrival.path.endswith, paths))]
        place: Place = ("proxy", "verification")
        check_text = f"{spec.method} {spec.endpoints[0]} was called when the connection was created"
        step.checks.append(RehearsalCheck(check_text, bool(matches), place, "it was not"))
        if matches:
            step.sent = [matches[0].masked_lines(self.secrets())]
            step.checks += header_checks(matches[0], spec.headers, known_values, (*place, "headers"))
        if is_redirecting(self.provider):
            return
        self.actor.refuses_credentials = True
        try:
            await connect_by_form(self.gateway, self.provider, self.samples, "refused")
            step.checks.append(
                RehearsalCheck("wrong credentials are refused immediately", False, place, "they were accepted")
            )
        except RehearsalRefused as fault:
            is_refused = "connection_test_failed" in str(fault)
            step.checks.append(
                RehearsalCheck("wrong credentials are refused immediately", is_refused, place, str(fault))
            )
        finally:
            self.actor.refuses_credentials = False

    async def _call(self, step: RehearsedStep, first_index: int) -> None:
        status, text = await self.gateway.call_provider(self.connection_id, CALL_PATH)
        arrivals = self.actor.received_since(first_index, "proxy")
        if status != 200 or not arrivals:
            raise RehearsalRefused(f"GET /proxy{CALL_PATH} returned {status}: {text[:300]}")
        step.checks += call_checks(arrivals[-1], self.known_values(), self.samples, self.entry, self.connection_json)

    async def _refresh(self, step: RehearsedStep, first_index: int) -> None:
        mode = self.provider.auth_mode
        if mode not in MODES_WITH_REFRESH:
            step.skipped = REFRESH_SKIPPED.get(mode, f"a credential of {mode} does not expire")
            return
        token_before, refresh_token = (
            self.actor.access_token,
            self.connection_json.get("credentials", {}).get("refresh_token", ""),
        )
        refresh_token = refresh_token or (self.actor.refresh_tokens[-1] if self.actor.refresh_tokens else "")
        self.connection_json = await self.gateway.connection(self.connection_id, force_refresh=True)
        arrivals = self.token_requests(first_index)
        if not arrivals:
            place: Place = ("refresh_url",) if self.provider.refresh_url else ("token_url",)
            step.checks.append(RehearsalCheck("a new token was requested", False, place, "no request was received"))
            return
        step.checks += refresh_checks(arrivals[0], self.known_values(), self.samples, refresh_token)
        is_new = self.actor.access_token != token_before
        step.checks.append(RehearsalCheck("a new token was issued", is_new, ("token_response",), "it is the old one"))
        await self._call(step, len(self.actor.arrivals))

    async def _page(self, step: RehearsedStep, first_index: int) -> None:
        scheme = self.provider.proxy.paginate
        if scheme is None:
            step.skipped = "the entry has no proxy.paginate"
            return
        if is_requested_by_post(scheme.type, scheme.in_body):
            step.skipped = "the lists are requested by POST, which a rehearsal does not support"
            return
        limit_text = f"; limit={PAGE_SIZE}" if scheme.limit_name_in_request else ""
        status, text = await self.gateway.call_provider(
            self.connection_id, LIST_PATH, **{"Gateway-Paginate": f"all{limit_text}"}
        )
        arrivals = [
            arrival for arrival in self.actor.received_since(first_index, "proxy") if arrival.path.endswith(LIST_PATH)
        ]
        step.checks += page_checks(scheme, status, text, arrivals)

    async def _revocation(self, step: RehearsedStep, first_index: int) -> None:
        if self.provider.revocation_url is None:
            step.skipped = "the entry has no revocation_url"
            return
        path = f"/connections/{quote(self.connection_id, safe='')}?provider_config_key={INTEGRATION}"
        body = await self.gateway.json("DELETE", path)
        arrivals = self.actor.received_since(first_index, "revocation_url")
        tokens = {*self.actor.tokens, *self.actor.refresh_tokens}
        step.checks += revocation_checks(self.provider, body.get("revocation", ()), arrivals, tokens)
