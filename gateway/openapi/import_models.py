"""Models of the credentials that an import accepts, by auth mode. Only the API's documentation uses these models.

The auth modes themselves check imported credentials (`gateway.auth`).
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict


class Imported(BaseModel):
    """Imported credentials. `type` may be left out: the integration's provider determines it."""

    model_config = ConfigDict(extra="allow")


class ClientOverride(Imported):
    """The end user's own OAuth client, instead of the integration's."""

    client_id: str | None = None
    client_secret: str | None = None


class ImportedOAuth2(Imported):
    """OAuth 2.0 tokens. `expires_at`: ISO 8601 or epoch seconds. `config_override`: the end user's own OAuth client."""

    type: Literal["OAUTH2", "MCP_OAUTH2", "MCP_OAUTH2_GENERIC"]
    access_token: str
    refresh_token: str | None = None
    expires_at: str | float | None = None
    expires_in: float | None = None
    config_override: ClientOverride | None = None


class ImportedClient(Imported):
    """Client credentials. `client_certificate` and `client_private_key`, in PEM, are for mutual TLS."""

    type: Literal["OAUTH2_CC"]
    client_id: str
    client_secret: str | None = None
    client_certificate: str | None = None
    client_private_key: str | None = None
    token: str | None = None
    expires_at: str | float | None = None


class ImportedOAuth1(Imported):
    type: Literal["OAUTH1"]
    oauth_token: str
    oauth_token_secret: str


class ImportedKey(Imported):
    """An API key.

    In all modes, the members that the provider's entry lists in `credentials` are also read, such as a signing secret.
    """

    type: Literal["API_KEY"]
    apiKey: str  # noqa: N815 (as published clients write it)


class ImportedPassword(Imported):
    """User name and password. Either may be empty."""

    type: Literal["BASIC", "INSTALL_PLUGIN"]
    username: str
    password: str


class ImportedToken(Imported):
    """A token-based authentication token. Also needs `connection_config.accountId`."""

    type: Literal["TBA"]
    token_id: str
    token_secret: str
    config_override: ClientOverride | None = None


class ImportedAsAsked(Imported):
    """The members that the provider's entry lists in `credentials`."""

    type: Literal["JWT", "TWO_STEP"]


class ImportedSignature(Imported):
    type: Literal["SIGNATURE"]
    username: str
    password: str


class ImportedBill(Imported):
    type: Literal["BILL"]
    username: str
    password: str
    organization_id: str
    dev_key: str


class ImportedAws(Imported):
    """AWS credentials: `access_key_id` and `secret_access_key`, or `role_arn`."""

    type: Literal["AWS_SIGV4"]
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    region: str | None = None
    service: str | None = None


class ImportedInstallation(Imported):
    """An installation of the app by an end user."""

    type: Literal["APP", "CUSTOM"]
    installation_id: str
    app_id: str | None = None


class ImportedNothing(Imported):
    type: Literal["NONE"]


IMPORTED: Final[tuple[type[BaseModel], ...]] = (
    ImportedOAuth2,
    ImportedClient,
    ImportedOAuth1,
    ImportedKey,
    ImportedPassword,
    ImportedToken,
    ImportedAsAsked,
    ImportedSignature,
    ImportedBill,
    ImportedAws,
    ImportedInstallation,
    ImportedNothing,
)


def credentials_schema(template: str) -> dict[str, Any]:
    """Return the schema of `Import.credentials`. It also allows any other object, because other packages can add auth
    modes."""
    shapes = [{"$ref": template.format(model=model.__name__)} for model in IMPORTED]
    return {"title": "Credentials", "anyOf": [*shapes, {"type": "object"}]}
