"""Lists the auth modes: which fields of an entry each mode reads, and which placeholders each mode fills.

The package `gateway.auth` implements the modes. Plugin packages can add more modes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

CLIENT_PLACEHOLDERS: Final = ("clientId", "clientSecret")
TOKEN_PLACEHOLDERS: Final = ("accessToken", "access_token")
LOGIN_PLACEHOLDERS: Final = ("username", "password")
_CLIENT_KEYS: Final = ("client_id", "client_secret")
APP_KEYS: Final = ("app_id", "app_link", "private_key")

# Placeholders for parts of the request that is sent. Only templates of header fields and query parameters can use them.
# They are filled in again for each attempt to send the request.
REQUEST_PLACEHOLDERS: Final = frozenset(
    {"method", "endpoint", "host", "path", "params", "contentType", "urlCanonicalParams", "bodyCanonicalParams"}
)


@dataclass(frozen=True, slots=True)
class ModeFormat:
    """A description of an auth mode, for checks of entries and for authors of entries."""

    summary: str
    """What the mode does, in one sentence."""
    placeholders: tuple[str, ...] = ()
    """Placeholders without a dot that the mode fills, such as ``apiKey``. Any other member of the credential is written
    ``${credentials.name}``."""
    members: tuple[str, ...] = ()
    """Further members of the credential that a template can name (docs/compatibility.md#credentials)."""
    required_fields: tuple[str, ...] = ()
    """Fields that an entry must have."""
    optional_fields: tuple[str, ...] = ()
    """Optional fields that this mode reads and most other modes do not read."""
    typed_fields: tuple[str, ...] = ()
    """Fields that the end user fills in if the entry declares no `credentials`."""
    client_auth_methods: tuple[str, ...] = ("basic", "body", "custom", "none")
    """Values of `token_request_auth_method` that the mode supports."""
    integration_keys: tuple[str, ...] = ()
    """Keys of the integration for the client or app that the operator registered at the provider."""
    optional_integration_keys: tuple[str, ...] = ()
    """Further keys of the integration, which are optional: to fill placeholders, to assume an AWS role, or to replace
    dynamic client registration."""
    needs_client: bool = False
    """Whether the integration must have the operator's own client before end users can connect."""
    needs_app: bool = False
    """Whether tokens belong to an app that the end user installs, and that signs token requests with its own key."""
    redirects: bool = False
    """Whether the end user is sent to the provider to consent."""
    exchanges_code: bool = False
    """Whether the code of the callback is exchanged for tokens."""


_TOKEN_REQUEST: Final = (
    "token_params", "token_param_renames", "token_body", "token_headers", "token_request_method", "body_format",
    "token_response", "expires_in_unit", "token_ttl",
)  # fmt: skip
_AUTHORIZATION: Final = (
    "authorization_params", "authorization_param_renames", "authorization_url_fragment",
    "authorization_code_param_in_callback", "state_in_redirect_uri", "redirect_uri_metadata", "issuer", "disable_pkce",
    "scope_separator",
    "default_scopes", "available_scopes",
)  # fmt: skip
_CLIENT_AUTH: Final = ("token_request_auth_method", "require_client_certificate")
_REFRESH: Final = ("refresh_url", "refresh_params", "refresh_param_renames", "refresh")
_RESPONSE: Final = ("alternate_access_token_response_path", "token_response_metadata")
_ID_OR_SECRET_METHODS: Final = ("basic", "body", "none")
_GRANT: Final = (*_AUTHORIZATION, *_TOKEN_REQUEST, *_CLIENT_AUTH, *_REFRESH)
# The fields that both MCP modes read. They always use PKCE, and refresh at the token URL. Only MCP_OAUTH2 reads `issuer`:
# for MCP_OAUTH2_GENERIC, the server's metadata has it.
_MCP_FIELDS: Final = tuple(
    key
    for key in (*_GRANT, *_RESPONSE)
    if key not in {"issuer", "disable_pkce", "refresh_url", "require_client_certificate"}
)

AUTH_MODES: Final[Mapping[str, ModeFormat]] = MappingProxyType(
    {
        "OAUTH2": ModeFormat(
            "The end user consents at the provider; the code is exchanged for tokens, which are refreshed (RFC 6749).",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            required_fields=("authorization_url", "token_url"),
            optional_fields=(*_GRANT, *_RESPONSE, "additional_steps"),
            integration_keys=_CLIENT_KEYS,
            redirects=True,
            needs_client=True,
            exchanges_code=True,
        ),
        "OAUTH2_CC": ModeFormat(
            "The end user's own client is exchanged for tokens, without a redirect (RFC 6749 §4.4).",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            members=("client_id", "client_secret"),
            required_fields=("token_url",),
            optional_fields=(*_TOKEN_REQUEST, *_CLIENT_AUTH, "scope_separator", "default_scopes", "jwt"),
            client_auth_methods=("basic", "body", "private_key_jwt", "custom", "none"),
            typed_fields=("client_id", "client_secret"),
            optional_integration_keys=_CLIENT_KEYS,
        ),
        "OAUTH1": ModeFormat(
            "The end user consents at the provider; every request is signed with the token's secret (RFC 5849).",
            placeholders=CLIENT_PLACEHOLDERS,
            members=("oauth_token", "oauth_token_secret"),
            required_fields=("request_url", "authorization_url", "token_url"),
            optional_fields=("request_params", "authorization_params", "signature_method", "token_response_metadata"),
            integration_keys=_CLIENT_KEYS,
            redirects=True,
            needs_client=True,
        ),
        "API_KEY": ModeFormat(
            "One long-lived key. The entry says where it goes: a header field, a query parameter or the URL.",
            placeholders=("apiKey",),
            typed_fields=("apiKey",),
        ),
        "BASIC": ModeFormat(
            "A user name and a password, sent in the Authorization header (RFC 7617) unless the entry says otherwise.",
            placeholders=LOGIN_PLACEHOLDERS,
            typed_fields=LOGIN_PLACEHOLDERS,
        ),
        "JWT": ModeFormat(
            "The gateway signs a JWT and sends it as access token; it signs a new one before the old one expires (RFC 7519).",
            placeholders=TOKEN_PLACEHOLDERS,
            required_fields=("jwt",),
        ),
        "APP": ModeFormat(
            "The end user installs the operator's app; a JWT signed by the app is exchanged for the installation's tokens.",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            required_fields=("authorization_url", "token_url"),
            optional_fields=("jwt", "token_headers", "token_response", "redirect_uri_metadata"),
            integration_keys=APP_KEYS,
            redirects=True,
            optional_integration_keys=_CLIENT_KEYS,
            needs_app=True,
        ),
        "CUSTOM": ModeFormat(
            "The end user installs the operator's app, and also grants access with OAuth 2.0.",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            required_fields=("authorization_url", "token_url", "installation_token_url"),
            optional_fields=("installation_access_url", *_GRANT, "jwt"),
            integration_keys=(*_CLIENT_KEYS, *APP_KEYS),
            redirects=True,
            needs_client=True,
            needs_app=True,
            exchanges_code=True,
        ),
        "TBA": ModeFormat(
            "Token-based authentication: every request is signed with a token that an administrator created (RFC 5849 §3).",
            placeholders=CLIENT_PLACEHOLDERS,
            members=("token_id", "token_secret"),
            optional_fields=("signature_method",),
            typed_fields=("token_id", "token_secret"),
            integration_keys=_CLIENT_KEYS,
        ),
        "TWO_STEP": ModeFormat(
            "What the end user enters is exchanged for a token, in one request or in several.",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS, *LOGIN_PLACEHOLDERS, "apiKey", "jwt"),
            required_fields=("token_url",),
            optional_fields=(
                *_TOKEN_REQUEST,
                "additional_steps",
                "assertion_option",
                "jwt",
                "refresh_url",
                "refresh_params",
            ),
            optional_integration_keys=_CLIENT_KEYS,
        ),
        "SIGNATURE": ModeFormat(
            "The gateway builds a short-lived token from user name and password, and a new one when it has expired.",
            placeholders=(*TOKEN_PLACEHOLDERS, *LOGIN_PLACEHOLDERS),
            required_fields=("signature",),
            typed_fields=LOGIN_PLACEHOLDERS,
        ),
        "BILL": ModeFormat(
            "A login with user name, password, organization and developer key opens a session.",
            placeholders=(*TOKEN_PLACEHOLDERS, *LOGIN_PLACEHOLDERS),
            members=("organization_id", "dev_key", "session_id", "user_id"),
            required_fields=("token_url",),
            optional_fields=("token_params", "token_headers", "body_format", "token_response", "token_ttl"),
            typed_fields=(*LOGIN_PLACEHOLDERS, "organization_id", "dev_key"),
        ),
        "AWS_SIGV4": ModeFormat(
            "Every request is signed with an AWS access key, or with a temporary key of a role (AWS Signature Version 4).",
            members=(
                "access_key_id",
                "secret_access_key",
                "session_token",
                "role_arn",
                "external_id",
                "region",
                "service",
            ),
            required_fields=("request_signing",),
            typed_fields=("access_key_id", "secret_access_key"),
            optional_integration_keys=_CLIENT_KEYS,
        ),
        "INSTALL_PLUGIN": ModeFormat(
            "The end user installs the operator's plugin at the provider; the plugin's own key works for every installation.",
            placeholders=LOGIN_PLACEHOLDERS,
            optional_fields=("redirect_uri_metadata",),
            integration_keys=("app_link", *_CLIENT_KEYS),
            redirects=True,
            needs_client=True,
        ),
        "MCP_OAUTH2": ModeFormat(
            "A known MCP server: OAuth 2.0 whose client may register itself (RFC 7591).",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            required_fields=("authorization_url", "token_url"),
            optional_fields=("registration_url", "client_registration", "issuer", *_MCP_FIELDS),
            client_auth_methods=_ID_OR_SECRET_METHODS,
            integration_keys=_CLIENT_KEYS,
            redirects=True,
            exchanges_code=True,
        ),
        "MCP_OAUTH2_GENERIC": ModeFormat(
            "Any MCP server: the end user enters its URL, and the server describes the rest (RFC 9728, RFC 8414, RFC 7591).",
            placeholders=(*TOKEN_PLACEHOLDERS, *CLIENT_PLACEHOLDERS),
            optional_fields=("client_registration", *_MCP_FIELDS),
            client_auth_methods=_ID_OR_SECRET_METHODS,
            redirects=True,
            optional_integration_keys=_CLIENT_KEYS,
            exchanges_code=True,
        ),
        "NONE": ModeFormat("No credential at all: an open API, or one that only sends webhooks."),
    }
)
