"""What is signed, and with which key: JWTs, signed tokens, signed requests."""

from typing import Any, Literal

from pydantic import Field

from gateway.catalog.shape import Shape


class Jwt(Shape):
    """The JSON Web Token (RFC 7519) that the mode signs.

    JWT sends it as the access token, TWO_STEP puts it into its token request as `${jwt}` (RFC 7523), APP asks with it for
    an installation's token, and with `token_request_auth_method: private_key_jwt` it is the client's proof.
    """

    header: dict[str, str] = Field(default_factory=dict)
    """Header parameters; `alg` is one of RS256, PS256, ES256, EdDSA, HS256 and their longer kin. Templates allowed."""
    claims: dict[str, Any] = Field(default_factory=dict)
    """Claims besides `iat` and `exp`, which the mode sets. Templates allowed; one whose values are unset is left out."""
    key: str
    """The key that signs, as a template: a private key in PEM or JWK, or the secret of an HMAC."""
    key_encoding: Literal["utf8", "hex", "base64"] | None = None
    """How the secret of an HMAC is written; `utf8` if absent."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds from `iat` to `exp`."""


class Signature(Shape):
    """The token that SIGNATURE makes anew from user name and password."""

    scheme: Literal["wsse"]
    """`wsse`: a WS-Security UsernameToken."""
    lifetime_s: int = Field(default=300, gt=0)
    """Seconds for which one may be sent."""


class RequestSigning(Shape):
    """How each request is signed."""

    scheme: Literal["aws-sigv4"]
    """`aws-sigv4`: AWS Signature Version 4."""
    region: str
    """Region in the credential scope. Templates allowed."""
    service: str
    """Service in the credential scope. Templates allowed."""
