"""What a rehearsal knows in its middle, and which of the entry's words the next request is held against."""

from dataclasses import dataclass, field
from typing import Any, Final

from gateway.catalog.places import Place
from gateway.catalog.provider import Provider
from gateway.catalog.value import flat_values
from gateway.sandbox.rehearsal.actor import Actor
from gateway.sandbox.rehearsal.arrival import Arrival
from gateway.sandbox.rehearsal.checks import Known
from gateway.sandbox.rehearsal.gateway import Gateway
from gateway.sandbox.rehearsal.samples import Samples

TOKEN_ROLES: Final = ("token_url", "refresh_url", "installation_token_url")


@dataclass(slots=True)
class Knowledge:
    """What is known in the middle of a rehearsal: the connection as the gateway shows it, and what has been given out."""

    gateway: Gateway
    actor: Actor
    samples: Samples
    entry: dict[str, Any]
    connection_id: str = "rehearsal"
    config: dict[str, str] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def provider(self) -> Provider:
        return self.actor.provider

    def secrets(self) -> list[str]:
        registered = self.actor.registered.get("client_secret")
        own = [*self.samples.secrets(), *([registered] if registered else [])]
        return [*own, *self.actor.tokens, *self.actor.refresh_tokens]

    def place_of(self, step: str, mark: int) -> Place:
        """Where the entry speaks of the request that came last, or of the step."""
        came = self.actor.since(mark)
        place = {
            "verification": ("proxy", "verification"),
            "page": ("proxy", "paginate"),
            "revocation": ("revocation_url",),
        }
        if step in place or not came:
            return place.get(step, ())
        role = came[-1].role
        return (
            ("proxy", "base_url") if role == "proxy" else ("additional_steps",) if role.startswith("step") else (role,)
        )

    def known(self) -> Known:
        held = self.shown.get("credentials", {})
        typed = {**self.samples.typed, **{name: value for name, value in held.items() if isinstance(value, str)}}
        values = {form: text for name, text in typed.items() for form in (name, f"credentials.{name}")}
        values |= {f"assertionOption.{name}": text for name, text in self.samples.assertion.items()}
        client = {"clientId": self.samples.client_id, "clientSecret": self.samples.client_secret}
        if self.provider.auth_mode == "OAUTH2_CC":
            client = {"clientId": typed.get("client_id", ""), "clientSecret": typed.get("client_secret", "")}
        registered = self.actor.registered
        if registered:
            client = {"clientId": registered["client_id"], "clientSecret": registered.get("client_secret", "")}
        if self.provider.auth_mode == "INSTALL_PLUGIN":
            values |= {"username": client["clientId"], "password": client["clientSecret"]}
        # One of SIGNATURE is made for a stretch of requests, so which one is sent cannot be told beforehand.
        token = held.get("access_token") or held.get("token") or held.get("session_id") or self.actor.access_token
        if token and self.provider.auth_mode != "SIGNATURE":
            values |= {"accessToken": token, "credentials.accessToken": token}
        values |= {f"credentials.raw.{name}": text for name, text in flat_values(self.actor.raw).items()}
        for step, told in self.actor.steps.items():
            values |= {f"{step}.{name}": text for name, text in flat_values(told).items()}
        return Known(self.provider, self.config, {**values, **client}, registered)

    async def look(self) -> None:
        self.shown = await self.gateway.connection(self.connection_id)
        told = flat_values(self.shown.get("connection_config") or {})
        self.config = {**self.samples.config, **{name: text for name, text in told.items() if text}}

    def token_requests(self, mark: int) -> list[Arrival]:
        return [one for one in self.actor.since(mark) if one.role in TOKEN_ROLES or one.role.startswith("step")]
