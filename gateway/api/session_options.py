"""What a connect session may be limited and bound to, as its back end says it."""

import re
from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gateway.api.body import Strict
from gateway.catalog.value import is_web_address
from gateway.config import Config
from gateway.connections.origins import is_registered
from gateway.connections.return_address import origin_of
from gateway.connections.sessions import LIFETIME, LONGEST, MOST_CONNECTIONS, SHORTEST
from gateway.errors import InvalidRequest, Issue

S256: Final = re.compile(r"[A-Za-z0-9_-]{43}")
S256_SCHEMA: Final = {"pattern": f"^{S256.pattern}$"}


def _s256(text: str) -> str:
    if not S256.fullmatch(text):
        raise ValueError(
            "must be the S256 challenge of a verifier: 43 characters of base64url, without padding (RFC 7636 §4.2)"
        )
    return text


def _return_url(text: str) -> str:
    parts = urlsplit(text)
    if not is_web_address(text) or "#" in text or "@" in parts.netloc:
        raise ValueError("must be an https:// address of a page, without a user name and without '#'")
    if taken := {"state", "result"} & parse_qs(parts.query, keep_blank_values=True).keys():
        raise ValueError(f"must not have {min(taken)} in its query: the gateway adds it")
    origin_of(text)  # https, or http on loopback
    return text


class SessionOptions(Strict):
    """How long a session lives, what it may make, and what it is bound to; the same for new connections and reconnects.

    `expires_in`: in seconds. `max_connections`: how many connections it may make. `single_use`: it serves the first browser
    in which its end user continues, and no other. `code_challenge`: S256 (RFC 7636 §4.2); connections stay pending until
    ``POST /connect/sessions/{id}/complete`` with the verifier. `return_url`: the page of the application to which the end
    user returns, with `state`.
    """

    expires_in: int = Field(
        int(LIFETIME.total_seconds()), ge=int(SHORTEST.total_seconds()), le=int(LONGEST.total_seconds())
    )
    max_connections: Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)] | None = None
    single_use: bool = False
    code_challenge: Annotated[str, AfterValidator(_s256), Field(json_schema_extra=S256_SCHEMA)] | None = None
    code_challenge_method: Literal["S256"] | None = None
    return_url: Annotated[str, StringConstraints(max_length=2048), AfterValidator(_return_url)] | None = None
    state: Annotated[str, StringConstraints(max_length=512)] | None = None

    @model_validator(mode="after")
    def _together(self) -> "SessionOptions":
        if self.code_challenge_method is not None and self.code_challenge is None:
            raise ValueError("code_challenge_method comes with a code_challenge; give both or neither")
        if self.state is not None and self.return_url is None:
            raise ValueError("state comes back with return_url; give return_url too, or leave state out")
        return self


def fields_of(config: Config, environment: str, body: SessionOptions) -> dict[str, Any]:
    """`lifetime`, and fields of ConnectSession. Raises InvalidRequest for a session that must be bound and is not, and for a
    `return_url` of a page that is not the application's.
    """
    if body.code_challenge is None and config.environments[environment].requires_binding:
        message = (
            f"Environment '{environment}' requires a code_challenge (connect_binding). Send the S256 challenge of a verifier, "
            "and complete the session with that verifier."
        )
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("code_challenge",))])
    if body.return_url is not None:
        origin = origin_of(body.return_url)
        if not is_registered(config, environment, origin):
            message = (
                f"return_url is a page of {origin}, which is not among the connect_origins of environment '{environment}'. "
                "Add that origin in gateway.yaml, or use a page of one that is there."
            )
            raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("return_url",))])
    return {
        "lifetime": timedelta(seconds=body.expires_in),
        "single_use": body.single_use,
        "max_connections": 1 if body.single_use and body.max_connections is None else body.max_connections,
        "code_challenge": body.code_challenge,
        "return_url": body.return_url,
        "return_state": body.state,
    }
