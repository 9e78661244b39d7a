"""NONE: no credential, for an open API or a provider that only sends webhooks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.auth.credential_form import CredentialForm
from gateway.auth.mode import AuthMode
from gateway.catalog.provider import Provider
from gateway.secret import Secret


class Unauthenticated(AuthMode):
    """The credential is stored as ``{"type": "NONE"}``, and the API returns it as ``{}``."""

    name = "NONE"

    def accept(self, form: Mapping[str, Any], provider: Provider, now: datetime) -> dict[str, Any]:
        CredentialForm(form, self.types()).finish()
        return {"type": self.name}

    def values(self, credential: Mapping[str, Any]) -> Mapping[str, Secret]:
        return {}
