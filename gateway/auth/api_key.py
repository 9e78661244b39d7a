"""API_KEY: one long-lived key that the end user typed in. The key needs no refresh."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import AuthMode
from gateway.auth.pasted_keys import certificate_fields
from gateway.catalog.provider import Provider
from gateway.secret import Secret


class ApiKey(AuthMode):
    """The credential is stored as ``{"type": "API_KEY", "apiKey", <further fields of the entry>}``. The catalog entry
    says where in a request the key is sent, because this mode has no default place for the key.
    """

    name = "API_KEY"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        credential = {"type": self.name, "apiKey": fields.token("apiKey", limit=1024)}
        credential |= certificate_fields(fields, provider) if provider.require_client_certificate else {}
        credential |= fields.read_other_declared_fields(provider.credentials)
        fields.finish()
        return credential

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential)
