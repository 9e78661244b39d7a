"""AWS_SIGV4: every request is signed with an access key of the end user's, or with one that a role of theirs lends us."""

import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode, urlsplit

from gateway.auth.context import Context
from gateway.auth.exchanged import ExchangedMode
from gateway.auth.form import Form
from gateway.auth.members import member_values, typed_values
from gateway.auth.mode import Dialogue
from gateway.auth.moments import iso, moment
from gateway.auth.signer import Signer
from gateway.auth.sigv4 import Keys, Scope
from gateway.auth.sigv4_signer import SigV4Signer
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest
from gateway.oauth.token import TokenRefused, TokenUnavailable, dig, positive_seconds, retry_after
from gateway.records.call import Call, Reply
from gateway.records.upstream import UpstreamRequest
from gateway.secret import Secret

STS_VERSION: Final = "2011-06-15"
NAME: Final = re.compile(r"[a-z0-9-]{1,64}")
LIFETIME_S: Final = 3600
PARTS: Final = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")


class AwsSigV4(ExchangedMode):
    """Held as ``{"type": "AWS_SIGV4", "access_key_id", "secret_access_key", "session_token"?, "role_arn"?, "external_id"?,
    "region"?, "service"?, <what else the entry asks for>, "expires_at"?,
    "raw"?}``. With `role_arn` the keys are temporary: STS AssumeRole gives them to the
    operator's own access key (`client_id` and `client_secret` of the integration), and gives new ones before they end.
    """

    name = "AWS_SIGV4"
    brought: ClassVar = "secret_access_key"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = Form(form, self.types())
        by_role = bool(form.get("role_arn"))
        held: dict[str, Any] = {"type": self.name}
        held["role_arn"] = fields.token("role_arn", limit=2048, required=False)
        held["external_id"] = fields.token("external_id", limit=1224, required=False)
        held["access_key_id"] = fields.token("access_key_id", limit=128, required=not by_role)
        held["secret_access_key"] = fields.token("secret_access_key", limit=1024, required=not by_role)
        held["session_token"] = fields.token("session_token", limit=16_384, required=False)
        for name in ("region", "service"):
            held[name] = fields.token(name, limit=64, required=False)
            if held[name] and not NAME.fullmatch(held[name]):
                fields.fault(name, f"'{name}' holds letters, digits and hyphens only.")
        if by_role and not re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", held["role_arn"], re.ASCII):
            fields.fault("role_arn", "'role_arn' must look like arn:aws:iam::123456789012:role/name.")
        ends = fields.moment("expires_at")
        held["expires_at"] = iso(ends) if ends else ""
        held |= fields.declared(provider.credentials)
        fields.finish("raw")
        return {name: value for name, value in held.items() if value}

    def settings(self, held: Mapping[str, Any]) -> dict[str, str]:
        return {name: held[name] for name in ("region", "service") if held.get(name)}

    def refreshable(self, held: Mapping[str, Any], provider: Provider) -> bool:
        return bool(held.get("role_arn"))

    def renew(self, held: Mapping[str, Any], context: Context) -> Dialogue[dict[str, Any]]:
        """STS AssumeRole. The external ID says for whom the role is assumed, so that no one else's can be had through us."""
        region = self._scope(held, context).region
        own = not context.provider.token_url
        url = sts_url(region) if own else context.url("token_url")
        client = context.toward(url, of_our_own=own).client()
        if client.client_secret is None:
            raise InvalidRequest(
                "invalid_auth_mode", "The integration needs client_id and client_secret: the access key."
            )
        asked = {"Action": "AssumeRole", "Version": STS_VERSION, "RoleArn": held["role_arn"]}
        asked |= {"RoleSessionName": "integration-gateway", "DurationSeconds": str(LIFETIME_S)}
        if external := held.get("external_id") or context.config.get("external_id"):
            asked["ExternalId"] = str(external)
        keys = Keys(client.client_id, client.client_secret)
        call = _signed(url, urlencode(asked).encode(), SigV4Signer(keys, Scope(region, "sts")))
        reply = yield context.told(call, secrets=(client.client_secret,))
        lent = read_credentials(reply)
        fresh = {"access_key_id": lent[0], "secret_access_key": lent[1], "session_token": lent[2]}
        return {**held, **fresh, "expires_at": iso(lent[3])}

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(held)

    def signer(self, held: Mapping[str, Any], context: Context) -> Signer:
        session = held.get("session_token")
        keys = Keys(held["access_key_id"], Secret(held["secret_access_key"]), Secret(session) if session else None)
        return SigV4Signer(keys, self._scope(held, context))

    @staticmethod
    def _scope(held: Mapping[str, Any], context: Context) -> Scope:
        """Region and service as the entry has them, else as the credential has."""
        spec = context.provider.request_signing
        templates = {"region": spec.region, "service": spec.service} if spec else {}
        told = {
            **{k: v for k, v in held.items() if k in {"region", "service"}},
            **context.texts(templates, member_values(held)),
        }
        if missing := {"region", "service"} - {name for name, text in told.items() if text}:
            raise InvalidRequest(
                "unresolved_setting",
                f"Requests to AWS are signed for a region and a service; {' and '.join(sorted(missing))} "
                "is missing. Give it in connection_config.",
            )
        if not all(NAME.fullmatch(told[name]) for name in ("region", "service")):
            raise InvalidRequest(
                "unresolved_setting",
                "An AWS region and an AWS service are written in letters, digits and hyphens only.",
            )
        return Scope(told["region"], told["service"])


def sts_url(region: str) -> str:
    """The Security Token Service of a region; China has a domain of its own."""
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}/"


def read_credentials(reply: Reply) -> tuple[str, str, str, datetime]:
    """Key, secret, session token and their end in an AssumeRole answer, XML or JSON. Raises TokenRefused, TokenUnavailable."""
    text = reply.body.decode("utf-8", "replace")
    if reply.status >= 500 or reply.status == 429:
        raise TokenUnavailable(f"STS answered {reply.status}", retry_after(reply.headers))
    if reply.status != 200:
        told = ": ".join(filter(None, (_element(text, "Code"), _element(text, "Message"))))
        raise TokenRefused("credentials_refused", f"STS answered {reply.status}" + (f": {told}" if told else ""))
    found = [_element(text, name) for name in PARTS]
    if text.lstrip().startswith("{"):
        found = _from_json(text)
    key, secret, session, until = found
    ends = moment(until)
    if not (key and secret and session and ends):
        raise TokenUnavailable("STS answered without credentials")
    return key, secret, session, ends


def _from_json(text: str) -> list[str]:
    try:
        inside = dig(json.loads(text), "AssumeRoleResponse.AssumeRoleResult.Credentials")
    except (ValueError, RecursionError):
        inside = None
    found = inside if isinstance(inside, dict) else {}
    until = found.get("Expiration")
    if isinstance(until, int | float):
        seconds = min(positive_seconds(until) or 0.0, 32_503_680_000)
        found = {**found, "Expiration": iso(datetime.fromtimestamp(seconds, UTC)) if seconds else ""}
    return [str(found.get(name) or "") for name in PARTS]


def _element(text: str, name: str) -> str:
    """The text of an element. Not by an XML parser: five names are wanted, and no entity that an answer may define."""
    found = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return html.unescape(found[1]).strip() if found else ""


def _signed(url: str, body: bytes, signer: SigV4Signer) -> Call:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    request = UpstreamRequest("POST", parts.scheme, parts.hostname or "", port, target)
    request.headers["Content-Type"] = "application/x-www-form-urlencoded"
    signer.sign(request, body)
    return Call(url, dict(request.headers), body)
