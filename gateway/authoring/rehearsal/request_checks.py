"""Compares the requests that the sandbox received, and their signatures, with the entry."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from gateway.authoring.rehearsal.actor import ReceivedRequest, decode_form_value
from gateway.authoring.rehearsal.stage import split
from gateway.catalog.provider import Provider
from gateway.catalog.render import (
    Unresolved,
    carries_credential,
    differs_each_time,
    needs_request,
    render_text,
    render_url,
)
from gateway.catalog.template import TemplateError, placeholders
from gateway.catalog.template_places import Place
from gateway.catalog.value import BadValue

JSON_KIND: Final = "application/json"
FORM_KIND: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class RehearsalCheck:
    """The result of a check.

    `what`: what must be true. `ok`: whether it is true. `place`: the entry's field; the report prints the line of this
    field. `detail`: what the sandbox received instead, if `ok` is false.
    """

    what: str
    ok: bool
    place: Place = ()
    detail: str = ""


@dataclass(slots=True)
class KnownValues:
    """The values that a rehearsal knows for the placeholders of templates.

    `config`: the connection's settings. `values`: all other values, by their names in templates. `registered_client`:
    the dynamically registered client; empty if no client was registered.
    """

    provider: Provider
    config: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    registered_client: Mapping[str, str] = field(default_factory=dict)

    def text(self, template: str) -> str | None:
        """Return `template` filled in; None if a value is unknown, or differs from request to request."""
        if differs_each_time(template) or needs_request(template):
            return None
        defaults = {
            name: setting.default_value
            for name, setting in self.provider.connection_config.items()
            if setting.default_value
        }
        config = {f"connectionConfig.{name}": value for name, value in {**defaults, **self.config}.items()}
        try:
            return render_text(template, {**config, **self.values})
        except (Unresolved, BadValue, TemplateError):
            return None

    def missing(self, template: str) -> list[str]:
        """Return the names of the required settings in `template` that have no value."""
        settings = self.provider.connection_config
        names = [name.partition(".")[2] for name in placeholders(template) if name.startswith("connectionConfig.")]
        return [
            name for name in names if name not in self.config and not (name in settings and settings[name].optional)
        ]

    def path(self, template: str) -> str | None:
        """Return the path of a URL template; None if a value is unknown."""
        try:
            url = render_url(template, self.config, self.provider.connection_config, self.values)
        except (Unresolved, BadValue, TemplateError):
            return None
        return split(url)[1].partition("?")[0]

    def fill_json(self, value: Any) -> Any:
        """Return `value`, a JSON value with templates, filled in. Members with unknown values are left out."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                filled_value = {name: self.fill_json(member) for name, member in value.items()}
                return {name: member for name, member in filled_value.items() if member is not None}
            case list():
                return [member for member in map(self.fill_json, value) if member is not None]
        return value


def equality_check(subject: str, expected: Any, received_value: Any, place: Place) -> RehearsalCheck:
    """Compare a received value with the expected one. The text of a difference has only lengths: a value can be a secret."""
    passed = expected == received_value
    detail = (
        ""
        if passed
        else "it was not sent"
        if received_value is None
        else f"another value was sent ({_kind(received_value)} instead of {_kind(expected)})"
    )
    return RehearsalCheck(subject, passed, place, detail)


def _kind(value: Any) -> str:
    return f"{len(value)} characters" if isinstance(value, str) else type(value).__name__


def parameter_checks(
    arrival: ReceivedRequest,
    expected: Mapping[str, Any],
    place: Place,
    renames: Mapping[str, str],
    body_format: str | None,
) -> Iterator[RehearsalCheck]:
    """Check the encoding of the body, and each expected parameter.

    `expected`: parameters by their standard names. `renames`: the provider's name of each renamed parameter; an empty
    name means that the parameter must be absent. `place`: the entry's field with the parameters.
    """
    received_params = arrival.params(body_format)
    if arrival.method not in {"GET", "HEAD"} and body_format != "query" and expected:
        kind = JSON_KIND if body_format == "json" else FORM_KIND
        yield RehearsalCheck(
            f"the body is {kind}",
            arrival.kind == kind,
            ("body_format",),
            f"its Content-Type was {arrival.kind or 'missing'}",
        )
    for name, value in expected.items():
        sent_name = renames.get(name, name)
        if not sent_name:
            yield RehearsalCheck(f"{name} is left out", name not in received_params, (*place, name), "it was sent")
            continue
        yield equality_check(f"parameter {sent_name}", value, received_params.get(sent_name), (*place, name))


def header_checks(
    arrival: ReceivedRequest, templates: Mapping[str, str], known_values: KnownValues, place: Place
) -> Iterator[RehearsalCheck]:
    """Check each header field of the entry.

    If the value cannot be predicted, check only that the template was filled in.
    """
    for name, template in templates.items():
        if name.lower() == "content-type" and not arrival.body:
            continue  # Content-Type is sent only with a body
        received_value = arrival.headers.get(name)
        expected = known_values.text(template)
        if expected is not None:
            yield equality_check(f"field {name}", expected, received_value, (*place, name))
        elif differs_each_time(template) or needs_request(template):
            # A value from the request, such as ${params}, can be empty if the request has no such part.
            is_filled = bool(received_value) or (received_value == "" and not differs_each_time(template))
            passed = is_filled and "${" not in str(received_value)
            yield RehearsalCheck(
                f"field {name} is filled in", passed, (*place, name), "it is missing or has a placeholder"
            )
        elif received_value is None and (missing_names := known_values.missing(template)):
            detail = f"the rehearsal has no value for {', '.join(missing_names)}; add --set NAME=VALUE"
            yield RehearsalCheck(f"field {name} is filled in", False, (*place, name), detail)


def client_auth_checks(
    arrival: ReceivedRequest,
    provider: Provider,
    client: tuple[str, str],
    renames: Mapping[str, str],
    default: str = "body",
) -> Iterator[RehearsalCheck]:
    """Check that the client authenticates with the entry's method and no other (RFC 6749 §2.3).

    `client`: the client's ID and secret. `renames`: the provider's names of renamed parameters. `default`: the method
    if the entry states no method.
    """
    method = provider.token_request_auth_method or default
    place: Place = ("token_request_auth_method",)
    received_params = arrival.params(provider.body_format)
    basic_credentials = arrival.basic()
    secret_name = renames.get("client_secret", "client_secret")
    if method == "basic":
        passed = basic_credentials is not None and tuple(map(decode_form_value, basic_credentials)) == client
        yield RehearsalCheck(
            "the client authenticates with HTTP Basic",
            passed,
            place,
            "Authorization does not contain the client's ID and secret",
        )
        yield RehearsalCheck(
            "the body has no client secret",
            secret_name not in received_params,
            place,
            "the client secret is also a parameter",
        )
    elif method == "body":
        own_params = {renames.get("client_id", "client_id"): client[0], secret_name: client[1]}
        passed = all(received_params.get(name) == value for name, value in own_params.items() if name)
        yield RehearsalCheck(
            "the client authenticates with parameters", passed, place, "client_id or client_secret is missing"
        )
        entry_sets_authorization = any(name.lower() == "authorization" for name in provider.token_headers)
        yield RehearsalCheck(
            "the request has no HTTP Basic credentials",
            basic_credentials is None or entry_sets_authorization,
            place,
            "Authorization was also sent",
        )
    elif method == "private_key_jwt":
        passed = bool(received_params.get("client_assertion")) and secret_name not in received_params
        yield RehearsalCheck(
            "the client authenticates with a signed assertion", passed, place, "client_assertion is missing"
        )
    elif method == "none":
        yield RehearsalCheck(
            "the client sends no secret",
            secret_name not in received_params and basic_credentials is None,
            place,
            "a secret was sent",
        )


def registered_client_checks(
    arrival: ReceivedRequest, known_values: KnownValues, renames: Mapping[str, str]
) -> Iterator[RehearsalCheck]:
    """Check that a dynamically registered client authenticates with its registered method.

    The client must also send its ID in the body, because servers built with the MCP Python SDK read the ID there.
    """
    client, provider = known_values.registered_client, known_values.provider
    methods = {"client_secret_basic": "basic", "client_secret_post": "body", "none": "none"}
    method = methods.get(client["token_endpoint_auth_method"], "body")
    id_and_secret = (client["client_id"], client.get("client_secret", ""))
    yield from client_auth_checks(arrival, provider, id_and_secret, renames, method)
    name = renames.get("client_id", "client_id")
    received_id = arrival.params(provider.body_format).get(name)
    yield equality_check(f"parameter {name}", client["client_id"], received_id, ("token_request_auth_method",))


def proxied_call_checks(
    arrival: ReceivedRequest, known_values: KnownValues, entry: Mapping[str, Any], path: str, default: str | None
) -> Iterator[RehearsalCheck]:
    """Check the path, the header fields and the query of an API call.

    `path`: the path of the call below the base URL. `default`: the Authorization field, or its beginning, that the auth
    mode writes if no template has a credential; None: the auth mode writes no such field.
    """
    proxy = known_values.provider.proxy
    base = known_values.path(entry["proxy"]["base_url"])
    if base is not None:
        expected = base.rstrip("/") + path
        yield RehearsalCheck(
            "the path is below base_url", arrival.path == expected, ("proxy", "base_url"), f"it was {arrival.path}"
        )
    yield from header_checks(arrival, proxy.headers, known_values, ("proxy", "headers"))
    for name, template in proxy.query.items():
        value = known_values.text(template)
        if value is not None:
            yield equality_check(f"query {name}", value, arrival.query.get(name), ("proxy", "query", name))
        else:
            yield RehearsalCheck(
                f"query {name} is filled in", name in arrival.query, ("proxy", "query", name), "it is missing"
            )
    templates = (*proxy.headers.values(), *proxy.query.values())
    secret_settings = {name for name, setting in known_values.provider.connection_config.items() if setting.secret}
    if default is not None and not any(carries_credential(text, secret_settings=secret_settings) for text in templates):
        authorization = arrival.headers.get("Authorization", "")
        passed = authorization.startswith(default) if default.endswith((" ", "/")) else authorization == default
        check_text = f"Authorization is {default.partition(' ')[0]}"
        yield RehearsalCheck(check_text, passed, ("auth_mode",), "it is missing or has another value")


# ── Checks of signatures, as a provider does them: OAuth 1.0 (RFC 5849 §3.2), JWTs (RFC 7515), AWS credential scopes.

_OAUTH_PARAMETER: Final = re.compile(r'([a-z0-9_]+)="([^"]*)"')
_AWS_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, ?"
    r"SignedHeaders=(?P<fields>[a-z0-9;-]+), ?Signature=[0-9a-f]{64}"
)


def oauth_params(arrival: ReceivedRequest) -> dict[str, str]:
    """Return the decoded OAuth 1.0 parameters of the Authorization field."""
    return {name: unquote(value) for name, value in _OAUTH_PARAMETER.findall(arrival.headers.get("Authorization", ""))}


def oauth1_checks(
    arrival: ReceivedRequest, consumer: tuple[str, str], token: tuple[str, str], method: str
) -> Iterator[RehearsalCheck]:
    """Check the consumer key, the token and the signature method. For HMAC and PLAINTEXT, also check the signature.

    `consumer`: the client's ID and secret. `token`: the token and its secret.
    """
    oauth = oauth_params(arrival)
    place = ("signature_method",)
    key = oauth.get("oauth_consumer_key")
    yield RehearsalCheck(
        "oauth_consumer_key equals the integration's client_id", key == consumer[0], ("auth_mode",), f"it was {key}"
    )
    if token[0]:
        yield RehearsalCheck(
            "oauth_token is the connection's",
            oauth.get("oauth_token") == token[0],
            ("auth_mode",),
            "it has another value",
        )
    sent_method = oauth.get("oauth_signature_method")
    yield RehearsalCheck(f"oauth_signature_method is {method}", sent_method == method, place, f"it was {sent_method}")
    if method != "RSA-SHA1":
        passed = _is_signed(arrival, oauth, consumer[1], token[1], method)
        yield RehearsalCheck("the signature is valid", passed, place, "it is not")


def _is_signed(
    arrival: ReceivedRequest, parameters: dict[str, str], client_secret: str, token_secret: str, method: str
) -> bool:
    from oauthlib.oauth1.rfc5849 import signature as rfc5849

    pairs = [(name, value) for name, value in parameters.items() if name not in {"realm", "oauth_signature"}]
    pairs += parse_qsl(arrival.target.partition("?")[2], keep_blank_values=True)
    if arrival.kind == "application/x-www-form-urlencoded":
        pairs += parse_qsl(arrival.body.decode(), keep_blank_values=True)
    received: Any = SimpleNamespace(
        uri=f"http://{arrival.headers['Host']}{arrival.target}",
        http_method=arrival.method,
        params=pairs,
        signature=parameters.get("oauth_signature", ""),
    )
    verify = {
        "HMAC-SHA1": rfc5849.verify_hmac_sha1,
        "HMAC-SHA256": rfc5849.verify_hmac_sha256,
        "PLAINTEXT": rfc5849.verify_plaintext,
    }[method]
    return bool(verify(received, client_secret, token_secret))


def aws_checks(arrival: ReceivedRequest, known_values: KnownValues, access_key: str) -> Iterator[RehearsalCheck]:
    """Check the access key, the region and the service that Authorization names."""
    signing = known_values.provider.request_signing
    match = _AWS_AUTHORIZATION.fullmatch(arrival.headers.get("Authorization", ""))
    yield RehearsalCheck(
        "Authorization is AWS Signature Version 4", match is not None, ("request_signing",), "it has another form"
    )
    if match is None or signing is None:
        return
    yield RehearsalCheck(
        "it names the access key", match["key"] == access_key, ("credentials",), "it names another key"
    )
    for part in ("region", "service"):
        expected = known_values.text(getattr(signing, part))
        if expected is not None:
            passed = match[part] == expected
            yield RehearsalCheck(f"{part} is {expected}", passed, ("request_signing", part), f"it was {match[part]}")


def jwt_checks(token: str, key: str, known_values: KnownValues) -> Iterator[RehearsalCheck]:
    """Check a JWT that the gateway signed: its algorithm, its signature and its claims."""
    from joserfc import jwt as jose
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    spec = known_values.provider.jwt
    if spec is None:
        return
    algorithm = known_values.text(spec.header.get("alg", "RS256")) or "RS256"
    kind = (
        "oct"
        if algorithm.startswith("HS")
        else "OKP"
        if algorithm == "EdDSA"
        else "EC"
        if algorithm.startswith("ES")
        else "RSA"
    )
    key_value = bytes.fromhex(key) if kind == "oct" and spec.key_encoding == "hex" else key
    if kind == "oct" and spec.key_encoding == "base64":
        import base64

        key_value = base64.b64decode(key)
    try:
        decoded_jwt = jose.decode(token, import_key(key_value, kind), algorithms=[algorithm])  # type: ignore[call-overload]
    except (JoseError, ValueError) as fault:
        yield RehearsalCheck(f"the JWT is signed by {algorithm}", False, ("jwt",), f"it is not: {type(fault).__name__}")
        return
    yield RehearsalCheck(f"the JWT is signed by {algorithm}", True, ("jwt",))
    for name, value in spec.claims.items():
        expected = known_values.fill_json(value)
        if expected not in (None, {}, []):
            yield RehearsalCheck(
                f"claim {name}",
                decoded_jwt.claims.get(name) == expected,
                ("jwt", "claims", name),
                "it is missing or has another value",
            )
