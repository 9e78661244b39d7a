"""TBA: NetSuite's token-based authentication. Every request is signed with a token that an administrator created."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gateway.auth.context import AuthContext
from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import AuthMode, Signer
from gateway.auth.oauth1 import OAuth1Keys, OAuth1Signer
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.secret import Secret

MAX_TOKEN_CHARS: Final = 2048


class TokenBased(AuthMode):
    """The credential is stored as ``{"type": "TBA", "token_id", "token_secret", <further fields of the entry>,
    "config_override"?}``. The setting `accountId` is sent as the realm.
    """

    name = "TBA"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        credential: dict[str, Any] = {"type": self.name}
        for name in ("token_id", "token_secret"):
            credential[name] = fields.token(name, limit=MAX_TOKEN_CHARS)
        override = fields.mapping("config_override", ("client_id", "client_secret"))
        credential |= fields.read_other_declared_fields(provider.credentials)
        fields.finish("raw")
        return {**credential, **({"config_override": override} if override else {})}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential)

    def signer(self, credential: Mapping[str, Any], context: AuthContext) -> Signer:
        account = context.config.get("accountId")
        if not isinstance(account, str) or not account:
            message = "The setting 'accountId' is missing; token-based authentication signs with it."
            issue = Issue("invalid_type", message, ("connection_config", "accountId"))
            raise InvalidRequest("connection_validation_failed", message, errors=[issue])
        client = context.client(credential.get("config_override"))
        return OAuth1Signer(
            OAuth1Keys(
                client.client_id,
                client.client_secret or Secret(""),
                credential["token_id"],
                Secret(credential["token_secret"]),
                context.provider.signature_method or "HMAC-SHA256",
                realm=account.replace("-", "_").upper(),
            )
        )
