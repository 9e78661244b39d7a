"""API_KEY: one long-lived key that the end user typed in. Nothing to refresh."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.auth.form import Form
from gateway.catalog.provider import Provider
from gateway.secret import Secret


class ApiKey:
    """Held as ``{"type": "API_KEY", "apiKey"}``. Where it goes is the entry's business: the mode has no default place."""

    name = "API_KEY"

    def accept(self, form: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        fields = Form(form, self.name)
        held = {"type": self.name, "apiKey": fields.token("apiKey", limit=1024)}
        fields.finish()
        return held

    def expires_at(self, held: Mapping[str, Any]) -> datetime | None:
        return None

    def refreshable(self, held: Mapping[str, Any]) -> bool:
        return False

    def values(self, held: Mapping[str, Any]) -> Mapping[str, Secret]:
        key = Secret(held["apiKey"])
        return {"apiKey": key, "credentials.apiKey": key}

    def default_headers(self, _provider: Provider) -> Mapping[str, str]:
        return {}
