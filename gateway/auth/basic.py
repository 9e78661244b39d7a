"""BASIC: a user name and a password, sent as RFC 7617 defines and never refreshed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.auth.credential_form import CredentialForm, typed_values
from gateway.auth.mode import AuthMode
from gateway.auth.pasted_keys import certificate_fields
from gateway.catalog.provider import Provider
from gateway.errors import InvalidRequest, Issue
from gateway.secret import Secret


class Basic(AuthMode):
    """The credential is stored as ``{"type": "BASIC", "username", "password", <further fields of the entry>}``. The
    user name or the password may be empty, because many providers use only one of them.
    """

    name = "BASIC"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        fields = CredentialForm(form, self.types())
        username = fields.text("username", limit=1024, empty=True)
        password = fields.text("password", limit=1024, empty=True)
        certificate = certificate_fields(fields, provider) if provider.require_client_certificate else {}
        other_fields = fields.read_other_declared_fields(provider.credentials)
        fields.finish()
        if ":" in username:
            # The first colon ends the user name (RFC 7617 §2), so a colon in the name would move text to the password.
            issue = Issue("invalid_format", "A user name cannot contain a colon.", ("credentials", "username"))
            raise InvalidRequest("invalid_body", issue.message, errors=[issue])
        return {"type": self.types()[0], "username": username, "password": password, **certificate, **other_fields}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return typed_values(credential)

    def default_headers(self, provider: Provider) -> Mapping[str, str]:
        return {"authorization": "Basic ${base64(${username}:${password})}"}
