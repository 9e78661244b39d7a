"""AWS_SIGV4: every request is signed with the end user's access key, or with temporary keys of a role."""

import hashlib
import hmac
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes, urlencode, urlsplit

from gateway import clock
from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, member_values, typed_values
from gateway.auth.mode import Dialogue, Signer, TokenExchangeMode
from gateway.auth.provider_responses import TEMPORARY_STATUSES
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.token_responses import TokenRefused, TokenUnavailable, dig, positive_seconds, retry_after
from gateway.origin import DEFAULT_PORTS, bracketed
from gateway.records.provider_call import ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest
from gateway.secret import Secret
from gateway.timestamps import iso, parse_time

# ── AWS Signature Version 4: the canonical form of a request, and its signature (AWS General Reference, "SigV4").
#
# The signature covers the exact bytes of the path and query that are sent. This code does not change these bytes.

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
EMPTY_HASH: Final = hashlib.sha256(b"").hexdigest()
# Not signed: fields that a proxy between gateway and AWS can change, fields written after signing, and the signature.
UNSIGNED_HEADERS: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "expect",
        "te",
        "transfer-encoding",
        "user-agent",
        "x-amzn-trace-id",
    }
)
_SPACES: Final = re.compile(r" +")
Fields = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SigV4Keys:
    """An access key; a temporary key also has a session token."""

    access_key_id: str
    secret_access_key: Secret = field(repr=False)
    session_token: Secret | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """The region and the service for which a signature is valid."""

    region: str
    service: str

    @property
    def is_s3(self) -> bool:
        """Whether the service is S3, which encodes paths once, not twice, and accepts unsigned bodies."""
        return self.service in {"s3", "s3-outposts", "s3-object-lambda", "s3express"}


def authorization(
    keys: SigV4Keys, scope: Scope, method: str, target: str, fields: Fields, payload_hash: str, time: datetime
) -> str:
    """Return the value of ``Authorization``. `target`: the path and the query, exactly as sent. `fields`: all header
    fields that are sent, including Host. `payload_hash`: the body's SHA-256 in hex, or `UNSIGNED`."""
    header_lines = _canonical_headers(fields)
    names = ";".join(name for name, _ in header_lines)
    request = canonical_request(method, target, header_lines, payload_hash, encodes_once=scope.is_s3)
    day = f"{time:%Y%m%d}"
    credential_scope = f"{day}/{scope.region}/{scope.service}/aws4_request"
    # Header fields can contain bytes that are not UTF-8. Such bytes are signed as they are sent.
    digest = hashlib.sha256(request.encode("utf-8", "surrogateescape")).hexdigest()
    text = "\n".join([ALGORITHM, aws_timestamp(time), credential_scope, digest])
    key = f"AWS4{keys.secret_access_key.reveal()}".encode()
    for part in (day, scope.region, scope.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return (
        f"{ALGORITHM} Credential={keys.access_key_id}/{credential_scope}, SignedHeaders={names}, Signature={signature}"
    )


def canonical_request(
    method: str, target: str, header_lines: list[tuple[str, str]], payload_hash: str, *, encodes_once: bool = False
) -> str:
    """Return the canonical request. `header_lines`: the header fields with lower-case names, sorted by name.
    `encodes_once`: whether to encode the path only once, as S3 does, not twice."""
    path, _, query = target.partition("?")
    names = ";".join(name for name, _ in header_lines)
    headers = "".join(f"{name}:{value}\n" for name, value in header_lines)
    return "\n".join(
        [
            method,
            _canonical_path(path, encodes_once=encodes_once),
            _canonical_query(query),
            headers,
            names,
            payload_hash,
        ]
    )


def aws_timestamp(time: datetime) -> str:
    """Return the time in AWS format: ``20150830T123600Z``."""
    return f"{time:%Y%m%dT%H%M%SZ}"


def _canonical_headers(fields: Fields) -> list[tuple[str, str]]:
    values_by_name: dict[str, list[str]] = {}
    for name, value in fields:
        if (lower := name.lower()) not in UNSIGNED_HEADERS:
            values_by_name.setdefault(lower, []).append(_SPACES.sub(" ", value.strip()))
    return [(name, ",".join(values)) for name, values in sorted(values_by_name.items())]


def _canonical_path(path: str, *, encodes_once: bool) -> str:
    if encodes_once:
        return quote(unquote_to_bytes(path), safe="/~")
    # SigV4 encodes each already encoded segment a second time. Empty segments are dropped.
    segments = [segment for segment in path.split("/") if segment]
    ending = "/" if segments and path.endswith("/") else ""
    return "/" + "/".join(quote(segment, safe="~") for segment in segments) + ending


def _canonical_query(query: str) -> str:
    pairs = []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        pairs.append((_encode(name), _encode(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _encode(text: str) -> str:
    return quote(unquote_plus(text, errors="surrogateescape").encode("utf-8", "surrogateescape"), safe="~")


# ── Signs each AWS request over the bytes that are forwarded.
#
# If the caller sends the body's SHA-256 as ``x-amz-content-sha256``, the signature covers this hash and the body is
# streamed. S3 over https accepts unsigned bodies (``UNSIGNED-PAYLOAD``), which AWS's own clients also send. Therefore
# bodies to S3 are streamed too. All other services need the hash, which the gateway can compute only after the last
# byte, so the gateway buffers such a body, up to a limit.

HASH_HEADER: Final = "x-amz-content-sha256"


@dataclass(frozen=True, slots=True)
class SigV4Signer:
    """Writes ``Authorization``, ``X-Amz-Date`` and, with temporary keys, ``X-Amz-Security-Token``."""

    keys: SigV4Keys
    scope: Scope

    @property
    def fields(self) -> tuple[str, ...]:
        return ("authorization", "x-amz-date", "x-amz-security-token")

    @property
    def query_fields(self) -> tuple[str, ...]:
        return ()

    def wants_body(self, request: UpstreamRequest) -> bool:
        return HASH_HEADER not in request.headers and not self._streams_body(request)

    def sign(self, request: UpstreamRequest, body: bytes | None) -> None:
        payload = request.headers.get(HASH_HEADER) or self._hash(request, body)
        signed_at = clock.now()
        for name in self.fields:
            request.headers.popall(name, None)
        request.headers["X-Amz-Date"] = aws_timestamp(signed_at)
        if self.keys.session_token is not None:
            request.headers["X-Amz-Security-Token"] = self.keys.session_token.reveal()
        if self.scope.is_s3:
            request.headers["X-Amz-Content-Sha256"] = payload
        sent_headers = [("host", host_field(request)), *request.headers.items()]
        request.headers["Authorization"] = authorization(
            self.keys, self.scope, request.method, request.target, sent_headers, payload, signed_at
        )

    def _streams_body(self, request: UpstreamRequest) -> bool:
        return self.scope.is_s3 and request.scheme == "https"

    def _hash(self, request: UpstreamRequest, body: bytes | None) -> str:
        if body is None:
            return UNSIGNED
        return hashlib.sha256(body).hexdigest()


def host_field(request: UpstreamRequest) -> str:
    """Return the value of the ``Host`` field."""
    host = bracketed(request.host)
    return host if request.port == DEFAULT_PORTS[request.scheme] else f"{host}:{request.port}"


STS_VERSION: Final = "2011-06-15"
REGION_OR_SERVICE: Final = re.compile(r"[a-z0-9-]{1,64}")
LIFETIME_S: Final = 3600
CREDENTIAL_PARTS: Final = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
# Codes of temporary errors; STS returns some of them with status 400.
TEMPORARY_ERRORS: Final = frozenset(
    {
        "InternalFailure",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)


class AwsSigV4(TokenExchangeMode):
    """The credential is stored as ``{"type": "AWS_SIGV4", "access_key_id", "secret_access_key", "session_token"?,
    "role_arn"?, "external_id"?, "region"?, "service"?, <further fields of the entry>, "expires_at"?, "raw"?}``. With
    `role_arn`, the keys are temporary: the gateway requests the keys from STS AssumeRole with the operator's own access
    key (the integration's `client_id` and `client_secret`). The gateway requests new keys before the temporary keys
    expire.
    """

    name = "AWS_SIGV4"
    imported_token_member: ClassVar = "secret_access_key"  # noqa: S105 (the name of a member, not a token)

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        by_role = bool(form.get("role_arn"))
        credential: dict[str, Any] = {"type": self.name}
        credential["role_arn"] = fields.token("role_arn", limit=2048, required=False)
        credential["external_id"] = fields.token("external_id", limit=1224, required=False)
        credential["access_key_id"] = fields.token("access_key_id", limit=128, required=not by_role)
        credential["secret_access_key"] = fields.token("secret_access_key", limit=1024, required=not by_role)
        credential["session_token"] = fields.token("session_token", limit=16_384, required=False)
        for name in ("region", "service"):
            credential[name] = fields.token(name, limit=64, required=False)
            if credential[name] and not REGION_OR_SERVICE.fullmatch(credential[name]):
                fields.fault(name, f"'{name}' may have only lower-case letters, digits and hyphens.")
        if by_role and not re.fullmatch(
            r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", credential["role_arn"], re.ASCII
        ):
            fields.fault("role_arn", "'role_arn' must look like arn:aws:iam::123456789012:role/name.")
        ends_at = fields.moment("expires_at")
        credential["expires_at"] = iso(ends_at) if ends_at else ""
        credential |= fields.read_other_declared_fields(provider.credentials)
        fields.finish("raw")
        return {name: value for name, value in credential.items() if value}

    def settings(self, credential: Mapping[str, Any]) -> dict[str, str]:
        return {name: credential[name] for name in ("region", "service") if credential.get(name)}

    def refreshable(self, credential: Mapping[str, Any], provider: Provider) -> bool:
        return bool(credential.get("role_arn"))

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        """Return the credential with new temporary keys from STS AssumeRole. The external ID prevents one customer from
        using another customer's role (the confused deputy problem)."""
        region = self._scope(credential, context).region
        is_fixed_endpoint = not context.provider.token_url
        url = sts_url(region) if is_fixed_endpoint else context.url("token_url")
        client = context.for_destinations(url, fixed_in_code=is_fixed_endpoint).client()
        if client.client_secret is None:
            raise InvalidRequest(
                "invalid_auth_mode",
                "The integration has no client_id and client_secret. Set them to the access key that assumes the role.",
            )
        params = {"Action": "AssumeRole", "Version": STS_VERSION, "RoleArn": credential["role_arn"]}
        params |= {"RoleSessionName": "integration-gateway", "DurationSeconds": str(LIFETIME_S)}
        if external_id := credential.get("external_id") or context.config.get("external_id"):
            params["ExternalId"] = str(external_id)
        keys = SigV4Keys(client.client_id, client.client_secret)
        call = _signed_call(url, urlencode(params).encode(), SigV4Signer(keys, Scope(region, "sts")))
        reply = yield context.with_secrets(call, secrets=(client.client_secret,))
        issued_credentials = read_credentials(reply)
        new_credential = {
            "access_key_id": issued_credentials[0],
            "secret_access_key": issued_credentials[1],
            "session_token": issued_credentials[2],
        }
        return {**credential, **new_credential, "expires_at": iso(issued_credentials[3])}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential)

    def signer(self, credential: Mapping[str, Any], context: AuthContext) -> Signer:
        session = credential.get("session_token")
        keys = SigV4Keys(
            credential["access_key_id"], Secret(credential["secret_access_key"]), Secret(session) if session else None
        )
        return SigV4Signer(keys, self._scope(credential, context))

    @staticmethod
    def _scope(credential: Mapping[str, Any], context: AuthContext) -> Scope:
        """Return the region and the service. Each value comes from the entry, or from the credential if the entry has
        no value."""
        spec = context.provider.request_signing
        templates = {"region": spec.region, "service": spec.service} if spec else {}
        fields = {
            **{name: value for name, value in credential.items() if name in {"region", "service"}},
            **context.texts(templates, member_values(credential)),
        }
        if missing_fields := {"region", "service"} - {name for name, text in fields.items() if text}:
            raise InvalidRequest(
                "unresolved_setting",
                f"Requests to AWS are signed for a region and a service. Missing: {' and '.join(sorted(missing_fields))}. "
                "Set what is missing in connection_config.",
            )
        if not all(REGION_OR_SERVICE.fullmatch(fields[name]) for name in ("region", "service")):
            raise InvalidRequest(
                "unresolved_setting",
                "An AWS region or service may have only lower-case letters, digits and hyphens.",
            )
        return Scope(fields["region"], fields["service"])


def sts_url(region: str) -> str:
    """Return the Security Token Service URL of a region. Regions in China use another domain."""
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}/"


def read_credentials(reply: Reply) -> tuple[str, str, str, datetime]:
    """Return the access key ID, the secret key, the session token and the expiry from STS's response (XML or JSON).
    Raises TokenRefused after a refusal, and TokenUnavailable after a temporary error or if the response has no
    credentials."""
    text = reply.body.decode("utf-8", "replace")
    if reply.status != 200:
        code = _element(text, "Code")
        message = ": ".join(filter(None, (f"STS returned {reply.status}", code, _element(text, "Message"))))
        if not 400 <= reply.status < 500 or reply.status in TEMPORARY_STATUSES or code in TEMPORARY_ERRORS:
            raise TokenUnavailable(message, retry_after(reply.headers))
        raise TokenRefused("credentials_refused", message)
    values = [_element(text, name) for name in CREDENTIAL_PARTS]
    if text.lstrip().startswith("{"):
        values = _values_from_json(text)
    key_id, secret, session, expiration = values
    ends_at = parse_time(expiration)
    if not (key_id and secret and session and ends_at):
        raise TokenUnavailable("STS returned no credentials")
    return key_id, secret, session, ends_at


def _values_from_json(text: str) -> list[str]:
    try:
        nested = dig(json.loads(text), "AssumeRoleResponse.AssumeRoleResult.Credentials")
    except (ValueError, RecursionError):
        nested = None
    credentials = nested if isinstance(nested, dict) else {}
    expiration = credentials.get("Expiration")
    if isinstance(expiration, int | float):
        seconds = min(positive_seconds(expiration) or 0.0, 32_503_680_000)
        credentials = {**credentials, "Expiration": iso(datetime.fromtimestamp(seconds, UTC)) if seconds else ""}
    return [str(credentials.get(name) or "") for name in CREDENTIAL_PARTS]


def _element(text: str, name: str) -> str:
    """Return the text of an XML element. No XML parser is used, because a parser would expand entities that a response
    defines."""
    match = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return html.unescape(match[1]).strip() if match else ""


def _signed_call(url: str, body: bytes, signer: SigV4Signer) -> ProviderCall:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    request = UpstreamRequest("POST", parts.scheme, parts.hostname or "", port, target)
    request.headers["Content-Type"] = "application/x-www-form-urlencoded"
    signer.sign(request, body)
    return ProviderCall(url, dict(request.headers), body)
