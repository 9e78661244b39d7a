"""Tests a new credential at its provider, and reads which account the credential belongs to.

The test request is sent like a proxied call: through the same egress, with the credential at the same place. But no
part of the request comes from the caller.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import structlog
from multidict import CIMultiDict

from gateway import clock
from gateway.auth.context import AuthContext, plain_values
from gateway.auth.mode import AuthMode, GrantingMode
from gateway.auth.provider_responses import TEMPORARY_STATUSES, refusal_text, safe_text
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import ANY_VALUE, NO_VALUE, Verification
from gateway.catalog.render import Moment
from gateway.catalog.template import placeholders
from gateway.connections.opened import Placement, base_url, placement
from gateway.egress.client import Egress
from gateway.egress.egress_errors import EgressError
from gateway.errors import InvalidRequest, UpstreamFailed
from gateway.http.url import with_query
from gateway.oauth.token_responses import dig, jwt_claims
from gateway.origin import ABSOLUTE, parse_url
from gateway.records.connection import Account
from gateway.records.provider_call import Reply, scrubbed
from gateway.records.proxied_call import UpstreamRequest
from gateway.scripts.script_context import ProviderUnreadable
from gateway.secret import Secret
from gateway.text import sentence

# ── Reads the account that authorized: from the provider's response if the entry says where, else from an ID token,
# else from a setting that names an account.

LABEL_CLAIMS: Final = ("email", "preferred_username", "name")  # claims of an ID token, preferred first
MAX_TEXT_LENGTH: Final = 255


class AccountSource(Protocol):
    """What `account_of` needs to know about a new credential."""

    @property
    def provider(self) -> Provider: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    async def account_response(self) -> Any: ...


UNCONFIRMED_STATUSES: Final = frozenset({401, 403, 404})


async def account_of(source: AccountSource, credential: Mapping[str, Any], by_browser: Collection[str] = ()) -> Account:
    """Return the account as far as it is known. An unreadable response or a missing scope is not an error.

    `by_browser`: settings from the callback's query. Raises InvalidRequest if the URL of the account contains one of
    these settings and the provider refuses this URL. The end user may then have named another customer's account.
    """
    account_form, raw, account = source.provider.account, credential.get("raw"), Account()
    if account_form is not None:
        try:
            response: Any = raw if account_form.endpoint is None else await source.account_response()
        except ProviderUnreadable as fault:
            if fault.status in UNCONFIRMED_STATUSES and (
                refused_settings := _settings_in_account_url(source.provider, by_browser)
            ):
                raise _unconfirmed_account_error(source, refused_settings, fault.status) from fault
            response = None
        if isinstance(response, Mapping):
            label = next(filter(None, (_account_text(dig(response, path)) for path in account_form.label)), None)
            account = Account(_account_text(dig(response, account_form.id)) if account_form.id else None, label)
            if account.id is not None or (account.label is not None and account_form.id is not None):
                return account
    claims = jwt_claims(raw.get("id_token")) if isinstance(raw, Mapping) else {}
    if account.label is not None:
        return Account(_account_text(claims.get("sub")) or _account_text(source.config.get("accountId")), account.label)
    if subject := _account_text(claims.get("sub")):
        return Account(subject, next(filter(None, (_account_text(claims.get(name)) for name in LABEL_CLAIMS)), None))
    return Account(_account_text(source.config.get("accountId")), None)


def _settings_in_account_url(provider: Provider, settings: Collection[str]) -> list[str]:
    """Return the names in `settings` that occur in the URL of the account."""
    endpoint = provider.account.endpoint if provider.account is not None else None
    if endpoint is None:
        return []
    templates = [endpoint]
    if endpoint.startswith("/"):
        templates += [provider.proxy.base_url, *provider.alternatives.get("proxy.base_url", ())]
    url_settings = frozenset[str]().union(*map(placeholders, templates))
    return sorted(name for name in settings if f"connectionConfig.{name}" in url_settings)


def _unconfirmed_account_error(source: AccountSource, names: Iterable[str], status: int | None) -> InvalidRequest:
    settings_text = ", ".join(f"{name} {safe_text(str(source.config.get(name)))}" for name in names)
    return InvalidRequest(
        "connection_validation_failed",
        f"Your account at {source.provider.display_name} has no access to the account that your browser returned with: "
        f"{settings_text} ({status}). Nothing was connected; start again with an account that you can use, or ask the "
        "application's operator to check the integration's scopes.",
        payload={"reason": "account_not_confirmed"},
    )


def check_same_account(provider: Provider, old_account: Account, new_account: Account) -> None:
    """Raise InvalidRequest if both accounts are known and differ: one account must not use another account's
    connection."""
    if old_account.id is None or new_account.id is None or old_account.id == new_account.id:
        return
    as_account = f" as '{old_account.label}'" if old_account.label else ""
    other_label = f", '{new_account.label}'," if new_account.label else ""
    raise InvalidRequest(
        "connection_validation_failed",
        f"This is another {provider.display_name} account{other_label} than before. Nothing was changed. Sign in{as_account} to "
        "reconnect, or create a new connection.",
        payload={"reason": "another_account"},
    )


def _account_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return safe_text(str(value))[:MAX_TEXT_LENGTH] or None


log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 15.0
UNREACHABLE: Final = frozenset({"unreachable", "timeout", "tls"})  # kinds of EgressError without any response
MAX_RESPONSE_BYTES: Final = 1 << 20


class Verifier:
    """Checks whether the provider accepts a credential."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def verify(
        self,
        mode: AuthMode,
        credential: Mapping[str, Any],
        context: AuthContext,
        *,
        refuse_untested_grant: bool = True,
    ) -> None:
        """Check the credential. The credential is accepted if one of the entry's endpoints returns the expected 2xx, or
        if the entry names no endpoint.

        An OAuth grant is refused only after a 401 or an unexpected 2xx, because its scopes do not always cover the
        endpoint. A grant that can be refreshed is never refused, because an imported token may have expired.
        `refuse_untested_grant`: whether to refuse a grant if the provider could not be reached. If False, the grant is
        accepted without a test, and the log has `credential_not_tested`. An IP address that the gateway may not call is
        an error for every credential.

        Raises InvalidRequest ``connection_test_failed`` if the credential is refused, and UpstreamFailed if the
        provider could not be reached and the credential is refused for this reason.
        """
        spec = context.provider.proxy.verification
        if spec is None or not spec.endpoints:
            return
        replies: list[Reply] = []
        for endpoint in spec.endpoints:
            try:
                reply = await self._send(spec, endpoint, mode, credential, context)
            except EgressError as fault:
                tolerable = fault.kind in UNREACHABLE and not replies and isinstance(mode, GrantingMode)
                if refuse_untested_grant or not tolerable:
                    raise _unreachable_error(context, fault) from fault
                integration = context.integration
                log.warning(
                    "credential_not_tested",
                    environment=integration.environment,
                    integration=integration.integration_id,
                    detail=sentence(fault.message),
                )
                return
            if is_success(reply) and is_expected(spec, reply.body):
                return
            replies.append(reply)
        # Report the response that says most about the credential: access denied, then other errors, then server errors.
        reported_reply = min(replies, key=lambda reply: (not _rejects_credential(reply), reply.status >= 500))
        final = reported_reply.status == 401 or is_success(reported_reply)
        if isinstance(mode, GrantingMode) and (not final or mode.refreshable(credential, context.provider)):
            return
        raise verification_error(context, reported_reply, _secrets(mode, credential, context))

    async def _send(
        self, spec: Verification, endpoint: str, mode: AuthMode, credential: Mapping[str, Any], context: AuthContext
    ) -> Reply:
        request, body = verification_request(spec, endpoint, mode, credential, context)
        sent_at = clock.now()
        response = await self._egress.fetch(
            request.method,
            request.url,
            headers=request.headers,
            body=body,
            limit_bytes=MAX_RESPONSE_BYTES,
            timeout_s=TIMEOUT_S,
            identity=request.identity,
        )
        return Reply(response.status, response.headers, response.body, sent_at)


def _unreachable_error(context: AuthContext, fault: EgressError) -> UpstreamFailed:
    return UpstreamFailed(
        "upstream_unreachable",
        f"Could not test this credential at {context.provider.display_name}: {sentence(fault.message)} Nothing was "
        "stored; try again.",
    )


def is_success(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def _rejects_credential(reply: Reply) -> bool:
    """Return whether the reply rejects the credential: a 401, a 403, or a 2xx, because only unexpected 2xx replies are
    kept."""
    return reply.status in {401, 403} or is_success(reply)


def is_expected(spec: Verification, body: bytes) -> bool:
    """Return whether a 2xx with this body means that the credential is valid."""
    if not spec.expect:
        return True
    try:
        response = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return all(_matches(dig(response, path), expected) for path, expected in spec.expect.items())


def _matches(value: Any, expected: object) -> bool:
    if expected in {ANY_VALUE, NO_VALUE}:
        return (value is None) == (expected == NO_VALUE)
    if isinstance(value, bool) or isinstance(expected, bool):  # True == 1 in Python, so == would accept 1 for True
        return value is expected
    return bool(value == expected)


def verification_request(
    spec: Verification, endpoint: str, mode: AuthMode, credential: Mapping[str, Any], context: AuthContext
) -> tuple[UpstreamRequest, bytes | None]:
    """Return the request with the credential, and the request's body. The request is signed if the mode signs
    requests."""
    values = mode.values(credential)
    base = base_url(context.provider, context.config, mode, credential)
    root = spec.base_url_override or base.origin + base.path
    url = context.fill_url(root.rstrip("/") + endpoint, values)
    parsed_url = parse_url(url)
    target = url[ABSOLUTE.match(url).end() :]  # type: ignore[union-attr]  # unchanged: a trailing slash may matter
    request = UpstreamRequest(spec.method, parsed_url.scheme, parsed_url.host, parsed_url.port, target)
    context = context.for_destinations(url)
    request_parts = placement(mode, credential, context)
    body, content_type = _body(spec, context, values)
    request.headers = CIMultiDict(_headers(spec, context, values, request_parts, content_type))
    request.target = with_query(request.target, request_parts.query_slots, request_parts.query_defaults)
    request.identity = mode.identity(credential)
    if request_parts.signer is not None:
        request_parts.signer.sign(request, body or b"")
    return request, body


def verification_error(context: AuthContext, reply: Reply, secrets: Iterable[str]) -> InvalidRequest:
    """Return the error for the caller, with the provider's text. Secrets in this text are masked."""
    provider_text = scrubbed(refusal_text(reply), tuple(secrets))
    name = context.provider.display_name
    quoted = f": {provider_text}" if provider_text else ""
    if reply.status >= 500 or reply.status in TEMPORARY_STATUSES:
        message = (
            f"{name} could not test this credential: it returned {reply.status}{quoted}. Nothing was stored; try again."
        )
    else:
        message = f"{name} rejected this credential with status {reply.status}{quoted}. Nothing was stored."
    return InvalidRequest(
        "connection_test_failed", message, payload={"status": reply.status, "provider_message": provider_text or None}
    )


def _headers(
    spec: Verification,
    context: AuthContext,
    credential: Mapping[str, Secret],
    request_parts: Placement,
    content_type: str | None,
) -> dict[str, str]:
    fields = {"accept": "application/json", **dict(request_parts.defaults)}
    if content_type is None:
        fields.pop("content-type", None)
    else:
        fields["content-type"] = content_type
    entry_headers = context.texts({name.lower(): template for name, template in spec.headers.items()}, credential)
    return {**fields, **entry_headers, **dict(request_parts.slots)}


def _body(
    spec: Verification, context: AuthContext, credential: Mapping[str, Secret]
) -> tuple[bytes | None, str | None]:
    """Return the body and its content type. A text is sent unchanged. An object is sent as JSON, or as a form if
    `headers` say so."""
    content_type = next((value for name, value in spec.headers.items() if name.lower() == "content-type"), None)
    if spec.data is None:
        return (None if spec.method in {"GET", "HEAD", "DELETE"} else b""), content_type
    filled_data = context.json(spec.data, credential, Moment())
    if isinstance(filled_data, str):
        return filled_data.encode(), content_type
    if content_type is not None and "form-urlencoded" in content_type:
        return urlencode(filled_data).encode(), content_type
    return json.dumps(filled_data).encode(), content_type or "application/json"


def _secrets(mode: AuthMode, credential: Mapping[str, Any], context: AuthContext) -> tuple[str, ...]:
    secret_values = plain_values(mode.values(credential))
    username, password = secret_values.get("username"), secret_values.get("password")
    pair = (f"{username}:{password}",) if username is not None and password is not None else ()
    client_secret = context.integration.client_secret
    return (*pair, *secret_values.values(), *((client_secret.reveal(),) if client_secret else ()))
