"""BILL: a login with user name, password, organization and developer key; the new session's ID is the token."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import Dialogue, TokenExchangeMode
from gateway.auth.provider_responses import accepted_response, token_at, token_paths
from gateway.catalog.provider import Provider
from gateway.oauth.token_requests import encode_call
from gateway.oauth.token_responses import dig, expires_at
from gateway.secret import Secret
from gateway.timestamps import iso

TYPED_FIELDS: Final = ("username", "password", "organization_id", "dev_key")
TOKEN_MEMBERS: Final = ("session_id", "user_id", "expires_at", "raw")
PARAMETER_NAMES: Final = {
    "username": "username",
    "password": "password",
    "organization_id": "organizationId",
    "dev_key": "devKey",
}
SESSION_ID_PATHS: Final = ("sessionId", "session_id", "response_data.sessionId")
USER_ID_PATHS: Final = ("userId", "user_id", "response_data.userId")
LIFETIME: Final = timedelta(minutes=30)  # less than the 35 minutes after which an unused session ends


class Bill(TokenExchangeMode):
    """The credential is stored as ``{"type": "BILL", "username", "password", "organization_id", "dev_key", <further
    fields of the entry>, "session_id", "user_id"?, "expires_at", "raw"}``. The login sends user name, password,
    organization and developer key as ``username``, ``password``, ``organizationId`` and ``devKey``. The entry's
    `token_params` can replace these parameters.
    """

    name = "BILL"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        credential = {"type": self.name, **{name: fields.text(name, limit=1024) for name in TYPED_FIELDS}}
        credential |= fields.read_other_declared_fields(provider.credentials)
        fields.finish(*TOKEN_MEMBERS)
        return credential

    def renew(self, credential: Mapping[str, Any], context: AuthContext) -> Dialogue[dict[str, Any]]:
        provider = context.provider
        typed_fields = {name: value for name, value in credential.items() if name not in TOKEN_MEMBERS}
        values = typed_values(typed_fields)
        url = context.url("token_url", values)
        url_context = context.for_destinations(url)
        params = url_context.texts(provider.token_params, values) or {
            PARAMETER_NAMES[name]: credential[name] for name in TYPED_FIELDS
        }
        headers = {"Accept": "application/json", **url_context.texts(provider.token_headers, values)}
        call = encode_call(provider.token_request_method or "POST", url, headers, params, provider.body_format)
        reply = yield context.with_secrets(call, secrets=values.values())
        response = accepted_response(reply)
        new_credential = {
            "session_id": token_at(response, (*token_paths(provider, SESSION_ID_PATHS[0]), *SESSION_ID_PATHS)),
            "raw": response,
        }
        user = next((user_id for path in USER_ID_PATHS if isinstance(user_id := dig(response, path), str)), None)
        ends_at = expires_at(provider, response, reply.asked_at) or reply.asked_at + LIFETIME
        return {**typed_fields, **new_credential, **({"user_id": user} if user else {}), "expires_at": iso(ends_at)}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential, credential.get("session_id"))
