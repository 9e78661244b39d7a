"""The bodies of requests that create or change an integration, and the JSON of an integration."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, StringConstraints

from gateway.api import responses
from gateway.api.request_body import Strict
from gateway.api.shapes import ProviderConfigKey
from gateway.catalog.auth_modes import APP_KEYS, AUTH_MODES, ModeFormat
from gateway.catalog.provider import Provider
from gateway.config import values
from gateway.config import values as key_values
from gateway.errors import Issue
from gateway.generation import Generation
from gateway.private_keys import private_key_in
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.secret import Secret
from gateway.timestamps import iso

SCOPES: Final = r"^([0-9a-zA-Z:/_.*-]+(,[0-9a-zA-Z:/_.*-]+)*)?$"
MODES_WITH_CREDENTIALS: Final = frozenset(
    name for name, mode in AUTH_MODES.items() if mode.needs_client or mode.needs_app
)


def _checked_private_key(text: str) -> str:
    """Return the private key with real line breaks. Raises ValueError for an unreadable key, which otherwise would fail
    only when an end user connects."""
    try:
        key_text = key_values.private_key(text).reveal()
        private_key_in(key_text)
    except Exception:  # noqa: BLE001 (the library raises several kinds, and none is more specific)
        raise ValueError("must be a private key in PEM, without a passphrase") from None
    return key_text


Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_-]+$")]
DisplayName = Annotated[str, StringConstraints(min_length=1, max_length=255)]
ClientId = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(key_values.client_value)]
SecretText = Annotated[str, StringConstraints(min_length=1, max_length=16_384), AfterValidator(key_values.client_value)]
Scopes = Annotated[str, StringConstraints(pattern=SCOPES, max_length=16_384)]
WebhookSecret = Annotated[str, StringConstraints(max_length=255)]
AppLink = Annotated[str, StringConstraints(min_length=1, max_length=2048), AfterValidator(values.app_link)]
PrivateKey = Annotated[str, AfterValidator(_checked_private_key), Field(max_length=16_384)]
Text = Annotated[str, StringConstraints(max_length=8192)]
TextMap = dict[str, Text]
AllowedHost = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(values.allowed_host)]
AllowedHosts = Annotated[list[AllowedHost], Field(max_length=100)]


class ClientCredentials(Strict):
    """The OAuth app at the provider. `scopes`: comma-separated, requested as given; empty: the provider's default
    scopes."""

    type: Literal["OAUTH1", "OAUTH2", "TBA", "INSTALL_PLUGIN"]
    client_id: ClientId
    client_secret: SecretText
    scopes: Scopes | None = None
    webhook_secret: WebhookSecret | None = None


class RegisteredClient(Strict):
    """An OAuth client that you registered yourself, at a provider where the gateway could also register one."""

    type: Literal["MCP_OAUTH2", "MCP_OAUTH2_GENERIC"]
    client_id: ClientId | None = None
    client_secret: SecretText | None = None
    scopes: Scopes | None = None
    webhook_secret: WebhookSecret | None = None


class AppCredentials(Strict):
    """The app that end users install at the provider."""

    type: Literal["APP"]
    app_id: ClientId
    app_link: AppLink
    private_key: PrivateKey


class CustomCredentials(Strict):
    """An app that is also an OAuth client."""

    type: Literal["CUSTOM"]
    client_id: ClientId
    client_secret: SecretText
    app_id: ClientId
    app_link: AppLink
    private_key: PrivateKey


Credentials = Annotated[
    ClientCredentials | RegisteredClient | AppCredentials | CustomCredentials, Field(discriminator="type")
]


class NewIntegration(Strict):
    provider: Name
    unique_key: ProviderConfigKey
    display_name: DisplayName | None = None
    credentials: Credentials | None = None
    forward_webhooks: bool = True
    allowed_hosts: AllowedHosts | None = None
    allow_unsigned_webhooks: bool = False
    integration_config: TextMap | None = None
    custom: TextMap | None = None


class IntegrationChanges(Strict):
    """Changes to an integration. Members that are left out stay unchanged.

    `credentials` replaces the existing credentials, but keeps `scopes` and `webhook_secret` if they are left out.
    """

    unique_key: ProviderConfigKey | None = None
    display_name: DisplayName | None = None
    credentials: Credentials | None = None
    forward_webhooks: bool | None = None
    allowed_hosts: AllowedHosts | None = None
    allow_unsigned_webhooks: bool | None = None
    integration_config: TextMap | None = None
    custom: TextMap | None = None


def entry_issues(provider: Provider, body: NewIntegration | IntegrationChanges) -> Iterator[Issue]:
    """Yield an issue for each part of `body` that does not fit the provider's entry."""
    credentials, mode = body.credentials, provider.auth_mode
    if credentials is None and isinstance(body, NewIntegration) and mode in MODES_WITH_CREDENTIALS:
        yield Issue("invalid_type", f"credentials are missing: '{provider.name}' is {mode}.", ("credentials",))
    if credentials is not None and credentials.type != mode:
        mode_text = f"'{provider.name}' is {mode}"
        advice = (
            "whose integrations have no credentials"
            if mode not in CREDENTIAL_FIELDS
            else f"so credentials.type must be '{mode}'"
        )
        yield Issue("custom", f"{mode_text}, {advice}.", ("credentials", "type"))
    for name in body.integration_config or ():
        yield Issue(
            "unrecognized_keys",
            f"'{name[:64]}' is not a field: '{provider.name}' has no fields in integration_config.",
            ("integration_config", name),
        )


def fields_from_credentials(credentials: Any) -> Mapping[str, Any]:
    """Return the fields of an Integration that `credentials` replaces, with their new values. `scopes` and
    `webhook_secret` are included only if `credentials` has them."""
    if credentials is None:
        return {}
    fields: dict[str, Any] = {"client_id": None, "client_secret": None, "app_id": None, "app_link": None}
    fields |= {"private_key": None, **credentials.model_dump(exclude={"type"}, exclude_none=True)}
    for name in ("client_secret", "private_key", "webhook_secret"):
        if name in fields:
            fields[name] = Secret(fields[name]) if fields[name] else None
    if "scopes" in fields:
        fields["scopes"] = tuple(fields["scopes"].split(",")) if fields["scopes"] else None
    return fields


# ── The JSON of an integration (docs/compatibility.md#integrations).

CLIENT_FIELDS: Final = ("client_id", "client_secret", "scopes", "webhook_secret")


def _credential_fields(mode: ModeFormat) -> tuple[str, ...]:
    if not mode.needs_app:
        return CLIENT_FIELDS
    return ("client_id", "client_secret", *APP_KEYS) if mode.needs_client else APP_KEYS


_MODELS: Final = (ClientCredentials, RegisteredClient, AppCredentials, CustomCredentials)
CREDENTIAL_FIELDS: Final = {
    name: _credential_fields(AUTH_MODES[name])
    for model in _MODELS
    for name in get_args(model.model_fields["type"].annotation)
}
"""Auth mode ▸ the fields of an integration's credentials in this API. Auth modes without credentials are not
included."""


def integration_json(runtime: Runtime, generation: Generation, integration: Integration) -> responses.IntegrationJson:
    """Return the integration without its secrets. If the provider is no longer in the catalog, the display name and the
    logo are derived from the provider's name."""
    provider = generation.catalog.get(integration.provider)
    public_url = generation.public_url
    managed_row = integration.managed_row
    body: responses.IntegrationJson = {
        "unique_key": integration.integration_id,
        "provider": integration.provider,
        "display_name": integration.display_name or (provider.display_name if provider else integration.provider),
        "logo": generation.catalog.provider_json(provider.name, public_url)["logo_url"]
        if provider
        else f"{public_url}/images/template-logos/{integration.provider}.svg",
        "forward_webhooks": integration.forward_webhooks,
        "allow_unsigned_webhooks": integration.allow_unsigned_webhooks,
        "created_at": iso(managed_row.created_at if managed_row else runtime.started_at),
        "updated_at": iso(managed_row.updated_at if managed_row else runtime.started_at),
    }
    if integration.allowed_hosts:
        body["allowed_hosts"] = list(integration.allowed_hosts)
    return body


def credentials_json(generation: Generation, integration: Integration) -> dict[str, Any] | None:
    """Return the credentials for ``include=credentials``: each field of the integration's auth mode; null for a field
    that is not set. Return None if the auth mode has no such fields, or if the provider is no longer in the catalog."""
    provider = generation.catalog.get(integration.provider)
    names = CREDENTIAL_FIELDS.get(provider.auth_mode) if provider else None
    if provider is None or names is None:
        return None
    return {"type": provider.auth_mode, **{name: _plain_text(getattr(integration, name)) for name in names}}


def webhook_url(generation: Generation, integration: Integration) -> str | None:
    """Return the URL for the provider's webhooks (``include=webhook``), or None if the provider's entry names no script
    that routes webhooks."""
    provider = generation.catalog.get(integration.provider)
    if provider is None or not provider.webhook_routing_script:
        return None
    return generation.webhook_url(integration.environment, integration.integration_id)


def _plain_text(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    return ",".join(value) if isinstance(value, tuple) else value
